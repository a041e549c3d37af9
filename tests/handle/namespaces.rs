//! What invented namespaces cost where each has a rate or a budget of its own: memory, and the longest turn.
//!
//! Resident memory is that of a process, so each case runs in one of its own: the test starts its own program again, which
//! then runs [`in_a_process_of_its_own`] alone.
#![cfg(target_os = "linux")]

use std::{env, time::Duration};

use tokio::time::Instant;
use tower_admission::{Admission, ClassLimits, Labels, Rules, Ticket, limit::Fixed};

use crate::support::alone::{report_of, resident};

const CASE: &str = "NAMESPACES_CASE";

/// Sends requests of so many namespaces, each of them new; prints by how many MiB the memory grew, and how many microseconds
/// the longest turn took.
#[test]
#[ignore = "runs one case for the tests below, in a process of its own"]
fn in_a_process_of_its_own() {
    // Without a case somebody runs all that is ignored.
    let Ok(case) = env::var(CASE) else { return };
    let (rule, namespaces) = case.split_once(' ').unwrap();
    let limits = if rule == "rate" {
        ClassLimits::new().max_per_minute_per_namespace(100)
    } else {
        ClassLimits::new().budget("shared", 100)
    };
    let labels = Labels::new().max_labels(100);
    let builder = Admission::builder().limit(Fixed::new(100)).shed().labels(labels);
    let admission = builder.rules(Rules::new().default_limits(limits)).build().unwrap();
    let before = resident();
    let mut longest = Duration::ZERO;
    for number in 0..namespaces.parse::<u64>().unwrap() {
        let name = format!("{number:0200}");
        let start = Instant::now();
        drop(admission.try_admit(Ticket::new().namespace(&name).label("a")));
        longest = longest.max(start.elapsed());
    }
    println!("report: {:.1} {}", resident() - before, longest.as_micros());
    let snapshot = admission.snapshot();
    assert!(snapshot.labels_known <= 100 && snapshot.admitted() > 0, "{snapshot:?}");
}

/// By how many MiB the memory grows, and how many microseconds the longest turn takes.
fn run(rule: &str, namespaces: u64) -> (f64, u64) {
    let report = report_of("handle::namespaces::in_a_process_of_its_own", CASE, &format!("{rule} {namespaces}"));
    let (grown, longest) = report.split_once(' ').unwrap();
    let found = (grown.parse().unwrap(), longest.parse().unwrap());
    println!("{rule}, {namespaces} namespaces: {} MiB more, longest turn {} us", found.0, found.1);
    found
}

#[test]
fn invented_namespaces_take_no_memory() {
    for rule in ["rate", "budget"] {
        let (grown, _) = run(rule, 60_000);
        assert!(grown < 12.0, "{rule}: {grown} MiB; 35 where each has a counter");
    }
}

#[test]
#[ignore = "a million namespaces: run it alone and in release mode to see the figures"]
fn a_million_invented_namespaces_cost_nothing() {
    for rule in ["rate", "budget"] {
        let (grown, longest) = run(rule, 1_000_000);
        assert!(grown < 12.0, "{rule}: {grown} MiB");
        // 100 to 424 ms at doublings of a table that keeps them all; a machine that does something else as well is no cause.
        assert!(longest < 50_000, "{rule}: {longest} us");
    }
}
