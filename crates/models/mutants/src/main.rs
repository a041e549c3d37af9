//! Small mistakes in a copy of the library, and which of them the tests catch.
//!
//! ```text
//! cargo run --release --manifest-path crates/models/Cargo.toml -p admission-mutants -- [--minutes N] [--most N] [--seed S] [--in PREFIX]... [--again] [--quick] [--suites A,B]
//! ```
//!
//! See the README of this folder.

#![allow(clippy::disallowed_methods, reason = "programs of tests take real time")]

mod copy;
mod mutate;
mod run;
mod values;

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use copy::{Copy, SUITES};
use mutate::Mutant;
use run::{Baseline, Ended, attempt, baseline};

struct Options {
    minutes: u64,
    most: usize,
    seed: u64,
    within: Vec<String>,
    is_again: bool,
    suites: Vec<String>,
    slowest: f64,
}

fn options() -> Options {
    let mut options = Options {
        // A year.
        minutes: 525_600,
        most: usize::MAX,
        seed: 1,
        within: Vec::new(),
        is_again: false,
        suites: SUITES.map(|it| it.0.to_owned()).into(),
        slowest: f64::MAX,
    };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut next = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--minutes" => options.minutes = next().parse().expect("minutes"),
            "--most" => options.most = next().parse().expect("a number of mutants"),
            "--seed" => options.seed = next().parse().expect("a seed"),
            // Leaves out the few tests that take longest: a run of many mutants says more than a long run of few.
            "--slowest" => options.slowest = next().parse().expect("seconds"),
            // More than once for several folders.
            "--in" => options.within.push(next()),
            // Those that survived the last time, after tests were added.
            "--again" => options.is_again = true,
            // The tests of the library alone, without connections.
            "--quick" => options.suites.truncate(3),
            // Some of the suites, such as `lib,handle,fleet`.
            "--suites" => options.suites = next().split(',').map(str::to_owned).collect(),
            _ => panic!("{word} is unknown"),
        }
    }
    options
}

/// Which folder of the library a file is in: `crates/engine/src/queue`.
fn room(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    let most = if file.starts_with("crates/") { 5 } else { 4 };
    parts[..parts.len().min(most) - 1].join("/")
}

