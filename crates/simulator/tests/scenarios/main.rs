//! Overload in virtual time: every scenario in `scenarios` for several seeds, and the simulator itself against
//! what theory says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fields;
mod metastable;
mod queues;

use std::{collections::BTreeSet, path::Path};

use admission_simulator::{
    check::check, metrics::Report, node::Problems, policy::Policy, scenario::Scenario, windows::metric, world,
};
use toml::Table;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::read("test", &text.parse::<Table>().unwrap(), Path::new(FOLDER))
}

fn load(name: &str) -> Scenario {
    let text = std::fs::read_to_string(format!("{FOLDER}/{name}.toml")).unwrap();
    parse(&text).unwrap_or_else(|problems| panic!("{name}:\n{problems}"))
}

/// One test for each file, so that a failure has a name and the others still run.
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $test:ident $file:literal)*) => {
        const FILES: &[&str] = &[$($file),*];
        $($(#[$attribute])* #[test] fn $test() {
            let wrong = check(&load($file));
            assert!(wrong.is_empty(), "{}:\n{}", $file, wrong.join("\n"));
        })*
    };
}

scenarios! {
    adaptive_lifo "adaptive-lifo"
    adaptive_lifo_burst "adaptive-lifo-burst"
    born_in_overload "born-in-overload"
    cold_start "cold-start"
    cold_start_slow "cold-start-slow"
    criticality "criticality"
    criticality_aging "criticality-aging"
    deadlines "deadlines"
    delay_pool "delay-pool"
    drop_pool "drop-pool"
    fair_backlog "fair-backlog"
    fair_shed "fair-shed"
    fair_sparse "fair-sparse"
    feeds_itself "feeds-itself"
    flood_shed "flood-shed"
    heavy_tail "heavy-tail"
    idle_burst "idle-burst"
    incident "incident"
    long_overload "long-overload"
    low_traffic "low-traffic"
    mix_overload "mix-overload"
    mix_shift "mix-shift"
    noisy_neighbour "noisy-neighbour"
    noisy_neighbour_burst "noisy-neighbour-burst"
    noisy_neighbour_queue "noisy-neighbour-queue"
    noisy_neighbour_shed "noisy-neighbour-shed"
    noisy_neighbour_shed_cap "noisy-neighbour-shed-cap"
    noisy_neighbour_wait "noisy-neighbour-wait"
    nothing_set "nothing-set"
    one_tenant_capped "one-tenant-capped"
    overload_10x "overload-10x"
    overload_pool "overload-pool"
    overload_runs_on "overload-runs-on"
    overload_shared "overload-shared"
    patience "patience"
    ramp_shared "ramp-shared"
    retry_jitter "retry-jitter"
    retry_storm "retry-storm"
    square_wave "square-wave"
    steady_pool "steady-pool"
    steady_shared "steady-shared"
    step_shared "step-shared"
    tight_deadline "tight-deadline"
    trace "trace"
    workers_lost "workers-lost"
}

#[test]
fn every_scenario_is_a_test() {
    let files: BTreeSet<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".toml").map(str::to_owned))
        .collect();
    assert_eq!(files, FILES.iter().map(|&file| file.to_owned()).collect());
}

fn report(scenario: &Scenario, policy: &Policy, seed: u64) -> Report {
    Report::run(scenario, policy, seed, None)
}

fn value(report: &Report, name: &str) -> f64 {
    report.windows[0][metric(name).unwrap()]
}

fn assert_close(found: f64, wanted: f64, percent: f64) {
    assert!((found / wanted - 1.0).abs() * 100.0 < percent, "found {found}, wanted is {wanted} within {percent} %");
}

