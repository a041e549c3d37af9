//! Times, compared within rounds.
//!
//! In a round each contestant sends a batch, one contestant after the other, so that whatever slows the machine down
//! slows neighbours down alike. All ratios are taken within a round; medians are taken last.

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use overhead::contestants::{Contestant, Prepared, TOWER_ACC};

pub(crate) struct Options {
    rounds: usize,
    requests: u64,
    /// The fastest of so many parts of a batch counts.
    parts: u64,
    one_process: bool,
    json: Option<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let mut options = Self { rounds: 60, requests: 20_000, parts: 1, one_process: false, json: None };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--rounds" => options.rounds = words.next()?.parse().ok().filter(|&rounds| rounds > 0)?,
                "--requests" => options.requests = words.next()?.parse().ok().filter(|&requests| requests > 0)?,
                "--parts" => options.parts = words.next()?.parse().ok().filter(|&parts| parts > 0)?,
                "--json" => options.json = Some((*words.next()?).to_owned()),
                "--one-process" => options.one_process = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Where a contestant runs.
enum Runner {
    Here(Box<dyn Prepared>),
    Elsewhere { child: Child, stdin: ChildStdin, stdout: BufReader<ChildStdout> },
}

impl Runner {
    fn start(contestant: &Contestant, here: bool) -> Self {
        if here {
            return Self::Here(crate::prepared(contestant.name));
        }
        let program = env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["contestant", contestant.name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let stdin = child.stdin.take().expect("its input is piped");
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self::Elsewhere { child, stdin, stdout }
    }

    fn time(&mut self, requests: u64, parts: u64) -> f64 {
        match self {
            Self::Here(prepared) => crate::time(&**prepared, requests, parts),
            Self::Elsewhere { stdin, stdout, .. } => {
                writeln!(stdin, "{requests} {parts}").expect("the contestant listens");
                let mut line = String::new();
                stdout.read_line(&mut line).expect("the contestant answers");
                line.trim().parse().expect("the contestant answers with a number")
            }
        }
    }

    fn stop(self) {
        if let Self::Elsewhere { mut child, stdin, .. } = self {
            drop(stdin);
            child.wait().expect("the contestant ends");
        }
    }
}

/// So often the contestants get new processes: where their code and data lie is chance, and it costs or saves a little.
const GENERATIONS: usize = 6;

pub(crate) fn run(contestants: &[Contestant], options: &Options) {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); contestants.len()];
    let generations = if options.one_process { 1 } else { GENERATIONS.min(options.rounds) };
    for generation in 0..generations {
        let mut runners: Vec<Runner> =
            contestants.iter().map(|contestant| Runner::start(contestant, options.one_process)).collect();
        let rounds = (options.rounds + generation) / generations;
        for round in 0..rounds {
            for offset in 0..runners.len() {
                // Nobody always follows the same neighbour's mess at the same distance from the start of the round.
                let index = (offset + round) % runners.len();
                times[index].push(runners[index].time(options.requests, options.parts));
            }
        }
        runners.into_iter().for_each(Runner::stop);
    }
    let report = Report { contestants, times: &times };
    print!("{}", report.table());
    if let Some(file) = &options.json {
        fs::write(file, report.json()).expect("the file can be written");
    }
}

struct Report<'a> {
    contestants: &'a [Contestant],
    times: &'a [Vec<f64>],
}

/// A median, the quartiles around it, and the range around those.
struct Spread {
    median: f64,
    quartiles: [f64; 2],
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        let quartiles = [1, 3].map(|quarter| values[(values.len() - 1) * quarter / 4]);
        Self { median, quartiles, min: values[0], max: values[values.len() - 1] }
    }

    fn show(&self, digits: usize) -> String {
        let [low, high] = self.quartiles;
        format!("{:.digits$} ({low:.digits$}..{high:.digits$})", self.median)
    }

    fn json(&self) -> String {
        format!(r#"{{"median":{},"min":{},"max":{}}}"#, self.median, self.min, self.max)
    }
}

impl Report<'_> {
    fn index(&self, name: &str) -> Option<usize> {
        self.contestants.iter().position(|contestant| contestant.name == name)
    }

    fn net(&self, index: usize, round: usize) -> f64 {
        let base = self.index(self.contestants[index].baseline).expect("each baseline takes part");
        self.times[index][round] - self.times[base][round]
    }

    /// Its time, that in terms of its baseline, what it adds to that, and what that is in terms of tower-acc.
    fn figures(&self, index: usize) -> (Spread, Spread, Spread, Option<Spread>) {
        let rounds = 0..self.times[index].len();
        let base = self.index(self.contestants[index].baseline).expect("each baseline takes part");
        let relative = self
            .index(TOWER_ACC)
            .map(|acc| Spread::of(rounds.clone().map(|round| self.net(index, round) / self.net(acc, round))));
        (
            Spread::of(self.times[index].iter().copied()),
            Spread::of(rounds.clone().map(|round| self.times[index][round] / self.times[base][round])),
            Spread::of(rounds.map(|round| self.net(index, round))),
            relative,
        )
    }

    fn table(&self) -> String {
        let mut table = format!(
            "| contestant | ns | x its baseline | net ns | net / net of {TOWER_ACC} |\n|---|---:|---:|---:|---:|\n"
        );
        for (index, contestant) in self.contestants.iter().enumerate() {
            let (time, ratio, net, relative) = self.figures(index);
            let relative = relative.map_or_else(|| "-".to_owned(), |spread| spread.show(2));
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {relative} |",
                contestant.name,
                time.show(1),
                ratio.show(2),
                net.show(1),
            );
        }
        table
    }

    fn json(&self) -> String {
        let rows: Vec<String> = self
            .contestants
            .iter()
            .enumerate()
            .map(|(index, contestant)| {
                let (time, ratio, net, relative) = self.figures(index);
                format!(
                    r#"{{"name":"{}","baseline":"{}","ns":{},"ratio":{},"net_ns":{},"net_to_tower_acc":{}}}"#,
                    contestant.name,
                    contestant.baseline,
                    time.json(),
                    ratio.json(),
                    net.json(),
                    relative.map_or_else(|| "null".to_owned(), |spread| spread.json()),
                )
            })
            .collect();
        format!("[\n{}\n]\n", rows.join(",\n"))
    }
}
