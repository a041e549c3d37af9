//! What happens to requests that find a rule full: they wait, are rejected, or are told that there is no work.

use super::{super::super::tokens::Stage, *};

const KINDS: usize = 5;

fn is_cap(reason: Reason) -> bool {
    matches!(reason, Reason::LabelCap | Reason::NamespaceCap)
}

/// Returns a rule of each kind that allows one request, on namespace `ns`; the class as a whole allows everything.
fn on_ns(kind: usize, mode: RateMode, when_full: WhenFull) -> (Reason, Rules) {
    let (reason, limits) = each_kind(1, mode, when_full)[kind].clone();
    (reason, Rules::new().override_key("ns:*", "*", limits))
}

#[test]
fn a_label_that_waits_for_a_rule_stops_no_other_and_is_served_when_there_is_room() {
    for (kind, mode) in (0..KINDS).flat_map(|kind| [(kind, RateMode::Window), (kind, smooth(1))]) {
        let (reason, rules) = on_ns(kind, mode, WhenFull::Queue);
        let mut desk = Desk::new(10, rules);
        desk.pass(7 * SECOND);
        let first = desk.runs("a");
        let places = [desk.waits("a"), desk.waits("a")];
        let other = desk.arrive("", "elsewhere", "a");
        assert!(matches!(other, Arrival::Admit(_)), "{reason}: others go on");
        if is_cap(reason) {
            assert_eq!(desk.engine.next_wakeup(), None, "{reason}: time changes nothing");
            desk.pass(10 * MINUTE);
            assert!(desk.is_pending(&places[0]));
            desk.finish(first);
            let second = desk.granted(&places[0]);
            assert!(desk.is_pending(&places[1]), "{reason}");
            desk.finish(second);
            drop(desk.granted(&places[1]));
        } else {
            let due = if mode == RateMode::Window { 60 * SECOND } else { 67 * SECOND };
            desk.finish(first);
            for (round, place) in (0..).zip(&places) {
                let due = Timestamp::from_nanos(due + round * MINUTE);
                assert_eq!(desk.engine.next_wakeup(), Some(due), "{reason} {mode:?} {kind}");
                desk.pass(due.since(desk.now).as_nanos() as u64 - 1);
                assert!(desk.is_pending(place), "{reason}: a nanosecond too early");
                desk.pass(1);
                drop(desk.granted(place));
            }
            assert_eq!(desk.engine.next_wakeup(), None);
        }
    }
}

#[test]
fn a_rejected_request_is_told_when_to_come_back() {
    for (kind, mode) in (0..KINDS).flat_map(|kind| [(kind, RateMode::Window), (kind, smooth(1))]) {
        for when_full in [WhenFull::Reject, WhenFull::RespondEmpty] {
            let (reason, rules) = on_ns(kind, mode, when_full);
            let mut desk = Desk::new(10, rules);
            desk.pass(7 * SECOND + 123);
            let first = desk.runs("a");
            let refusal = desk.refused("a");
            assert_eq!((refusal.reason, refusal.empty), (reason, when_full == WhenFull::RespondEmpty));
            assert_eq!(refusal.bound, 1);
            let ask = desk.ask("", "ns", "a");
            let at_once = desk.engine.arrive_without_waiting(desk.now, &ask).unwrap_err();
            assert_eq!((at_once.reason, at_once.empty), (refusal.reason, refusal.empty));
            if is_cap(reason) {
                desk.finish(first);
            } else {
                desk.pass(refusal.retry_after.as_nanos() as u64 - 1);
                assert_eq!(desk.refused("a").reason, reason, "{mode:?}");
                desk.pass(1);
            }
            drop(desk.runs("a"));
            assert_eq!(desk.refused("a").reason, reason, "and it is full again");
        }
    }
}

/// There is room on arrival and none when the turn comes.
#[test]
fn a_rule_rejects_at_the_grant_as_well() {
    for (kind, mode) in (0..KINDS).flat_map(|kind| [(kind, RateMode::Window), (kind, smooth(1))]) {
        for when_full in [WhenFull::Reject, WhenFull::RespondEmpty] {
            let (reason, rules) = on_ns(kind, mode, when_full);
            let mut desk = Desk::new(3, rules);
            let held = ["x", "y", "z"].map(|label| desk.arrive("", "elsewhere", label));
            let places = [desk.waits("a"), desk.waits("a")];
            let later = desk.arrive("", "elsewhere", "later");
            for held in held {
                let Arrival::Admit(slot) = held else { panic!("there was room") };
                desk.finish(slot);
            }
            drop(desk.granted(&places[0]));
            let Poll::Ready(Err(refusal)) = desk.claim(&places[1]) else { panic!("{reason}: not refused") };
            assert_eq!((refusal.reason, refusal.empty), (reason, when_full == WhenFull::RespondEmpty));
            let Arrival::Wait(later) = later else { panic!("it waits") };
            drop(desk.granted(&later));
        }
    }
}

