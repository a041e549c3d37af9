//! What a request through tower-admission costs, next to what it costs through its peers. See the README.

mod callgrind;
mod instructions;
mod ratios;

use std::{
    collections::HashSet,
    env,
    io::{self, BufRead, Write},
    process::ExitCode,
    time::Instant,
};

use instructions::Table;
use overhead::{
    contestants::{BARE, Contestant, LAWS, Prepared, REAL, ROUTER, RULES, SERVICES, SIGNALS, all, find},
    rows::targets,
};

const USAGE: &str = "usage: overhead [ratios | targets | real | router | laws | rules | signals]
                [--rounds N] [--requests N] [--parts N] [--one-process] [--json FILE]
       overhead callgrind [targets | real | router | rules | signals | --profile CONTESTANT | --check | --write]
       overhead sizes
and, as a program of its own: allocations";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["contestant", name] => serve(name),
        ["run", name, count] => prepared(name).run(count.parse().expect("a number")),
        ["sizes"] => sizes(),
        ["callgrind"] => callgrind::table(SERVICES.iter().chain(LAWS)),
        ["callgrind", "targets"] => callgrind::table(&targets()),
        ["callgrind", "router"] => callgrind::table(ROUTER),
        ["callgrind", "rules"] => callgrind::table(RULES),
        ["callgrind", "signals"] => callgrind::table(SIGNALS),
        ["callgrind", "--check"] => return done(check()),
        ["callgrind", "--write"] => return done(instructions().write()),
        ["callgrind", "--profile", name] => callgrind::profile(name),
        ["targets", ref options @ ..] => return ratios(&targets(), options),
        ["callgrind", "real"] => callgrind::table(REAL),
        ["real", ref options @ ..] => return ratios(REAL, options),
        ["router", ref options @ ..] => return ratios(ROUTER, options),
        ["signals", ref options @ ..] => return ratios(SIGNALS, options),
        ["rules", ref options @ ..] => return ratios(RULES, options),
        ["laws", ref options @ ..] => return ratios(LAWS, options),
        ["ratios", ref options @ ..] | ref options => return ratios(SERVICES, options),
    }
    ExitCode::SUCCESS
}

/// All paths but those that publish metrics: how much there is to publish depends on the time that passed, which is another
/// one under valgrind each time. The same holds for the time that it takes to compare the counter of the processor with the
/// system's clock.
fn instructions() -> Table {
    // What others are compared with takes part in several lists.
    let mut names = HashSet::new();
    let steady = all().filter(|contestant| {
        !["journal and metrics", "processor clock"].iter().any(|ending| contestant.name.ends_with(ending))
    });
    callgrind::instructions(steady.filter(|contestant| names.insert(contestant.name)))
}

/// Compares with the committed table.
fn check() -> Result<(), String> {
    // Read first: counting takes a minute.
    let expected = Table::read()?;
    let differences = expected.differences(&instructions());
    if differences.is_empty() {
        println!("instructions: {} paths are within 2 %", expected.lines.len());
        return Ok(());
    }
    Err(format!("{}\n`callgrind --write` writes the table anew, if that is as it should be", differences.join("\n")))
}

fn done(result: Result<(), String>) -> ExitCode {
    result.map_or_else(
        |problem| {
            eprintln!("{problem}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn ratios(contestants: &[Contestant], words: &[&str]) -> ExitCode {
    let Some(options) = ratios::Options::parse(words) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    ratios::run(contestants, &options);
    ExitCode::SUCCESS
}

/// Sets a contestant up, within a runtime that starts what it starts for it.
fn prepared(name: &str) -> Box<dyn Prepared> {
    let contestant = find(name).unwrap_or_else(|| panic!("nobody is called {name:?}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    // Both last for the process: it does nothing else.
    let runtime = Box::leak(Box::new(runtime));
    std::mem::forget(runtime.enter());
    let prepared = (contestant.prepare)();
    prepared.run(100);
    runtime.block_on(tokio::task::yield_now());
    prepared
}

/// The time that each of so many requests took, in nanoseconds: in the fastest of so many parts of them.
#[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
#[expect(clippy::disallowed_methods, reason = "this measures the clock of the handle, among other things")]
fn time(prepared: &dyn Prepared, requests: u64, parts: u64) -> f64 {
    prepared.run(requests / 8);
    let each = (requests / parts).max(1);
    let part = |_| {
        let start = Instant::now();
        prepared.run(each);
        start.elapsed().as_secs_f64() * 1e9 / each as f64
    };
    (0..parts).map(part).fold(f64::INFINITY, f64::min)
}

/// Times one batch for each line on standard input, which says how many requests it has and in how many parts.
fn serve(name: &str) {
    let prepared = prepared(name);
    for line in io::stdin().lock().lines() {
        let line = line.expect("a line");
        let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        let (Some(requests), Some(parts)) = (numbers.next(), numbers.next()) else { panic!("found {line:?}") };
        println!("{}", time(&*prepared, requests, parts));
        io::stdout().flush().expect("somebody listens");
    }
}

fn sizes() {
    let [_, bare_future, bare_body] = (SERVICES[0].prepare)().sizes();
    println!("| contestant | service | future, beyond that of {BARE} | body, beyond that of {BARE} |");
    println!("|---|---:|---:|---:|");
    for contestant in SERVICES.iter().filter(|contestant| contestant.baseline == BARE) {
        let [service, future, body] = prepared(contestant.name).sizes();
        let beyond = |size: usize, bare: usize| format!("{size} ({:+})", size.cast_signed() - bare.cast_signed());
        println!("| {} | {service} | {} | {} |", contestant.name, beyond(future, bare_future), beyond(body, bare_body));
    }
    println!("\nA permit has {} bytes. All sizes are in bytes.", size_of::<tower_admission::Permit>());
}
