//! Settings that change, permits that end, and shutting down.

use std::time::Duration;

use admission_testkit::eventually;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, DrainMode, Labels, Outcome, Permit, Rate, Reason, Rules, Ticket,
    WhenFull,
    limit::{Aimd, Fixed},
    percent,
};

use super::{assert_at_rest, ms, poll_once};

fn with_limit(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit))
}

#[test]
fn a_smaller_limit_evicts_nobody_and_a_larger_one_lets_waiters_in_at_once() {
    let admission = with_limit(3).build().unwrap();
    let mut running: Vec<_> = (0..3).map(|_| admission.try_admit(Ticket::new()).unwrap()).collect();
    let mut waiter = admission.admit(Ticket::new());
    assert!(poll_once(&mut waiter).is_none());
    admission.reload(with_limit(1)).unwrap();
    assert_eq!((admission.snapshot().limit, admission.snapshot().in_flight, admission.snapshot().waiting), (1, 3, 1));
    running.pop();
    running.pop();
    assert!(poll_once(&mut waiter).is_none(), "one still runs, and one may");
    admission.reload(with_limit(2)).unwrap();
    drop(poll_once(&mut waiter).unwrap().unwrap());
    drop(running);
    assert_eq!(assert_at_rest(&admission, 4).reloads, 2);
}

/// Its share is gone as well: what keeps abandoned work within a share would keep it from every slot.
#[test]
fn a_waiter_of_a_removed_partition_takes_a_slot_that_is_free_beside_abandoned_work() {
    let in_a = || Ticket::new().partition("a");
    let admission = with_limit(4).partition("a", percent(50)).partition("b", percent(50)).build().unwrap();
    let mut running: Vec<_> = (0..4).map(|_| admission.try_admit(in_a()).unwrap()).collect();
    let mut waiter = admission.admit(in_a());
    assert!(poll_once(&mut waiter).is_none());
    running.drain(..2).for_each(Permit::abandon);
    admission.reload(with_limit(4).partition("b", percent(100))).unwrap();
    running.pop();
    drop(poll_once(&mut waiter).expect("a slot is free").unwrap());
}

#[test]
fn partitions_are_known_by_name_drain_and_come_back() {
    let both = || with_limit(10).shed().partition("a", percent(50).hard_cap()).partition("b", percent(50));
    let only_b = || with_limit(10).shed().partition("b", percent(100));
    let in_a = || Ticket::new().partition("a");
    let admission = both().build().unwrap();
    let held = admission.try_admit(in_a()).unwrap();
    admission.reload(only_b()).unwrap();
    let snapshot = admission.snapshot();
    assert_eq!(snapshot.partition("a").map(|a| (a.in_flight, a.share)), Some((1, 0)), "it drains");
    let elsewhere = admission.try_admit(in_a()).unwrap();
    assert_eq!(admission.snapshot().partition("default").unwrap().in_flight, 1);
    drop(held);
    assert!(admission.snapshot().partition("a").is_none(), "and then it is gone");
    admission.reload(both().partition("c", percent(1))).unwrap_err();
    assert!(admission.snapshot().partition("a").is_none(), "bad settings change nothing");
    let [failed] = &*admission.warnings() else { panic!("{:?}", admission.warnings()) };
    assert!(failed.starts_with("the last reload failed") && failed.contains("101 % in all"), "{failed}");
    admission.reload(both()).unwrap();
    assert_eq!(admission.warnings(), [""; 0]);
    let again: Vec<_> = (0..5).map(|_| admission.try_admit(in_a()).unwrap()).collect();
    assert_eq!(admission.try_admit(in_a()).unwrap_err().reason(), Reason::PartitionCap);
    let added = with_limit(10).shed().partition("new", percent(10).hard_cap());
    admission.reload(added).unwrap();
    let new = admission.try_admit(Ticket::new().partition("new")).unwrap();
    let refused = admission.try_admit(Ticket::new().partition("new")).unwrap_err();
    assert_eq!((refused.reason(), refused.partition()), (Reason::PartitionCap, "new"));
    drop((again, elsewhere, new));
    assert_eq!(admission.snapshot().in_flight, 0);
}

#[test]
fn a_law_of_the_same_kind_goes_on_where_the_last_one_was() {
    let aimd = |max| Admission::builder().limit(Aimd::new(ms(100)).initial(20).max(max));
    let admission = aimd(100).build().unwrap();
    admission.reload(aimd(100)).unwrap();
    assert_eq!(admission.snapshot().limit, 20);
    admission.reload(aimd(15)).unwrap();
    assert_eq!(admission.snapshot().limit, 15, "within the new range");
    admission.reload(aimd(100)).unwrap();
    assert_eq!(admission.snapshot().limit, 15, "and not back to where it started");
    admission.reload(with_limit(7)).unwrap();
    assert_eq!(admission.snapshot().limit, 7);
}