/// An M/M/c queue waits `C(c, a) / (c * mu - lambda)` on average, with C from Erlang.
#[test]
fn a_pool_waits_as_erlang_says() {
    let scenario = |workers: u32| {
        let text = format!(
            r#"
            duration = "2000s"
            warmup = "10s"
            arrivals = {{ rate = 224.0 }}
            service = {{ distribution = "exponential", mean = "50ms" }}
            server = {{ model = "pool", workers = {workers} }}
            policy = {{ law = {{ kind = "none" }} }}
            "#
        );
        parse(&text).unwrap()
    };
    let mean = |workers| {
        let scenario = scenario(workers);
        let record = world::run(&scenario, &scenario.policy, 1);
        let latencies = &record.tallies[0].latencies;
        latencies.iter().map(|&it| f64::from(it)).sum::<f64>() / latencies.len() as f64 / 100.0
    };
    // With the same seed, what a pool without a bound takes is the service time of exactly these requests.
    let (workers, load) = (16u32, 11.2f64);
    let blocking = (1..=workers).fold(1.0, |blocking, n| load * blocking / (f64::from(n) + load * blocking));
    let waits = blocking / (1.0 - load / f64::from(workers) * (1.0 - blocking));
    let wait = waits * 50.0 / (f64::from(workers) - load);
    assert_close(wait, 1.351, 0.1);
    assert_close(mean(workers) - mean(100_000), wait, 4.0);
}

/// With `n` always in service, a shared server finishes `n / (work * (1 + (n / knee)²))`.
#[test]
fn a_crowded_server_does_what_the_formula_says() {
    for limit in [8u32, 16, 32, 64, 128] {
        let text = format!(
            r#"
            duration = "100s"
            warmup = "10s"
            arrivals = {{ rate = 1000.0 }}
            service = {{ distribution = "exponential", mean = "50ms" }}
            server = {{ model = "shared", knee = 32 }}
            policy = {{ shed = true, law = {{ kind = "fixed", limit = {limit} }} }}
            "#
        );
        let scenario = parse(&text).unwrap();
        let answers = world::run(&scenario, &scenario.policy, 1).tallies[0].admitted as f64 / 90.0;
        let limit = f64::from(limit);
        // Between two requests a slot stands empty until the next one arrives.
        let empty = limit / 1_000.0 / (limit / answers);
        assert_close(answers, (limit - empty) / (0.05 * (1.0 + (limit / 32.0).powi(2))), 2.0);
    }
}

