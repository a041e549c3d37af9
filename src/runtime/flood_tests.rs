//! Rejections that stand: which requests take them, for how long, and that each is counted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::FutureExt;

use super::Admission;
use crate::{AdmissionBuilder, Clock, Outcome, PartitionMode, Permit, Rejection, Ticket, limit::Fixed, percent};

#[derive(Clone, Debug, Default)]
struct Virtual(Arc<AtomicU64>);

impl Virtual {
    fn pass(&self, micros: u64) {
        self.0.fetch_add(micros * 1_000, Ordering::Relaxed);
    }
}

impl Clock for Virtual {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn build(change: impl FnOnce(AdmissionBuilder) -> AdmissionBuilder) -> (Admission, Virtual) {
    let clock = Virtual::default();
    let builder = Admission::builder().limit(Fixed::new(4)).shed().clock(clock.clone());
    (change(builder).build().expect("valid settings"), clock)
}

fn ask(admission: &Admission, ticket: Ticket<'_>) -> Result<Permit, Rejection> {
    admission.admit(ticket).now_or_never().expect("no request waits")
}

/// How many requests of the default partition took an answer that stood.
fn taken(admission: &Admission) -> u64 {
    admission.shared.taken_from_standing_refusals()
}

#[test]
fn in_a_flood_nearly_all_rejections_are_taken_from_a_post() {
    let (admission, clock) = build(|it| it);
    let mut permits: Vec<_> = (0..4).map(|_| ask(&admission, Ticket::new()).unwrap()).collect();
    clock.pass(3_000_000);
    let first = ask(&admission, Ticket::new()).unwrap_err();
    for _ in 1..1_000 {
        let rejection = ask(&admission, Ticket::new()).unwrap_err();
        assert_eq!(
            (rejection.reason(), rejection.retry_after(), rejection.bound(), rejection.partition()),
            (first.reason(), first.retry_after(), first.bound(), first.partition()),
        );
    }
    assert!(taken(&admission) > 950, "{} of 1,000", taken(&admission));
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.admitted(), snapshot.rejected()), (4, 1_000));
    // The first request after a slot came free gets it.
    permits.pop().unwrap().finish(Outcome::Success);
    permits.push(ask(&admission, Ticket::new()).unwrap());
    assert_eq!(ask(&admission, Ticket::new()).unwrap_err().reason(), first.reason());
}

#[test]
fn an_answer_is_too_old_after_a_millisecond() {
    let (admission, clock) = build(|it| it);
    let _permits: Vec<_> = (0..4).map(|_| ask(&admission, Ticket::new()).unwrap()).collect();
    let told = || ask(&admission, Ticket::new()).unwrap_err().retry_after();
    clock.pass(5_000_000);
    let early: Vec<_> = (0..100).map(|_| told()).collect();
    assert!(early.iter().all(|&it| it == early[0]) && taken(&admission) > 80);
    let before = taken(&admission);
    clock.pass(999);
    assert_eq!((told(), taken(&admission)), (early[0], before + 1));
    clock.pass(1);
    assert!(told() > early[0] && taken(&admission) == before + 1, "nothing came free since, so callers wait longer");
}

#[test]
fn requests_that_ask_for_more_than_a_slot_ask_the_engine() {
    let (admission, _clock) = build(|it| it.partition("web", percent(50)));
    let _permits: Vec<_> = (0..4).map(|_| ask(&admission, Ticket::new()).unwrap()).collect();
    let flood = || (0..50).for_each(|_| drop(ask(&admission, Ticket::new()).unwrap_err()));
    flood();
    let before = taken(&admission);
    assert!(before > 30);
    let others = [
        Ticket::new().label("tenant"),
        Ticket::new().class("report"),
        Ticket::new().timeout(Duration::ZERO),
        Ticket::new().criticality(crate::Criticality::Sheddable),
    ];
    for ticket in others {
        let of_label = ticket.label_name().is_some();
        let by = ask(&admission, ticket.clone()).unwrap_err();
        assert_eq!(taken(&admission), before, "{ticket:?}");
        assert_eq!(by.reason().as_str() == "deadline", ticket.remaining().is_some(), "{ticket:?}");
        assert!(!of_label || admission.label("", "tenant").is_some());
    }
    // Below its share: it waits in the room for guarantees.
    let mut web = admission.admit(Ticket::new().partition("web"));
    assert!((&mut web).now_or_never().is_none());
    assert_eq!(taken(&admission), before);
}

