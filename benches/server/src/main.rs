//! What tower-admission costs a real axum server, next to the same server without it. See the README.

mod apps;
mod load;
mod process;

use std::{env, process::ExitCode};

use apps::{PAIRS, Pair};
use load::Tool;
use process::{Server, serve};

const USAGE: &str =
    "usage: server [--rounds N] [--seconds N] [--connections N] [--workers N] [--tool wrk|h2load] [--pair NAME]…";

/// After so many rounds both servers get new processes: where their code and data lie is chance, and costs or saves a
/// little.
const GENERATION: usize = 5;

struct Options {
    rounds: usize,
    seconds: u64,
    connections: usize,
    workers: usize,
    tool: Tool,
    /// All of them, if none is named.
    pairs: Vec<String>,
}

impl Options {
    fn parse(words: &[&str]) -> Option<Self> {
        let mut options =
            Self { rounds: 20, seconds: 1, connections: 32, workers: 1, tool: Tool::Wrk, pairs: Vec::new() };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let value = *words.next()?;
            match word {
                "--rounds" => options.rounds = value.parse().ok().filter(|&rounds| rounds > 0)?,
                "--seconds" => options.seconds = value.parse().ok().filter(|&seconds| seconds > 0)?,
                "--connections" => options.connections = value.parse().ok()?,
                "--workers" => options.workers = value.parse().ok()?,
                "--tool" => options.tool = Tool::parse(value)?,
                "--pair" => options.pairs.push(PAIRS.iter().find(|pair| pair.name == value)?.name.to_owned()),
                _ => return None,
            }
        }
        Some(options)
    }

    fn pairs(&self) -> impl Iterator<Item = &'static Pair> {
        PAIRS.iter().filter(|pair| self.pairs.is_empty() || self.pairs.iter().any(|name| name == pair.name))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["serve", name, workers] = words[..] {
        serve(name, workers.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let Some(options) = Options::parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    println!("| with | requests/s | without | ratio: median (quartiles) | target | CPU time without / with |");
    println!("|---|---:|---:|---:|---:|---:|");
    for pair in options.pairs() {
        report(pair, &compare(pair, &options));
    }
    ExitCode::SUCCESS
}

/// Requests per second, and nanoseconds of processor time for each request.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu: Option<f64>,
}

/// Without and with, for each round.
fn compare(pair: &Pair, options: &Options) -> Vec<[Figures; 2]> {
    let start = || [pair.without, pair.with].map(|app| Server::start(app, options.workers));
    let mut servers = start();
    let [without, with] = servers.each_ref().map(Server::answer);
    assert_eq!(without, with, "both answer the same");
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        if round > 0 && round % GENERATION == 0 {
            servers = start();
        }
        let mut figures = [None; 2];
        // What comes first takes turns, for what the machine does meanwhile may have a rhythm.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            figures[index] = Some(measure(&servers[index], pair.refuses, options));
        }
        rounds.push(figures.map(|figures| figures.expect("both were measured")));
    }
    rounds
}

#[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
fn measure(server: &Server, refuses: bool, options: &Options) -> Figures {
    let before = server.cpu_time();
    let seen = options.tool.send(server.address, options.connections, options.seconds);
    let after = server.cpu_time();
    let refused = if refuses { seen.requests } else { 0 };
    assert_eq!(seen.refused, refused, "of {} requests", seen.requests);
    let cpu = before.zip(after).map(|(before, after)| (after - before) as f64 / seen.requests as f64);
    Figures { per_second: seen.per_second, cpu }
}

fn report(pair: &Pair, rounds: &[[Figures; 2]]) {
    let of = |figure: fn(&[Figures; 2]) -> f64| quartiles(rounds.iter().map(figure).collect());
    let [_, with, _] = of(|[_, with]| with.per_second);
    let [_, without, _] = of(|[without, _]| without.per_second);
    let [low, median, high] = of(|[without, with]| with.per_second / without.per_second);
    let target = pair.target.map_or_else(|| "-".to_owned(), |target| format!("{target:.2}"));
    let cpu: Vec<f64> = rounds.iter().filter_map(|[without, with]| Some(without.cpu? / with.cpu?)).collect();
    let cpu = if cpu.is_empty() {
        "-".to_owned()
    } else {
        let [low, median, high] = quartiles(cpu);
        format!("{median:.3} ({low:.3}..{high:.3})")
    };
    let name = pair.name;
    println!("| {name} | {with:.0} | {without:.0} | {median:.3} ({low:.3}..{high:.3}) | {target} | {cpu} |");
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        // Between two values where there is none in place.
        let (place, rest) = ((values.len() - 1) * quarter / 4, (values.len() - 1) * quarter % 4);
        let next = values[(place + 1).min(values.len() - 1)];
        values[place] + (next - values[place]) * [0.0, 0.25, 0.5, 0.75][rest]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values_where_they_must() {
        assert_eq!(quartiles(vec![5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![2.0, 1.0]), [1.25, 1.5, 1.75]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
    }
}