/// All mutants in an order of which each beginning is a sample with the same part of each room.
fn in_order(mutants: &[Mutant], seed: u64) -> Vec<&Mutant> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut rooms: BTreeMap<String, Vec<(u64, &Mutant)>> = BTreeMap::new();
    for it in mutants {
        rooms.entry(room(&it.file)).or_default().push((random(), it));
    }
    let mut all = Vec::new();
    for (_, mut those) in rooms {
        those.sort_by_key(|it| it.0);
        let offset = random() as f64 / u64::MAX as f64;
        let count = those.len() as f64;
        all.extend(those.into_iter().enumerate().map(|(place, it)| ((place as f64 + offset) / count, it.1)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|it| it.1).collect()
}

/// Runs the suites that reach a mutant, until a test catches it.
fn outcome(mutant: &Mutant, copy: &Copy, known: &[Baseline], slowest: f64) -> (&'static str, String) {
    let mut is_reached = false;
    for (suite, baseline) in copy.suites.iter().zip(known) {
        if !mutant.file.starts_with(suite.rooms) {
            continue;
        }
        is_reached |= baseline.reached.contains_key(&mutant.id);
        match attempt(suite, baseline, mutant.id, slowest) {
            Ended::Passed => {}
            Ended::Failed(test) => return ("caught", format!("{}: {test}", suite.name)),
            Ended::TimedOut => return ("timeout", suite.name.to_owned()),
        }
    }
    ("missed", if is_reached { "reached".to_owned() } else { "not reached".to_owned() })
}

/// The interval that holds the score of all mutants with 95 %, after Wilson.
fn interval(caught: f64, tried: f64) -> (f64, f64) {
    let z = 1.96_f64;
    let (part, square) = (caught / tried, z * z / tried);
    let middle = part + square / 2.0;
    let width = z * (part * (1.0 - part) / tried + square / (4.0 * tried)).sqrt();
    (100.0 * (middle - width) / (1.0 + square), 100.0 * (middle + width) / (1.0 + square))
}

fn main() {
    let options = options();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the repository");
    let target = env::var("CARGO_TARGET_DIR").map_or_else(|_| repository.join("target"), Into::into);
    let work = target.join("mutants");
    fs::create_dir_all(&work).expect("a folder for the copy");
    // Cargo runs in the copy: a relative path would be another one there.
    let work = work.canonicalize().expect("the folder is there");
    let copy = copy::build(repository, &work, &options.suites);
    let known: Vec<Baseline> = copy.suites.iter().map(|suite| baseline(suite, &work)).collect();

    let path = work.join("outcomes.txt");
    let mut outcomes: BTreeMap<u32, String> = fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .filter_map(|it| Some((it.split_once(' ')?.0.parse().ok()?, it.to_owned())))
        .collect();
    if options.is_again {
        outcomes.retain(|_, it| !it.contains(" missed "));
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).expect("a file for the outcomes");
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    let wanted = in_order(&copy.mutants, options.seed);
    let is_within = |file: &str| options.within.is_empty() || options.within.iter().any(|it| file.starts_with(it));
    let wanted = wanted.into_iter().filter(|it| is_within(&it.file) && !copy.dropped.contains(&it.id));
    let mut tried: Vec<&Mutant> = Vec::new();
    for mutant in wanted.take(options.most) {
        if Instant::now() > end {
            break;
        }
        tried.push(mutant);
        if outcomes.contains_key(&mutant.id) {
            continue;
        }
        let (how, why) = outcome(mutant, &copy, &known, options.slowest);
        let Mutant { id, file: of, line, function, what } = mutant;
        let line = format!("{id} {how} ({why}) {of}:{line} {function}: {what}");
        println!("{line}");
        writeln!(file, "{line}").expect("the file of outcomes grows");
        outcomes.insert(*id, line);
    }
    report(&copy, &tried, &outcomes, &work);
}

/// Prints the score, and writes it where `admission-verification` reads it.
fn report(copy: &Copy, tried: &[&Mutant], outcomes: &BTreeMap<u32, String>, work: &Path) {
    let mut rooms: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut missed = String::new();
    for mutant in tried {
        let line = &outcomes[&mutant.id];
        let how = ["caught", "timeout", "missed"]
            .iter()
            .position(|it| line.contains(&format!(" {it} ")))
            .expect("an outcome");
        rooms.entry(room(&mutant.file)).or_default()[how] += 1;
        if how == 2 {
            writeln!(missed, "{line}").expect("a string grows");
        }
    }
    println!("\n| room | caught | timed out | missed |\n|---|---|---|---|");
    let mut sum = [0; 3];
    for (room, counts) in &rooms {
        println!("| `{room}` | {} | {} | {} |", counts[0], counts[1], counts[2]);
        (0..3).for_each(|it| sum[it] += counts[it]);
    }
    let [caught, timeout, missed_count] = sum;
    let (good, all) = ((caught + timeout) as f64, tried.len().max(1) as f64);
    let (low, high) = interval(good, all);
    let unviable = copy.dropped.len();
    println!(
        "\nmutants: {}, caught {caught}, timed out {timeout}, missed {missed_count}, unviable {unviable}, skipped {}",
        tried.len(),
        copy.constant
    );
    println!(
        "score {:.1} % of {} (95 %: {low:.1} to {high:.1}), of {} in all",
        100.0 * good / all,
        tried.len(),
        copy.mutants.len() - unviable
    );
    let json = format!(
        "{{\"caught\": {caught}, \"timeout\": {timeout}, \"missed\": {missed_count}, \"unviable\": {unviable}, \"skipped\": {}}}\n",
        copy.constant
    );
    fs::write(work.join("outcomes.json"), json).expect("the outcomes");
    fs::write(work.join("missed.txt"), missed).expect("the list of what is missed");
}