#[test]
fn a_full_rule_that_rejects_goes_before_one_that_waits() {
    let limits = ClassLimits::new().max_in_flight(1).max_per_minute(1);
    let mut desk = Desk::new(10, Rules::new().default_limits(limits));
    let _held = desk.runs("a");
    assert_eq!(desk.refused("a").reason, Reason::Rate, "the cap alone would let it wait");
}

#[test]
fn labels_take_turns_at_a_cap_they_share_and_few_are_tried() {
    const LABELS: usize = 200;
    let limits = ClassLimits::new().max_in_flight_per_namespace(Cap::from(3).when_full(WhenFull::Queue));
    let mut desk = Desk::new(1_000, Rules::new().default_limits(limits));
    let mut running: std::collections::VecDeque<_> = (0..3).map(|_| desk.runs("first")).collect();
    let mut places: Vec<Vec<Place>> = Vec::new();
    for label in 0..LABELS {
        places.push((0..3).map(|_| desk.waits(&label.to_string())).collect());
    }
    let mut order = Vec::new();
    for _ in 0..3 * LABELS {
        let before = desk.engine.quotas.times_throttled();
        let slot = running.pop_front().unwrap();
        desk.finish(slot);
        assert!(
            desk.engine.quotas.times_throttled() - before <= 1,
            "only the label that was served is tried once more"
        );
        while desk.engine.take_notice().is_some() {}
        let served = (0..LABELS).find(|&label| {
            let place = places[label].first();
            place.is_some_and(|place| matches!(desk.engine.queue.get(place.key()).stage, Stage::Granted { .. }))
        });
        let label = served.expect("somebody is served");
        let place = places[label].remove(0);
        running.push_back(desk.granted(&place));
        order.push(label);
    }
    for round in order.chunks(LABELS) {
        assert!(
            round.iter().copied().eq(0..LABELS),
            "each label once in each round, in the order of arrival: {round:?}"
        );
    }
}

/// One waiter for each label: the waiter that came first is served first, and no waiter that is tried in vain loses its
/// place.
#[test]
fn the_waiter_that_came_first_goes_first_at_a_shared_cap() {
    let limits = ClassLimits::new().max_in_flight_per_namespace(Cap::from(1).when_full(WhenFull::Queue));
    let mut desk = Desk::new(10, Rules::new().default_limits(limits));
    let mut slot = desk.runs("first");
    let places: Vec<_> = ["a", "b", "c", "d"].map(|label| desk.waits(label)).into();
    for place in &places {
        desk.finish(slot);
        slot = desk.granted(place);
    }
}

#[test]
fn a_label_with_a_wider_bound_is_not_held_up_by_one_with_a_narrower() {
    let cap = |max| ClassLimits::new().max_in_flight_per_namespace(Cap::from(max).when_full(WhenFull::Queue));
    let mut desk = Desk::new(100, Rules::new().default_limits(cap(10)).override_key("narrow", "*", cap(2)));
    let mut running: Vec<_> = (0..10).map(|_| desk.runs("wide")).collect();
    let narrow = desk.waits("narrow");
    let wide = desk.waits("wide");
    desk.finish(running.pop().unwrap());
    running.push(desk.granted(&wide));
    assert!(desk.is_pending(&narrow));
    for slot in running.drain(..9) {
        desk.finish(slot);
    }
    drop(desk.granted(&narrow));
}

#[test]
fn waiters_for_a_shared_rate_are_served_in_the_order_of_arrival() {
    for mode in [RateMode::Window, smooth(1)] {
        let rate = Rate::from(1).mode(mode).when_full(WhenFull::Queue);
        let mut desk = Desk::new(10, Rules::new().default_limits(ClassLimits::new().budget("shared", rate)));
        let first = desk.runs("first");
        desk.finish(first);
        let places: Vec<_> = (0..100).map(|label| desk.waits(&label.to_string())).collect();
        for place in &places {
            let before = desk.engine.quotas.times_throttled();
            desk.pass(MINUTE);
            assert!(desk.engine.quotas.times_throttled() - before <= 1);
            let slot = desk.granted(place);
            desk.finish(slot);
        }
    }
}