#[test]
fn processor_sharing_doubles_the_time_of_two() {
    let text = r#"
        duration = "10s"
        arrivals = { process = "bursts", size = 2, every = "5s" }
        service = { distribution = "constant", mean = "100ms" }
        server = { model = "shared", knee = 2 }
    "#;
    let found = report(&parse(text).unwrap(), &Policy::fixed(10), 1);
    assert_eq!(value(&found, "p50"), 200.0, "two in service, knee at two: each takes 1 + (2 / 2)² times as long");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let mut scenario = load("retry-jitter");
    scenario.duration = 30 * 60 * 1_000_000_000;
    let hash = |seed| report(&scenario, &scenario.policy, seed).hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn every_policy_meets_the_same_arrivals() {
    let scenario = load("overload-shared");
    let offered = |limit| -> Vec<u32> {
        report(&scenario, &Policy::fixed(limit), 5).bins.iter().map(|bin| bin.offered).collect()
    };
    assert_eq!(offered(1), offered(1_000));
}

#[test]
fn work_that_stops_frees_its_worker() {
    let run = |abandoned| {
        let text = format!(
            r#"
            duration = "60s"
            arrivals = {{ process = "bursts", size = 2, every = "700ms" }}
            service = {{ distribution = "constant", mean = "500ms" }}
            server = {{ model = "pool", workers = 1, abandoned = "{abandoned}" }}
            clients = {{ deadline = "600ms" }}
            policy = {{ law = {{ kind = "none" }} }}
            "#
        );
        let scenario = parse(&text).unwrap();
        value(&report(&scenario, &scenario.policy, 1), "served")
    };
    assert!(run("runs-on") < 5.0, "the worker is busy for those who left");
    assert_eq!(run("stops"), 50.0, "the second of each two leaves, and the worker is free for the next two");
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_with_its_path() {
    let text = r#"
        duration = "fast"
        colour = "red"
        arrivals = { rate = -1, jitter = true }
        service = { distribution = "normal", mean = "50ms" }
        server = { model = "pool" }
        changes = [{ at = "10s", load = 2.0 }, { at = "5s", capacity = 0.0 }]
        policy = { law = { kind = "aimd", threshold = 500 }, partitions = [{ name = "a", percent = 60 }, { name = "b", percent = 50 }], aging = "often", discipline = { lifo = 1, adaptive_lifo = { interval = "1s" } }, labels = { max_wait = 5, weights = { a = 0 }, color = "red" } }
        windows = { some = { tenants = ["nobody"] } }
        compare = {}
        expect = { all = { p999 = { max = 3 } } }
    "#;
    let problems = parse(text).unwrap_err();
    let mut problems: Vec<&str> = problems.lines().collect();
    problems.sort_unstable();
    let starts = [
        "arrivals.jitter: unknown field; known here are process, rate",
        "arrivals.rate: found -1, allowed is a number of 0.0 or more",
        "changes[1].at: begins before the end of the previous change",
        "changes[1].capacity: found 0.0, allowed is a number of 0.001 or more",
        "colour: unknown field; known here are about, arrivals,",
        "compare.without: missing",
        "duration: found \"fast\", allowed is a time such as",
        "duration: must be longer than the warmup",
        "expect.all.p999: unknown field; known here are false_rejected, goodput,",
        "policy.aging: found \"often\", known are never",
        "policy.discipline.adaptive_lifo.short_wait: missing",
        "policy.discipline.lifo: unknown field; known here are adaptive_lifo",
        "policy.labels.color: unknown field; known here are cap, caps, max_labels,",
        "policy.labels.max_wait: found 5, allowed is a time such as \"250ms\"",
        "policy.labels.weights.a: found 0, allowed is 1 to 1000",
        "policy.law.threshold: found 500, allowed is a time such as \"250ms\"",
        "policy.partitions: found 110 % in all, allowed is at most 100",
        "server.workers: missing",
        "service.distribution: found \"normal\", known are bimodal, constant,",
        "windows.some.tenants: unknown tenant \"nobody\"",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}\nwanted is {start}");
    }
}

/// The format is documented by an example, which has to be a scenario, and by a word on every field.
#[test]
fn every_field_is_documented() {
    let text = include_str!("../../FORMAT.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let problems = Problems::default();
    Scenario::read_noting("example", &example.parse().unwrap(), Path::new(FOLDER), &problems);
    let asked = problems.asked();
    problems.check(()).unwrap();
    let missing: Vec<_> = asked.iter().filter(|field| !text.contains(field.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The law without a threshold, with its defaults and on its own, collapses nowhere: at least so many percent of the
/// metric that each scenario is about, as the mean of three seeds.
#[test]
fn two_point_holds_where_the_other_laws_fail() {
    for (name, least) in [
        ("born-in-overload", 95.0),
        ("cold-start", 95.0),
        ("cold-start-slow", 80.0),
        ("delay-pool", 85.0),
        ("drop-pool", 93.0),
        ("heavy-tail", 98.0),
        ("low-traffic", 99.0),
        ("mix-overload", 75.0),
        ("mix-shift", 93.0),
        ("overload-10x", 90.0),
        ("overload-pool", 90.0),
        ("overload-shared", 92.0),
        ("ramp-shared", 92.0),
        ("retry-storm", 99.0),
        ("steady-pool", 99.9),
        ("steady-shared", 99.9),
        ("step-shared", 93.0),
        ("tight-deadline", 92.0),
        ("workers-lost", 85.0),
    ] {
        let found = focus(name, "two-point");
        assert!(found >= least, "{name}: {found} instead of {least}");
    }
    // The same scenarios tell laws apart.
    assert!(focus("cold-start", "windowed-aimd") < 50.0);
    assert!(focus("delay-pool", "gradient2") < 50.0);
    assert!(focus("overload-shared", "none") < 10.0);
}

/// The metric that a scenario is about, where `law` alone decides: the mean of three seeds.
fn focus(name: &str, law: &str) -> f64 {
    let scenario = with_policy(name, &format!("shed = true\nlaw = {{ kind = \"{law}\" }}"));
    let (window, metric) = scenario.focus;
    let sum: f64 = (1..=3).map(|seed| report(&scenario, &scenario.policy, seed).windows[window][metric]).sum();
    sum / 3.0
}

/// The scenario of a file under another policy. What must hold is said for the policy of the file, and so left out.
fn with_policy(name: &str, policy: &str) -> Scenario {
    let text = std::fs::read_to_string(format!("{FOLDER}/{name}.toml")).unwrap();
    let mut table = text.parse::<Table>().unwrap();
    table.insert("policy".to_owned(), policy.parse::<Table>().unwrap().into());
    table.remove("expect");
    table.remove("controls");
    Scenario::read(name, &table, Path::new(FOLDER)).unwrap()
}
