//! Rules that are counted for all instances: which requests ask, which wait, and what becomes of requests that are told
//! that there is no room.

mod schedules;
mod world;

use std::time::Duration;

use super::{Desk, MINUTE, SECOND, plan_shared};
use crate::{
    Arrival, Ask, Counted, NoRoom, Place, Reason, StoreState, Subject, Timestamp,
    plan::{LabelPlan, Plan},
    rules::{OnStoreFailure, WhenFull},
    settings::{Cap, ClassLimits, Rate, Rules},
};

const FULL: NoRoom = NoRoom { rule: Counted::LabelCap, retry_after: None };

fn desk(limit: usize, limits: ClassLimits) -> Desk {
    Desk::of(plan_shared(limit, Rules::new().default_limits(limits), Some(OnStoreFailure::FailClosed)))
}

/// Returns a cap of 5 that lets further requests of the label wait.
fn five() -> ClassLimits {
    ClassLimits::new().max_in_flight(5)
}

impl Desk {
    #[track_caller]
    fn asks(&mut self, label: &str) -> Place {
        match self.one(label) {
            Arrival::Ask(place, _) => place,
            other => panic!("{label} does not ask: {other:?}"),
        }
    }

    fn may_ask(&self, place: &Place) -> bool {
        self.engine.has_to_ask_for(place).is_some()
    }

    #[track_caller]
    fn put_back(&mut self, place: &Place) {
        self.engine.requeue(self.now, place, FULL).expect("it may wait");
    }

    fn look_again(&mut self, place: &Place) -> bool {
        let label = self.engine.queue.get(place.key()).label;
        self.engine.retry_remote(self.now, label, Counted::LabelCap)
    }

    fn in_flight(&self) -> usize {
        self.engine.snapshot().in_flight
    }
}

#[test]
fn a_requeued_waiter_holds_no_slot_and_others_go_on() {
    let mut desk = desk(1, five());
    let first = desk.asks("a");
    assert_eq!(desk.in_flight(), 1, "it holds its slot while it asks");
    desk.put_back(&first);
    assert_eq!(desk.in_flight(), 0);
    let second = desk.waits("a");
    let other = desk.asks("b");
    let slot = desk.granted(&other);
    assert!(!desk.may_ask(&first) && !desk.may_ask(&second));
    assert!(desk.look_again(&first));
    assert!(!desk.may_ask(&first), "there is no slot");
    desk.finish(slot);
    assert!(desk.may_ask(&first) && !desk.may_ask(&second), "one asks, the one that came first");
    let slot = desk.granted(&first);
    assert!(!desk.may_ask(&second));
    desk.finish(slot);
    assert!(desk.may_ask(&second), "the next one asks because the last one was let in");
    let snapshot = desk.engine.snapshot();
    let counts = &snapshot.partitions[0];
    assert_eq!((counts.admitted, counts.queued), (2, 1), "who asks has not been admitted yet");
}

#[test]
fn requests_that_asked_at_once_stand_in_the_order_in_which_they_came() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut desk = desk(10, five());
        let places: Vec<_> = (0..3).map(|_| desk.asks("a")).collect();
        for which in order {
            desk.put_back(&places[which]);
        }
        for place in &places {
            desk.look_again(place);
            assert!(desk.may_ask(place), "{order:?}");
            let slot = desk.granted(place);
            desk.finish(slot);
        }
    }
}

#[test]
fn a_refused_request_is_charged_by_no_rule() {
    let limits = ClassLimits::new()
        .max_in_flight(Cap::from(5).when_full(WhenFull::Reject))
        .max_per_minute(Rate::from(2).local())
        .budget("shared", Rate::from(100));
    let mut desk = desk(10, limits);
    for _ in 0..10 {
        let place = desk.asks("a");
        assert_eq!(desk.used("", "ns", "a", "max_per_minute"), 1);
        let refusal = desk.engine.reject_remote(desk.now, &place, FULL);
        assert_eq!((refusal.reason, refusal.bound, refusal.empty), (Reason::LabelCap, 5, false));
        assert_eq!(desk.used("", "ns", "a", "max_per_minute"), 0);
        assert_eq!((desk.used("", "ns", "a", "budget"), desk.in_flight()), (0, 0));
    }
    for _ in 0..2 {
        let place = desk.asks("a");
        let _held = desk.granted(&place);
    }
    assert_eq!(desk.refused("a").reason, Reason::Rate, "control: what is counted here still counts");
}

