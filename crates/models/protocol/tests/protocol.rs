//! All states of the protocol, and each mistake.

use std::time::Instant;

use admission_models_protocol::{Leases, Mistake};
use stateright::{Checker, Model};

const SAFE: &str = "no more run than the cap";

fn leases(mistake: Mistake) -> Leases {
    Leases { cap: 1, processes: 2, end: 5, mistake }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a model has no clock")]
fn no_more_run_than_the_cap_in_any_state_of_the_protocol() {
    let begin = Instant::now();
    let checker = leases(Mistake::None).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states > 10_000, "{states} states");
    println!(
        "no_more_run_than_the_cap_in_any_state_of_the_protocol: {states} executions (stateright, states) in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}

/// Each of these breaks the promise, and the model finds a way there.
#[test]
fn each_mistake_of_the_protocol_is_found() {
    for mistake in [
        Mistake::GrantsAfterFailOver,
        Mistake::GoesOnAfterExpiry,
        Mistake::CountsFromTheAnswer,
        Mistake::ExpiresEarly,
        Mistake::RenewsWhatIsGone,
    ] {
        let checker = leases(mistake).checker().threads(2).spawn_bfs().join();
        let path = checker.discovery(SAFE).unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("found: {mistake:?}: after {} steps", path.into_actions().len());
    }
}
