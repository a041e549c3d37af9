//! Fleets of instances under faults: no promise is broken, and mistakes are found.
//!
//! Thousands of seeds take a release build: `admission simulate --world 3..8 --seeds 1..100000`. The mistakes in the library
//! are made by the example `mistakes`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../examples/mistakes/table.rs"]
mod table;

use admission_simulator::fleet::{
    self, Attempts, Plan, Report,
    plan::{Control, What},
};

/// Runs these seeds; returns what was tried.
fn hold(seeds: std::ops::Range<u64>) -> Attempts {
    let mut attempts = Attempts::default();
    for seed in seeds {
        let report = fleet::run(&fleet::draw(seed, 3..=8));
        if let Some(broken) = &report.broken {
            panic!("{broken}\nagain: admission simulate --world 3..8 --seeds {seed}");
        }
        attempts += report.attempts;
    }
    attempts
}

#[test]
fn each_mistake_of_the_example_has_its_place() {
    for it in table::MISTAKES {
        let file = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), it.file);
        let found = std::fs::read_to_string(&file).unwrap().matches(it.right).count();
        assert!(found == 1 && it.wrong.contains("WRONG"), "{}: found {found} times in {}", it.name, it.file);
    }
}

#[test]
fn no_promise_is_broken() {
    let tried = hold(1..151);
    println!("{tried:?}");
    // A world in which nothing happens would hold every promise.
    assert!(tried.starts > 10_000 && tried.strict > 2_000 && tried.looks > 10_000 && tried.waits > 1_000, "{tried:?}");
    assert!(tried.faults > 300 && tried.drains > 10 && tried.lost > 10 && tried.returned > 1_000, "{tried:?}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    let mut hashes: Vec<_> = (1_000..1_030)
        .map(|seed| {
            let plan = fleet::draw(seed, 3..=8);
            let (first, second) = (fleet::run(&plan), fleet::run(&plan));
            assert_eq!(first.hash, second.hash, "seed {seed}");
            first.hash
        })
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 30, "control: another seed is another world");
}

/// Returns the first of these seeds that breaks a promise with this mistake, and how many it took.
fn find(control: Control) -> (Plan, Report, u64) {
    for seed in 1..=100 {
        let mut plan = fleet::draw(seed, 3..=8);
        plan.control = Some(control);
        let report = fleet::run(&plan);
        if report.broken.is_some() {
            return (plan, report, seed);
        }
    }
    panic!("{control:?} is not found in a hundred seeds");
}

#[test]
fn two_stores_are_found() {
    let (plan, report, seeds) = find(Control::TwoStores);
    println!("{seeds} seeds");
    assert_eq!(report.broken.as_ref().unwrap().promise, "never more than the cap");
    let (short, again) = fleet::shrink(&plan, report.broken.as_ref().unwrap());
    println!("{short}");
    assert_eq!(again.broken.unwrap().promise, "never more than the cap");
    // Two instances that call under shared rules are enough.
    assert!(short.callers.len() <= 3 && short.faults.is_empty(), "{short}");
    // What the command line repeats is this plan.
    let mut kept = plan.clone();
    kept.keep(&short.names());
    assert_eq!(kept.to_string(), short.to_string());
}

#[test]
fn permits_that_are_kept_for_ever_are_found() {
    let (_, report, seeds) = find(Control::KeepsPermits);
    println!("{seeds} seeds");
    let promise = report.broken.unwrap().promise;
    assert!(["conservation", "every slot comes back"].contains(&promise), "{promise}");
}

#[test]
fn every_kind_of_fault_is_drawn() {
    let faults = (1..300).flat_map(|seed| fleet::draw(seed, 3..=8).faults);
    let mut kinds: Vec<_> = faults.map(|(_, fault)| std::mem::discriminant(&fault.what)).collect();
    let jump = What::StoreEmpty;
    assert!(kinds.contains(&std::mem::discriminant(&jump)));
    kinds.sort_unstable_by_key(|kind| format!("{kind:?}"));
    kinds.dedup();
    assert_eq!(kinds.len(), 13);
}