#[test]
fn no_request_asks_for_a_rate_that_is_known_to_have_no_room() {
    let limits = ClassLimits::new().max_per_minute(Rate::from(3).when_full(WhenFull::RespondEmpty));
    let mut desk = desk(10, limits);
    let place = desk.asks("a");
    let no_room = NoRoom { rule: Counted::LabelRate, retry_after: Some(Duration::from_secs(20)) };
    let refusal = desk.engine.reject_remote(desk.now, &place, no_room);
    assert_eq!((refusal.reason, refusal.retry_after, refusal.empty), (Reason::Rate, Duration::from_secs(20), true));
    desk.pass(15 * SECOND);
    let refusal = desk.refused("a");
    // The second of the three that the next minute has room for.
    let promised = Duration::from_nanos(5 * SECOND + SECOND / 3);
    assert_eq!((refusal.reason, refusal.retry_after, refusal.empty), (Reason::Rate, promised, true));
    desk.pass(5 * SECOND);
    for _ in 0..5 {
        let _held = desk.asks("a");
    }
}

#[test]
fn a_waiter_for_a_rate_asks_when_there_is_room() {
    let mut desk = desk(10, ClassLimits::new().max_per_minute(Rate::from(3).when_full(WhenFull::Queue)));
    let first = desk.asks("a");
    let no_room = NoRoom { rule: Counted::LabelRate, retry_after: Some(Duration::from_secs(20)) };
    desk.engine.requeue(desk.now, &first, no_room).unwrap();
    let second = desk.waits("a");
    desk.pass(20 * SECOND - 1);
    assert!(!desk.may_ask(&first));
    assert_eq!(desk.engine.next_wakeup(), Some(Timestamp::from_nanos(20 * SECOND)), "the driver comes in time");
    desk.pass(1);
    assert!(desk.may_ask(&first) && !desk.may_ask(&second), "one of them");
    let _held = desk.granted(&first);
    assert!(desk.may_ask(&second));
}

#[test]
fn a_wait_is_not_longer_for_having_asked() {
    let mut plan = plan_shared(1, Rules::new().default_limits(five()), Some(OnStoreFailure::FailClosed));
    plan.line.wait = Some(Duration::from_secs(10));
    let mut desk = Desk::of(plan);
    let blocker = desk.asks("b");
    let slot = desk.granted(&blocker);
    let place = desk.waits("a");
    desk.pass(6 * SECOND);
    desk.finish(slot);
    assert!(desk.may_ask(&place));
    desk.put_back(&place);
    desk.pass(4 * SECOND - 1);
    assert!(desk.is_pending(&place));
    desk.pass(1);
    let answer = desk.claim(&place);
    assert!(
        matches!(answer, std::task::Poll::Ready(Err(refusal)) if refusal.reason == Reason::LabelCap && refusal.timed_out),
        "{answer:?}"
    );
    let next = desk.asks("a");
    desk.put_back(&next);
    desk.pass(9 * SECOND);
    assert!(desk.is_pending(&next), "the wait of one that had not waited starts when it is put back");
}

#[test]
fn no_request_waits_where_none_may() {
    let mut plan = plan_shared(1, Rules::new().default_limits(five()), Some(OnStoreFailure::FailClosed));
    plan.line.places = crate::plan::Places::Exactly(0);
    let mut desk = Desk::of(plan);
    let place = desk.asks("a");
    let refusal = desk.engine.requeue(desk.now, &place, FULL).unwrap_err();
    assert_eq!((refusal.reason, refusal.bound), (Reason::LabelCap, 5));
    assert_eq!(desk.in_flight(), 0);

    let labels = LabelPlan { max_waiting: 1, ..LabelPlan::default() };
    let rules = plan_shared(10, Rules::new().default_limits(five()), Some(OnStoreFailure::FailClosed));
    let mut desk = Desk::of(Plan { labels, ..rules });
    let places = [desk.asks("a"), desk.asks("a")];
    desk.put_back(&places[0]);
    assert!(desk.engine.requeue(desk.now, &places[1], FULL).is_err(), "one of a label waits");
}

#[test]
fn a_run_has_no_more_waiters_for_having_asked() {
    let labels = LabelPlan { max_waiting_per_run: 1, ..LabelPlan::default() };
    let rules = plan_shared(10, Rules::new().default_limits(five()), Some(OnStoreFailure::FailClosed));
    let mut desk = Desk::of(Plan { labels, ..rules });
    let of_run = |desk: &mut Desk, run| {
        let ask = Ask { subject: Some(Subject::new("ns", "a", run)), ..desk.ask("", "ns", "a") };
        desk.engine.arrive(desk.now, &ask)
    };
    let [first, second, other, without, another] =
        [Some("one"), Some("one"), Some("other"), None, None].map(|run| match of_run(&mut desk, run) {
            Arrival::Ask(place, _) => place,
            answer => panic!("it does not ask: {answer:?}"),
        });
    [&first, &other, &without, &another].into_iter().for_each(|place| desk.put_back(place));
    let Arrival::Reject(refusal) = of_run(&mut desk, Some("one")) else { panic!("this run has its waiter") };
    assert_eq!((refusal.reason, refusal.bound), (Reason::RunCap, 1));
    let refusal = desk.engine.requeue(desk.now, &second, FULL).unwrap_err();
    assert_eq!(refusal.reason, Reason::LabelCap, "it may not wait, so the rule that is full rejects it");
    assert!(desk.may_ask(&first), "the next of the label asks");
    assert!(matches!(of_run(&mut desk, Some("one")), Arrival::Wait(_)), "a request that asks does not wait");
    desk.put_back(&first);
    assert!(desk.is_pending(&first), "its place in line was its own");
}