#[test]
fn rules_change_and_what_was_used_stays_used() {
    let rules = |limits| with_limit(100).shed().rules(Rules::new().class("task", limits));
    let ask = || Ticket::new().class("task").namespace("n").label("x");
    let admission = rules(ClassLimits::new().max_per_minute(3)).build().unwrap();
    let held: Vec<_> = (0..2).map(|_| admission.try_admit(ask()).unwrap()).collect();
    admission.reload(rules(ClassLimits::new().max_per_minute(2).max_in_flight_per_namespace(5))).unwrap();
    let refused = admission.try_admit(ask()).unwrap_err();
    assert_eq!(refused.reason(), Reason::Rate);
    admission.reload(rules(ClassLimits::new().max_in_flight_per_namespace(2))).unwrap();
    assert_eq!(admission.try_admit(ask()).unwrap_err().reason(), Reason::NamespaceCap, "those who run are counted");
    drop(held);
    let empty = Cap::from(1).when_full(WhenFull::RespondEmpty);
    admission.reload(rules(ClassLimits::new().max_in_flight_per_namespace(empty))).unwrap();
    let one = admission.try_admit(ask()).unwrap();
    assert!(admission.try_admit(ask()).unwrap_err().responds_empty());
    admission.reload(with_limit(100).shed()).unwrap();
    let free = admission.try_admit(ask()).unwrap();
    drop((one, free));
    assert_at_rest(&admission, 7);
}

#[test]
fn a_label_that_waits_for_its_cap_is_served_when_a_reload_lifts_it() {
    let capped = |cap: Option<usize>| with_limit(10).labels(Labels::new().cap(cap));
    let admission = capped(Some(1)).build().unwrap();
    let held = admission.try_admit(Ticket::new().label("x")).unwrap();
    let mut waiter = admission.admit(Ticket::new().label("x"));
    assert!(poll_once(&mut waiter).is_none());
    admission.reload(capped(None)).unwrap();
    drop(poll_once(&mut waiter).unwrap().unwrap());
    drop(held);
    assert_at_rest(&admission, 2);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_waits_is_served_when_its_minute_comes() {
    let rate = Rate::from(1).when_full(WhenFull::Queue);
    let rules = Rules::new().default_limits(ClassLimits::new().max_per_minute(rate));
    let admission = with_limit(10).wait_timeout(Duration::from_secs(90)).rules(rules).build().unwrap();
    let first = tokio::time::Instant::now();
    admission.admit(Ticket::new()).await.unwrap().finish(Outcome::Success);
    admission.admit(Ticket::new()).await.unwrap().finish(Outcome::Success);
    let waited = first.elapsed();
    assert!(waited > ms(59_000) && waited < ms(60_100), "{waited:?}");
    assert_at_rest(&admission, 2);
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_time_is_over_is_told_and_others_run() {
    let admission = with_limit(1).permit_time_to_live(ms(100)).build().unwrap();
    let slow = admission.admit(Ticket::new()).await.unwrap();
    let next = tokio::spawn(admission.admit(Ticket::new()));
    assert!(!slow.is_expired());
    slow.expired().await;
    assert!(slow.is_expired());
    let next = next.await.unwrap().unwrap();
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().expired_slots), (1, 1));
    slow.finish(Outcome::Success);
    assert_eq!(admission.snapshot().in_flight, 1, "the slot of the slow one was given back already");
    drop(next);
    assert_at_rest(&admission, 2);
}

#[tokio::test]
async fn draining_lets_nobody_in_and_ends_with_the_last_one() {
    for leave in [DrainMode::RejectWaiting, DrainMode::ServeWaiting] {
        let admission = with_limit(1).build().unwrap();
        let running = admission.admit(Ticket::new()).await.unwrap();
        let waiter = tokio::spawn(admission.admit(Ticket::new()));
        eventually("it waits", || admission.snapshot().waiting == 1).await;
        assert!(admission.is_ready());
        admission.drain(leave);
        assert!(!admission.is_ready());
        assert_eq!(admission.admit(Ticket::new()).await.unwrap_err().reason(), Reason::Draining);
        assert_eq!(admission.try_admit(Ticket::new()).unwrap_err().reason(), Reason::Draining);
        let drained = tokio::spawn({
            let admission = admission.clone();
            async move { admission.drained().await }
        });
        tokio::task::yield_now().await;
        assert!(!drained.is_finished());
        drop(running);
        match waiter.await.unwrap() {
            Ok(permit) => {
                assert_eq!(leave, DrainMode::ServeWaiting);
                assert!(!drained.is_finished());
                permit.finish(Outcome::Success);
            }
            Err(rejection) => assert_eq!((leave, rejection.reason()), (DrainMode::RejectWaiting, Reason::Draining)),
        }
        drained.await.unwrap();
        assert_at_rest(&admission, 4);
    }
}