#[test]
fn a_cap_on_a_partition_stands_while_other_partitions_are_served() {
    let (admission, _clock) = build(|it| it.partition("web", percent(50).with_mode(PartitionMode::HardCap)));
    let web = || ask(&admission, Ticket::new().partition("web"));
    let _permits = [web().unwrap(), web().unwrap()];
    for _ in 0..200 {
        for _ in 0..30 {
            assert_eq!(web().unwrap_err().reason().as_str(), "partition_cap");
        }
        ask(&admission, Ticket::new()).unwrap().finish(Outcome::Success);
    }
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.admitted(), snapshot.rejected()), (202, 6_000));
}

#[test]
fn a_reload_a_mode_and_a_drain_withdraw_what_stands() {
    let (admission, _clock) = build(|it| it);
    let _permits: Vec<_> = (0..4).map(|_| ask(&admission, Ticket::new()).unwrap()).collect();
    let flood = || {
        let before = taken(&admission);
        (0..100).for_each(|_| drop(ask(&admission, Ticket::new()).unwrap_err()));
        assert!(taken(&admission) > before + 30);
    };
    flood();
    admission.reload(Admission::builder().limit(Fixed::new(5)).shed()).unwrap();
    let _fifth = ask(&admission, Ticket::new()).unwrap();
    flood();
    admission.set_mode(crate::Mode::Off);
    drop(ask(&admission, Ticket::new()).unwrap());
    admission.set_mode(crate::Mode::Enforce);
    flood();
    admission.drain(crate::DrainMode::RejectWaiting);
    assert_eq!(ask(&admission, Ticket::new()).unwrap_err().reason().as_str(), "draining");
}

/// Two threads are rejected while a third one gives slots back and takes them again: no request is rejected while a slot is
/// free for certain, and each is counted once.
#[test]
fn each_rejection_of_a_race_is_counted_once() {
    const ROUNDS: u64 = 20_000;
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().expect("valid settings");
    let (rejected, admitted) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = |answer: Result<Permit, Rejection>| match answer {
        Ok(permit) => {
            admitted.fetch_add(1, Ordering::Relaxed);
            permit.finish(Outcome::Success);
        }
        Err(_) => {
            rejected.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..5 * ROUNDS).for_each(|_| count(ask(&admission, Ticket::new()))));
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                count(ask(&admission, Ticket::new()));
                thread::yield_now();
            }
        });
    });
    let snapshot = admission.snapshot();
    let counted = (snapshot.admitted(), snapshot.rejected());
    assert_eq!(counted, (admitted.into_inner(), rejected.into_inner()));
    assert_eq!((counted.0 + counted.1, snapshot.in_flight), (11 * ROUNDS, 0));
    // Without another thread, a slot that is free is found.
    drop(ask(&admission, Ticket::new()).unwrap());
}

#[test]
fn a_sample_that_was_written_over_is_counted_after_a_second_and_holds_up_no_other() {
    let (admission, clock) = build(|it| it);
    let serve = |outcome| ask(&admission, Ticket::new()).unwrap().finish(outcome);
    (0..20).for_each(|_| serve(Outcome::Success));
    let ended = || {
        let it = &admission.snapshot().partitions[0];
        (it.successes, it.ignored, it.admitted)
    };
    assert_eq!(ended(), (20, 0, 20));
    (0..4).for_each(|_| serve(Outcome::Ignore));
    admission.shared.lose_sample();
    (0..3).for_each(|_| serve(Outcome::Ignore));
    assert_eq!(ended(), (20, 3, 27), "the ones behind it are not there yet");
    clock.pass(999_000);
    assert_eq!(ended(), (20, 3, 27));
    clock.pass(2_000);
    // The time is that of the last turn.
    ended();
    assert_eq!(ended(), (21, 6, 27), "of the lost one it is only known that it ended");
}
