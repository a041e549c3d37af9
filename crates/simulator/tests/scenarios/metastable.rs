//! Does it come back? For ten seconds a server is slower by some factor; then all is as before, but for what has piled up
//! and for the clients that come again. A queue in which everybody waits for longer than anybody has patience never
//! drains: each slot goes to somebody who leaves before the answer (Bronson et al., *Metastable Failures in Distributed
//! Systems*, HotOS 2021).
//!
//! `METASTABLE=full cargo test --test scenarios metastable -- --nocapture` runs all cells, on both kinds of server and
//! for three seeds, and prints them.

use std::fmt::Write;

use admission_simulator::{policy::VirtualClock, record::Bin};

use super::{parse, report};

const LOADS: [f64; 3] = [0.5, 0.7, 0.9];
const SLOWER: [u32; 3] = [2, 5, 10];
const QUEUES: [usize; 4] = [0, 64, 1_000, 10_000];
const RETRIES: [(&str, &str); 4] = [
    ("none", "retries = 0"),
    ("three", "retries = 3\njitter = false"),
    ("three, jitter", "retries = 3"),
    ("three, at once", "retries = 3\njitter = false\nbackoff = \"0ms\""),
];
const SERVERS: [(&str, &str); 2] = [
    ("a pool of 16 workers", "model = \"pool\"\nworkers = 16"),
    ("a shared server, best at 32", "model = \"shared\"\nknee = 32"),
];
/// Within so many seconds each cell recovers that should.
const SOON: f64 = 5.0;

/// The law with its defaults, and clients that say how long they wait.
const DEFAULTS: (&str, bool) = ("law = { kind = \"two-point\" }", true);
/// A limit that is right, and clients that don't.
const CONTROL: (&str, bool) = ("law = { kind = \"fixed\", limit = 16 }", false);

/// When the trigger ends, and the scenario, in seconds.
const TRIGGER_ENDS: usize = 20;
const END: usize = 45;

#[derive(Clone, Copy)]
struct Cell {
    load: f64,
    slower: u32,
    queue: usize,
    retries: usize,
    server: usize,
}

impl Cell {
    /// How many seconds after the end of the trigger 95 % of those who arrive are served in time again, for the next
    /// three seconds and on the whole until the end; `None` for never.
    fn recovers(self, (policy, sends_deadline): (&str, bool), seed: u64) -> Option<f64> {
        let Self { load, slower, queue, retries, server } = self;
        // Both do 320 requests/s at best.
        let text = format!(
            r#"
            duration = "{END}s"
            arrivals = {{ rate = {} }}
            service = {{ distribution = "lognormal", mean = "50ms", sigma = 0.3 }}
            changes = [{{ at = "10s", capacity = {} }}, {{ at = "{TRIGGER_ENDS}s", capacity = 1.0 }}]
            [server]
            {}
            abandoned = "held"
            [clients]
            deadline = "1s"
            sends_deadline = {sends_deadline}
            {}
            [policy]
            queue = {queue}
            {policy}
            "#,
            320.0 * load,
            1.0 / f64::from(slower),
            SERVERS[server].1,
            RETRIES[retries].1,
        );
        let scenario = parse(&text).unwrap();
        let report = report(&scenario, &scenario.policy, seed);
        let after = &report.bins[TRIGGER_ENDS * 10..END * 10];
        (0..=after.len() - 30)
            .find(|&from| are_served(&after[from..from + 30]) && are_served(&after[from..]))
            .map(|tenths| f64::from(u32::try_from(tenths).unwrap()) / 10.0)
    }

    /// Whether it stays down where nobody knows how long clients wait: the queue is longer than that, it fills, and
    /// those who come again make up for those who leave.
    const fn stays_down_without_deadlines(self) -> bool {
        let Self { load, slower, queue, retries, .. } = self;
        queue >= 1_000 && retries > 0 && load * slower as f64 > 1.0
    }
}

fn are_served(bins: &[Bin]) -> bool {
    let sum = |count: fn(&Bin) -> u32| bins.iter().map(|bin| f64::from(count(bin))).sum::<f64>();
    sum(|bin| bin.served) >= 0.95 * sum(|bin| bin.offered)
}

fn cells(loads: &[f64], slower: &[u32], servers: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &server in servers {
        for &load in loads {
            for &slower in slower {
                for retries in 0..RETRIES.len() {
                    cells.extend(QUEUES.map(|queue| Cell { load, slower, queue, retries, server }));
                }
            }
        }
    }
    cells
}

fn is_full() -> bool {
    std::env::var("METASTABLE").is_ok_and(|it| it == "full")
}

