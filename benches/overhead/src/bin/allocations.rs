//! Allocations per request.
//!
//! A program of its own, since counting them costs time and locked instructions that the other figures don't want.
//! Each contestant runs in a process of its own: what a crate does once there are several of its layers stays out.

use std::{alloc::System, env, process::Command};

use overhead::contestants::{ROUTER, ROWS, RULES, SERVICES, find};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: u64 = 10_000;

fn main() {
    if let Some(name) = env::args().nth(1) {
        let (allocations, bytes) = count(&name);
        println!("{allocations} {bytes}");
        return;
    }
    let program = env::current_exe().expect("this program has a path");
    println!("| contestant | allocations | bytes |");
    println!("|---|---:|---:|");
    let mut baselines = Vec::new();
    for contestant in SERVICES.iter().chain(RULES).chain(ROWS).chain(ROUTER) {
        let output = Command::new(&program).arg(contestant.name).output().expect("this program runs");
        assert!(output.status.success(), "{}: {output:?}", contestant.name);
        let text = String::from_utf8_lossy(&output.stdout);
        let figures: Vec<f64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        baselines.push((contestant.name, figures.clone()));
        let (_, base) = baselines.iter().find(|(name, _)| *name == contestant.baseline).expect("baselines come first");
        let net =
            |index: usize| figures[index] - if contestant.name == contestant.baseline { 0.0 } else { base[index] };
        println!("| {} | {:.3} | {:.1} |", contestant.name, net(0), net(1));
    }
    println!("\nPer request; all but those that others are compared with are net of theirs.");
}

#[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn count(name: &str) -> (f64, f64) {
    let contestant = find(name).unwrap_or_else(|| panic!("nobody is called {name:?}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    // Entered for as long as the process lasts: contestants may enter a runtime of their own, and leave it later.
    std::mem::forget(Box::leak(Box::new(runtime)).enter());
    let prepared = (contestant.prepare)();
    prepared.run(100);
    let region = Region::new(ALLOCATOR);
    prepared.run(REQUESTS);
    let change = region.change();
    let per_request = |count: usize| count as f64 / REQUESTS as f64;
    (per_request(change.allocations + change.reallocations), per_request(change.bytes_allocated))
}
