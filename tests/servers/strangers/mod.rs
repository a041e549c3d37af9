//! Names that come from strangers: each request brings new ones, and the memory stays what it was.
//!
//! Resident memory is that of a process, so each case runs in one of its own: the test starts its own program again,
//! which then runs [`in_a_process_of_its_own`] alone. `STRANGERS=10000000` makes it ten million names rather than
//! 300,000.

mod flood;

use std::env;

use self::flood::{Flood, Report};
use crate::support::alone::report_of;

/// What the resident memory may grow by, in MiB.
const FLAT: f64 = 64.0;

const CASE: &str = "STRANGERS_CASE";

/// Starts this program again for one case, and answers what it reports.
fn run(flood: Flood) -> Report {
    let case = serde_json::to_string(&flood).unwrap();
    let report = report_of("servers::strangers::in_a_process_of_its_own", CASE, &case);
    // Seen with --nocapture.
    println!("{case}: {report}");
    serde_json::from_str(&report).unwrap()
}

#[tokio::test]
#[ignore = "runs one case for the tests below, in a process of its own"]
async fn in_a_process_of_its_own() {
    // Without a case somebody runs all that is ignored.
    let Ok(case) = env::var(CASE) else { return };
    let report = serde_json::from_str::<Flood>(&case).unwrap().run().await;
    println!("report: {}", serde_json::to_string(&report).unwrap());
}

fn keys(usual: u64) -> u64 {
    env::var("STRANGERS").map_or(usual, |keys| keys.parse().unwrap())
}

fn stays_flat(flood: Flood) {
    let report = run(flood);
    assert!(report.grown < FLAT, "{flood:?}: {report:?}");
    assert!(report.labels <= flood.max_labels + 1, "{flood:?}: {report:?}");
    assert_eq!(report.series, report.series_before, "{flood:?}: {report:?}");
    assert!(report.series_before > 0 && report.series < 200, "{flood:?}: {report:?}");
}

#[test]
fn names_of_strangers_take_no_more_memory_and_no_more_series_in_a_tower_service() {
    stays_flat(Flood { server: false, keys: keys(300_000), max_labels: 10_000 });
}

#[test]
fn names_of_strangers_take_no_more_memory_and_no_more_series_on_a_server() {
    stays_flat(Flood { server: true, keys: 200_000, max_labels: 10_000 });
}

/// The control: a table that keeps all names is noticed.
#[test]
fn a_table_that_forgets_nobody_would_be_noticed() {
    let report = run(Flood { server: false, keys: 300_000, max_labels: 10_000_000 });
    assert!(report.grown > FLAT, "{report:?}");
    assert_eq!(report.series, report.series_before, "{report:?}");
}