/// Some of the cells, or all of them, and the seeds.
fn grid(servers: &[usize]) -> (Vec<Cell>, Vec<u64>) {
    if is_full() {
        (cells(&LOADS, &SLOWER, servers), vec![1, 2, 3])
    } else {
        (cells(&LOADS[1..], &SLOWER[1..], &servers[..1]), vec![1])
    }
}

/// For each cell the slowest seed.
fn run(cells: &[Cell], policy: (&str, bool), seeds: &[u64]) -> Vec<Option<f64>> {
    let slowest = |cell: &Cell| {
        let times: Option<Vec<f64>> = seeds.iter().map(|&seed| cell.recovers(policy, seed)).collect();
        times.map(|times| times.into_iter().fold(0.0, f64::max))
    };
    let times: Vec<_> = cells.iter().map(slowest).collect();
    if is_full() {
        println!("{}", table(cells, &times));
    }
    times
}

/// A row for each server, load and factor; in it for each way to try again the seconds for each queue.
fn table(cells: &[Cell], times: &[Option<f64>]) -> String {
    let mut text = format!("queues of {QUEUES:?}; seconds, - is never\n| load | slower |");
    RETRIES.iter().for_each(|(name, _)| _ = write!(text, " retries: {name} |"));
    let row = RETRIES.len() * QUEUES.len();
    for (cells, times) in cells.chunks(row).zip(times.chunks(row)) {
        let Cell { load, slower, server, .. } = cells[0];
        _ = write!(text, "\n| {}: {load} | {slower} |", SERVERS[server].0);
        for times in times.chunks(QUEUES.len()) {
            for time in times {
                text.push_str(&time.map_or_else(|| " -".to_owned(), |time| format!(" {time}")));
            }
            text.push_str(" |");
        }
    }
    text
}

fn wrong(cells: &[Cell], times: &[Option<f64>], holds: impl Fn(&Cell, Option<f64>) -> bool) -> String {
    let wrong: Vec<_> = cells.iter().zip(times).filter(|&(cell, &time)| !holds(cell, time)).collect();
    wrong.iter().fold(String::new(), |mut text, (cell, time)| {
        let Cell { load, slower, queue, retries, server } = cell;
        let (server, retries) = (SERVERS[*server].0, RETRIES[*retries].0);
        _ = writeln!(text, "{server}, load {load}, {slower} times slower, queue {queue}, retries {retries}: {time:?}");
        text
    })
}

#[test]
fn metastable_defaults_recover_within_seconds() {
    let (cells, seeds) = grid(&[0, 1]);
    let times = run(&cells, DEFAULTS, &seeds);
    let wrong = wrong(&cells, &times, |_, time| time.is_some_and(|time| time <= SOON));
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn metastable_queues_longer_than_patience_stay_down() {
    let (cells, seeds) = grid(&[0]);
    let times = run(&cells, CONTROL, &seeds);
    let wrong = wrong(&cells, &times, |cell, time| time.is_none() == cell.stays_down_without_deadlines());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(times.iter().filter(|time| time.is_none()).count() * 4 >= cells.len());
}

/// Where clients don't say how long they wait, a bound on the wait below that does the same.
#[test]
fn metastable_queues_with_a_bound_on_the_wait_recover() {
    let (cells, seeds) = grid(&[0]);
    let times = run(&cells, ("max_wait = \"500ms\"\nlaw = { kind = \"two-point\" }", false), &seeds);
    let wrong = wrong(&cells, &times, |_, time| time.is_some_and(|time| time <= SOON));
    assert!(wrong.is_empty(), "{wrong}");
}

/// A queue without a bound in time is warned about when a handle is built.
#[test]
fn metastable_queues_are_warned_about() {
    let warns = |policy: &str| {
        let text = format!(
            r#"
            duration = "1s"
            arrivals = {{ rate = 1.0 }}
            service = {{ distribution = "constant", mean = "50ms" }}
            server = {{ model = "pool", workers = 16 }}
            [policy]
            {policy}
            "#
        );
        let warnings = parse(&text).unwrap().policy.build(&VirtualClock::default()).warnings();
        warnings.iter().any(|it| it.contains("without a bound in time"))
    };
    for cell in cells(&LOADS, &SLOWER, &[0]).into_iter().filter(|cell| cell.stays_down_without_deadlines()) {
        assert!(warns(&format!("queue = {}\n{}", cell.queue, CONTROL.0)));
    }
    assert!(!warns("queue = 10000\nmax_wait = \"500ms\""));
    assert!(!warns("queue = 10000\npatience = \"1s\""));
}