#[test]
fn a_waiter_for_a_rate_is_not_overtaken_by_a_request_that_comes_when_there_is_room() {
    for kind in 2..KINDS {
        let (_, rules) = on_ns(kind, RateMode::Window, WhenFull::Queue);
        let mut desk = Desk::new(10, rules);
        let _held = desk.runs("a");
        let place = desk.waits("a");
        // No timer was there to look at the right time.
        desk.now = Timestamp::from_nanos(MINUTE);
        drop(desk.waits("a"));
        drop(desk.granted(&place));
    }
}

#[test]
fn a_waiter_that_leaves_leaves_nothing_behind() {
    for (kind, mode) in (0..KINDS).flat_map(|kind| [(kind, RateMode::Window), (kind, smooth(1))]) {
        let (reason, rules) = on_ns(kind, mode, WhenFull::Queue);
        let mut desk = Desk::new(10, rules);
        let first = desk.runs("a");
        let places = [desk.waits("a"), desk.waits("a"), desk.waits("a")];
        assert_eq!(desk.engine.next_wakeup().is_none(), is_cap(reason));
        for place in places {
            desk.engine.cancel(desk.now, &place);
        }
        assert_eq!(desk.engine.next_wakeup(), None, "{reason}: nobody waits for anything");
        desk.finish(first);
        let place = if is_cap(reason) { None } else { Some(desk.waits("a")) };
        desk.pass(MINUTE);
        match place {
            Some(place) => drop(desk.granted(&place)),
            None => drop(desk.runs("a")),
        }
    }
}

#[test]
fn when_decisions_stop_binding_no_request_waits_for_a_rule() {
    for kind in 0..KINDS {
        let (reason, rules) = on_ns(kind, RateMode::Window, WhenFull::Queue);
        let mut desk = Desk::new(10, rules);
        let first = desk.runs("a");
        let place = desk.waits("a");
        desk.engine.set_mode(desk.now, Mode::Observe);
        let second = desk.granted(&place);
        drop(desk.runs("a"));
        let counts = &desk.engine.snapshot().partitions[0];
        assert_eq!(counts.would_queue, 1, "{reason}");
        desk.engine.set_mode(desk.now, Mode::Enforce);
        let place = desk.waits("a");
        desk.finish(first);
        desk.finish(second);
        desk.pass(MINUTE);
        drop(desk.granted(&place));
    }
}

#[test]
fn what_would_be_rejected_is_counted_while_decisions_dont_bind() {
    for kind in 0..KINDS {
        let (reason, rules) = on_ns(kind, RateMode::Window, WhenFull::Reject);
        let mut desk = Desk::new(10, rules);
        desk.engine.set_mode(desk.now, Mode::Observe);
        for _ in 0..3 {
            drop(desk.runs("a"));
        }
        let counts = &desk.engine.snapshot().partitions[0];
        assert_eq!((counts.admitted, counts.would_reject.get(reason.as_str())), (3, Some(&2)), "{reason}");
    }
}

#[test]
fn bounds_for_labels_do_not_hold_for_requests_without_one() {
    let rules = Rules::new().class("bulk", ClassLimits::new().max_in_flight(9));
    let mut settings = plan(1, rules);
    settings.labels.wait = Some(Duration::from_secs(30));
    settings.labels.default.cap = Some(1);
    let mut desk = Desk::of(settings);
    let Arrival::Admit(slot) = desk.engine.arrive(desk.now, &Ask::of(PartitionId::DEFAULT)) else { panic!("it runs") };
    let Arrival::Wait(place) = desk.engine.arrive(desk.now, &Ask::of(PartitionId::DEFAULT)) else { panic!("it waits") };
    let labelled = desk.waits("a");
    desk.pass(31 * SECOND);
    assert!(desk.is_pending(&place));
    assert!(!desk.is_pending(&labelled));
    desk.finish(slot);
    drop(desk.granted(&place));
}

#[test]
fn a_deadline_that_has_passed_rejects_requests_that_do_not_wait() {
    for rules in [Rules::new(), Rules::new().default_limits(ClassLimits::new().max_in_flight(5))] {
        let mut desk = Desk::new(1, rules);
        desk.pass(SECOND);
        let ask = Ask { deadline: desk.now, ..Ask::of(PartitionId::DEFAULT) };
        let refusal = desk.engine.arrive_without_waiting(desk.now, &ask).unwrap_err();
        assert_eq!(refusal.reason, Reason::Deadline);
    }
}