#[test]
fn a_label_whose_waiters_left_is_open_again() {
    let mut desk = desk(10, five());
    let place = desk.asks("a");
    desk.put_back(&place);
    desk.engine.cancel(desk.now, &place);
    let place = desk.asks("a");
    desk.put_back(&place);
    let behind = desk.waits("a");
    assert!(desk.look_again(&place));
    desk.engine.cancel(desk.now, &place);
    assert!(desk.may_ask(&behind), "the one that asked left: the next one does");
    assert_eq!(desk.in_flight(), 1);
}

#[test]
fn without_the_store_the_reason_and_the_answer_are_those_of_the_rules() {
    let cap = |when_full| Cap::from(5).when_full(when_full);
    for (limits, reason, empty) in [
        (five(), Reason::StoreUnavailable, false),
        (ClassLimits::new().max_in_flight(cap(WhenFull::RespondEmpty)), Reason::StoreUnavailable, true),
        (five().max_pending(100), Reason::PendingUnavailable, false),
    ] {
        let mut desk = desk(10, limits);
        let place = desk.asks("a");
        let refusal = desk.engine.reject_without_store(desk.now, &place, None);
        assert_eq!((refusal.reason, refusal.empty), (reason, empty));
    }
    let mut desk = desk(10, five());
    let first = desk.asks("a");
    desk.put_back(&first);
    let behind = desk.waits("a");
    desk.look_again(&first);
    desk.engine.reject_without_store(desk.now, &first, None);
    assert!(desk.may_ask(&behind), "the next one finds out for itself");
}

#[test]
fn rules_of_this_process_and_other_modes_ask_no_store() {
    let mut desk = desk(10, ClassLimits::new().max_in_flight(Cap::from(5).local()).max_pending(9));
    let _held = desk.runs("a");
    let mut desk = self::desk(10, five());
    desk.engine.set_mode(desk.now, crate::plan::Mode::Observe);
    let _held = desk.runs("a");
    desk.engine.set_mode(desk.now, crate::plan::Mode::Enforce);
    let _held = desk.asks("a");
}

#[test]
fn what_is_known_of_a_rule_ends_with_its_time() {
    let mut desk = desk(10, ClassLimits::new().budget("x", Rate::from(1)));
    let place = desk.asks("a");
    let no_room = NoRoom { rule: Counted::Budget, retry_after: Some(Duration::from_nanos(MINUTE)) };
    desk.engine.reject_remote(desk.now, &place, no_room);
    let label = desk.engine.all_labels().into_iter().find(|label| label.name == "a").unwrap();
    let blocked = label.blocked_by.unwrap();
    assert_eq!((&*blocked.rule, blocked.room_in_seconds), ("budget", Some(60.0)));
    desk.pass(MINUTE);
    let label = desk.engine.all_labels().into_iter().find(|label| label.name == "a").unwrap();
    assert!(label.blocked_by.is_none());
}

#[test]
fn a_label_is_unavailable_while_a_closed_rule_can_not_be_checked() {
    use crate::LabelStatus;
    let status = |on_store_failure| {
        let mut cap = Cap::from(5);
        cap.shared.on_store_failure = Some(on_store_failure);
        let mut desk = desk(10, ClassLimits::new().max_in_flight(cap));
        let place = desk.asks("a");
        let _held = desk.granted(&place);
        let look = |desk: &Desk| desk.engine.all_labels().into_iter().find(|label| label.name == "a").unwrap();
        assert_eq!(look(&desk).status, LabelStatus::Accepting, "control");
        let now = desk.engine.now();
        assert!(desk.engine.tell_store(now, StoreState::Down, Duration::ZERO).is_some());
        let label = look(&desk);
        (label.status, label.blocked_by.map(|blocked| blocked.rule))
    };
    assert_eq!(status(OnStoreFailure::FailClosed), (LabelStatus::Unavailable, Some("store".into())));
    assert_eq!(status(OnStoreFailure::FailOpen), (LabelStatus::Accepting, None));
}

#[test]
fn rules_that_a_reload_begins_to_share_are_asked_for() {
    let mut desk = Desk::new(10, Rules::new());
    let _before = desk.runs("a");
    let shared = || plan_shared(10, Rules::new().default_limits(five()), Some(OnStoreFailure::FailClosed));
    desk.engine.reload(desk.now, shared());
    let _place = desk.asks("a");
    desk.engine.reload(desk.now, super::plan(10, Rules::new()));
    let _after = desk.runs("a");
    desk.engine.reload(desk.now, shared());
    let _again = desk.asks("a");
}
