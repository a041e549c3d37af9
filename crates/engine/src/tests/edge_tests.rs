//! Promises at the edge of what is likely: shares that round to nothing, a single partition that observes, one worker too many.

use std::time::Duration;

use crate::{
    Arrival, Ask, Borrower, Engine, PartitionId, Reason, StoreState, Subject, Timestamp,
    limit::{Fixed, Limit},
    plan::{Bound, LabelPlan, PartitionMode, PartitionPlan, Plan},
    rules::OnStoreFailure,
    settings::{Cap, ClassLimits, Rules},
    shares::WHOLE,
};

fn engine(limit: usize, small: u32, mode: PartitionMode, observes: bool) -> Engine {
    Engine::new(plan(limit, small, mode, observes))
}

fn plan(limit: usize, small: u32, mode: PartitionMode, observes: bool) -> Plan {
    let whole = PartitionPlan::burst("default", WHOLE - small);
    let small = PartitionPlan { name: "small".into(), part: small, mode, observes, withheld: 0 };
    Plan::plain(Limit::from(Fixed::new(limit)).into_law(), vec![whole, small], Bound::of(0, None), Bound::of(0, None))
}

#[test]
fn a_partition_whose_share_rounds_to_nothing_still_has_a_slot() {
    let small = PartitionId::from_index(1).unwrap();
    for (part, runs) in [(1, true), (WHOLE / 100, true), (0, false)] {
        let mut engine = engine(3, part, PartitionMode::HardCap, false);
        let arrival = engine.arrive(Timestamp::ZERO, &Ask::of(small));
        assert_eq!(matches!(arrival, Arrival::Admit(_)), runs, "a part of {part} in a million");
        let next = engine.arrive(Timestamp::ZERO, &Ask::of(small));
        assert!(matches!(next, Arrival::Reject(_)), "and no more than that");
    }
}

/// Lent slots run without the engine, which could not count what a dry run would do.
#[test]
fn no_slot_is_lent_while_a_partition_observes() {
    assert!(engine(100, WHOLE / 2, PartitionMode::Burst, false).is_quiet());
    assert!(!engine(100, WHOLE / 2, PartitionMode::Burst, true).is_quiet());
}

#[test]
fn slots_are_lent_up_to_three_quarters_of_the_limit() {
    let mut engine = engine(8, WHOLE / 2, PartitionMode::Burst, false);
    for running in 0..=7 {
        assert_eq!(engine.is_quiet(), running <= 6, "{running} of 8 run");
        assert_eq!(engine.lend(Borrower::of(PartitionId::DEFAULT), 1), 1);
    }
}

/// A slot that is held back for a request that a bound of its own rejects would stand idle.
#[test]
fn nothing_is_held_back_for_a_request_that_a_bound_of_its_own_rejects() {
    let now = Timestamp::ZERO;
    let one = Ask::of(PartitionId::DEFAULT);
    let of_run = Ask { subject: Some(Subject::new("ns", "e", Some("run"))), ..one };
    let rejected = |ask: &Ask<'_>, max_waiting, max_waiting_per_run| {
        let labels = LabelPlan { max_waiting, max_waiting_per_run, ..LabelPlan::default() };
        let mut engine = Engine::new(Plan { labels, ..plan(4, WHOLE / 2, PartitionMode::Burst, false) });
        for label in ["a", "b", "c", "d"] {
            let other = Ask { subject: Some(Subject::new("ns", label, None)), ..one };
            assert!(matches!(engine.arrive(now, &other), Arrival::Admit(_)), "{label} runs");
        }
        let Arrival::Reject(refusal) = engine.arrive(now, ask) else { panic!("it is not rejected") };
        (refusal.reason, engine.capacity.reserved())
    };
    assert_eq!(rejected(&of_run, 1, 1), (Reason::Limit, 1), "control: a slot for its label");
    assert_eq!(rejected(&of_run, 0, 1), (Reason::LabelQueueFull, 0));
    assert_eq!(rejected(&of_run, 1, 0), (Reason::RunCap, 0));
    assert_eq!(rejected(&Ask { deadline: now, ..of_run }, 1, 1), (Reason::Deadline, 0));
}

#[test]
fn a_label_has_so_many_workers_and_no_more() {
    let mut engine = engine(8, WHOLE / 2, PartitionMode::Burst, false);
    let subject = Subject::new("ns", "a", None);
    let mut report = |worker: usize| {
        let valid = Duration::from_secs(9);
        engine.report_worker(Timestamp::ZERO, None, &subject, &worker.to_string(), Some((1, valid)))
    };
    let noted = (0..20_000).take_while(|&worker| report(worker)).count();
    assert!(report(0), "a worker that is known is heard");
    let label = engine.find_label(None, &subject).unwrap();
    assert_eq!((noted, label.active_workers, label.worker_slots), (MOST_WORKERS, Some(noted), Some(noted)));
}

/// As `Admission::report_worker` documents it.
const MOST_WORKERS: usize = 10_000;

#[test]
fn the_health_says_what_shared_rules_do_without_their_store() {
    let instances = std::num::NonZeroU32::new(2).unwrap();
    for (way, words) in [
        (OnStoreFailure::FailClosed, "refuse"),
        (OnStoreFailure::FailOpen, "admit all"),
        (OnStoreFailure::LocalShare { instances }, "admit a local share"),
    ] {
        let mut problems = Vec::new();
        let limits = ClassLimits::new().max_in_flight(Cap::from(4));
        let rules = Rules::new().default_limits(limits).into_plan(Some(way), &mut problems);
        let mut engine = Engine::new(Plan { rules, ..plan(4, 0, PartitionMode::Burst, false) });
        engine.tell_store(Timestamp::ZERO, StoreState::Down, Duration::ZERO);
        engine.tick(Timestamp::ZERO.after(Duration::from_secs(2)));
        let health = engine.snapshot().health;
        assert_eq!(health.headline, format!("store gone: shared rules {words}"), "{way:?}");
    }
}
