//! Which requests are charged for what.

use super::*;

#[test]
fn a_request_that_one_rule_rejects_is_charged_by_none() {
    let all = ClassLimits::new()
        .max_in_flight(Cap::from(50).when_full(WhenFull::Reject))
        .max_in_flight_per_namespace(60)
        .max_per_minute(70)
        .max_per_minute_per_namespace(80)
        .budget("shared", 90)
        .max_pending(100);
    let one = |kind| each_kind(3, RateMode::Window, WhenFull::Reject)[kind as usize].clone();
    let tighter: [fn(ClassLimits) -> ClassLimits; 6] = [
        |limits| limits.max_in_flight(Cap::from(3).when_full(WhenFull::Reject)),
        |limits| limits.max_in_flight_per_namespace(3),
        |limits| limits.max_per_minute(3),
        |limits| limits.max_per_minute_per_namespace(3),
        |limits| limits.budget("shared", 3),
        |limits| limits.max_pending(3),
    ];
    for (kind, tighter) in (0..).zip(tighter) {
        let mut desk = Desk::new(100, Rules::new().default_limits(tighter(all.clone())));
        let slots: Vec<_> = (0..3).map(|_| desk.runs("a")).collect();
        let before = desk.rules("", "ns", "a");
        let expected = if kind < 5 { one(kind).0 } else { Reason::PendingFull };
        for _ in 0..20 {
            assert_eq!(desk.refused("a").reason, expected);
        }
        assert_eq!(before.len(), 6);
        for (rule, after) in before.iter().zip(desk.rules("", "ns", "a")) {
            assert_eq!((rule.used, after.used), (3, 3), "{}", rule.rule);
        }
        for slot in slots {
            desk.finish(slot);
        }
        let used: Vec<_> = desk.rules("", "ns", "a").iter().map(|rule| rule.used).collect();
        assert_eq!(used, [0, 0, 3, 3, 3, 0], "caps are given back, rates are not");
    }
}

#[test]
fn a_waiter_is_charged_for_nothing_but_waiting() {
    let limits = ClassLimits::new()
        .max_in_flight(9)
        .max_in_flight_per_namespace(9)
        .max_per_minute(9)
        .max_per_minute_per_namespace(9)
        .budget("shared", 9)
        .max_pending(9);
    let mut desk = Desk::new(1, Rules::new().default_limits(limits));
    let slot = desk.arrive("", "other", "x");
    let places = [desk.waits("a"), desk.waits("a")];
    let used = |desk: &Desk| desk.rules("", "ns", "a").iter().map(|rule| rule.used).collect::<Vec<_>>();
    assert_eq!(used(&desk), [0, 0, 0, 0, 0, 2]);
    let Arrival::Admit(slot) = slot else { panic!("it runs") };
    desk.finish(slot);
    assert_eq!(used(&desk), [1, 1, 1, 1, 1, 2], "it is charged at the grant, before the grant is fetched");
    desk.engine.cancel(desk.now, &places[0]);
    assert_eq!(used(&desk), [1, 1, 2, 2, 2, 1], "the next one got the slot of the one that left");
    let second = desk.granted(&places[1]);
    desk.finish(second);
    assert_eq!(used(&desk), [0, 0, 2, 2, 2, 0]);
}

#[test]
fn the_most_particular_key_that_says_something_wins_for_each_setting() {
    let rules = Rules::new()
        .class("work", ClassLimits::new().max_in_flight(1).max_per_minute(1).max_pending(1).budget("class", 1))
        .override_key("*", "work", ClassLimits::new().max_in_flight(2).max_per_minute(2).max_in_flight_per_namespace(2))
        .override_key("q", "work", ClassLimits::new().max_in_flight(3).max_per_minute(3))
        .override_key("ns:*", "work", ClassLimits::new().max_in_flight(4).budget("ns", 4))
        .override_key("ns:q", "work", ClassLimits::new().max_in_flight(Cap::unlimited()));
    let mut desk = Desk::new(100, rules);
    let mut found = |namespace, label| {
        let _ = desk.arrive("work", namespace, label);
        let rules = desk.rules("work", namespace, label);
        rules.iter().map(|rule| format!("{}={} from {}", rule.rule, rule.bound, rule.source)).collect::<Vec<_>>()
    };
    assert_eq!(
        found("ns", "q"),
        [
            // `ns:q` lifts the cap on what is in flight.
            "max_in_flight_per_namespace=2 from *",
            "max_per_minute=3 from label",
            "budget=4 from namespace:*",
            "max_pending=1 from class",
        ]
    );
    assert_eq!(
        found("ns", "other"),
        [
            "max_in_flight=4 from namespace:*",
            "max_in_flight_per_namespace=2 from *",
            "max_per_minute=2 from *",
            "budget=4 from namespace:*",
            "max_pending=1 from class",
        ]
    );
    assert_eq!(
        found("else", "q"),
        [
            "max_in_flight=3 from label",
            "max_in_flight_per_namespace=2 from *",
            "max_per_minute=3 from label",
            "budget=1 from class",
            "max_pending=1 from class",
        ]
    );
    assert_eq!(found("else", "other")[0], "max_in_flight=2 from *");
    let _ = desk.arrive("", "ns", "q");
    assert!(desk.rules("", "ns", "q").is_empty(), "other classes have rules of their own");
}

#[test]
fn a_group_spans_the_classes_and_labels_of_its_namespace() {
    let limits = || ClassLimits::new().budget("shared", 3);
    let rules = Rules::new().class("one", limits()).class("two", limits());
    let mut desk = Desk::new(100, rules);
    for (class, label) in [("one", "a"), ("one", "b"), ("two", "a")] {
        assert!(matches!(desk.arrive(class, "ns", label), Arrival::Admit(_)));
    }
    for (class, label) in [("one", "a"), ("two", "b"), ("two", "new")] {
        assert!(
            matches!(desk.arrive(class, "ns", label), Arrival::Reject(refusal) if refusal.reason == Reason::Budget)
        );
        assert_eq!(desk.used(class, "ns", label, "budget"), 3);
    }
    assert!(matches!(desk.arrive("one", "else", "a"), Arrival::Admit(_)), "each namespace has its own");
    assert!(matches!(desk.arrive("three", "ns", "a"), Arrival::Admit(_)), "this class has no rules");
}

#[test]
fn caps_and_rates_of_a_namespace_belong_to_one_class() {
    let limits = || ClassLimits::new().max_in_flight_per_namespace(2).max_per_minute_per_namespace(2);
    let mut desk = Desk::new(100, Rules::new().class("one", limits()).class("two", limits()));
    for class in ["one", "one", "two", "two"] {
        assert!(matches!(desk.arrive(class, "ns", "a"), Arrival::Admit(_)));
    }
    for class in ["one", "two"] {
        assert!(matches!(desk.arrive(class, "ns", "b"), Arrival::Reject(_)));
    }
}

#[test]
fn counters_are_bounded_as_labels_are_and_renewed_by_no_name() {
    const TOLD_APART: usize = 10;
    let limits = ClassLimits::new().max_in_flight_per_namespace(5).max_per_minute_per_namespace(5).budget("shared", 7);
    let mut settings = plan(100, Rules::new().default_limits(limits));
    settings.labels.max_labels = TOLD_APART;
    let mut desk = Desk::of(settings);
    let one = |desk: &mut Desk, namespace: &str| match desk.arrive("", namespace, "a") {
        Arrival::Admit(slot) => {
            desk.finish(slot);
            true
        }
        Arrival::Reject(refusal) => {
            assert_eq!(refusal.reason, Reason::Rate);
            false
        }
        other => panic!("{other:?}"),
    };
    let mut minutes = Vec::new();
    for second in 0..6_000_u64 {
        if second % 60 == 0 {
            minutes.push(0);
        }
        *minutes.last_mut().unwrap() += u32::from(one(&mut desk, &second.to_string()));
        desk.pass(SECOND);
        // A namespace and a group for each label, and for each of the three entries that several share.
        assert!(desk.engine.quotas.meters() <= 2 * (TOLD_APART + 3), "{}", desk.engine.quotas.meters());
        desk.engine.check_all();
    }
    assert!(minutes.iter().all(|&minute| minute == 10 + 5), "ten of their own, and five for all others: {minutes:?}");
    // A namespace is not forgotten before its time.
    let used = (0..5).filter(|_| one(&mut desk, "ns")).count();
    for other in 0..200 {
        one(&mut desk, &format!("other{other}"));
    }
    assert_eq!((used, one(&mut desk, "ns")), (5, false));
    assert!(!one(&mut desk, "one more") && one(&mut desk, ""), "the empty namespace is not what others share");
}

#[test]
fn a_label_whose_rate_is_used_up_is_not_forgotten() {
    let mut settings = plan(100, Rules::new().default_limits(ClassLimits::new().max_per_minute(1)));
    settings.labels.max_labels = 4;
    let mut desk = Desk::of(settings);
    for label in ["a", "b"] {
        let slot = desk.runs(label);
        desk.finish(slot);
    }
    for round in 0..50 {
        // Requests that are rejected come and go.
        assert_eq!(desk.refused("a").reason, Reason::Rate, "{round}");
        assert_eq!(desk.refused("b").reason, Reason::Rate, "{round}");
        let _ = desk.one(&format!("new{round}"));
    }
    desk.pass(MINUTE);
    drop(desk.runs("a"));
}

/// Inventing names is no way around a rule.
#[test]
fn labels_that_find_no_entry_share_what_one_is_allowed() {
    let rules = Rules::new()
        .class("one", ClassLimits::new().max_per_minute(2))
        .default_limits(ClassLimits::new().max_per_minute(3));
    let mut settings = plan(10_000, rules);
    settings.labels.max_labels = 4;
    let mut desk = Desk::of(settings);
    let mut admitted = 0;
    for label in 0..1_000 {
        // These requests run on.
        admitted += u32::from(matches!(desk.arrive("one", "", &label.to_string()), Arrival::Admit(_)));
    }
    assert_eq!(admitted, 4 + 2, "one for each of four labels that run on, and two for all others");
    let mut admitted = 0;
    for label in 0..1_000 {
        admitted += u32::from(matches!(desk.one(&label.to_string()), Arrival::Admit(_)));
    }
    assert_eq!(admitted, 3, "each class has an entry of its own to share");
}

#[test]
fn as_many_of_a_label_are_pending_as_may() {
    for when_full in [WhenFull::Reject, WhenFull::RespondEmpty] {
        let limits = ClassLimits::new().max_pending(Cap::from(3).when_full(when_full)).max_in_flight(1);
        let mut desk = Desk::new(10, Rules::new().default_limits(limits));
        let slot = desk.runs("a");
        let places = [desk.waits("a"), desk.waits("a")];
        let refusal = desk.refused("a");
        assert_eq!((refusal.reason, refusal.bound), (Reason::PendingFull, 3));
        assert_eq!(refusal.empty, when_full == WhenFull::RespondEmpty);
        drop(desk.runs("b"));
        desk.finish(slot);
        drop(desk.granted(&places[0]));
        drop(desk.waits("a"));
        assert_eq!(desk.refused("a").reason, Reason::PendingFull);
        desk.engine.cancel(desk.now, &places[1]);
        drop(desk.waits("a"));
    }
}

#[test]
fn a_label_keeps_its_class_for_what_is_given_back() {
    let rules = Rules::new().class("one", ClassLimits::new().max_in_flight_per_namespace(1));
    let mut desk = Desk::new(10, rules);
    for _ in 0..10 {
        let Arrival::Admit(slot) = desk.arrive("one", "ns", "a") else { panic!("it runs") };
        assert_eq!(desk.used("one", "ns", "a", "max_in_flight_per_namespace"), 1);
        let Arrival::Admit(other) = desk.arrive("two", "ns", "a") else { panic!("it runs") };
        desk.finish(other);
        desk.finish(slot);
        assert_eq!(desk.used("one", "ns", "a", "max_in_flight_per_namespace"), 0);
    }
}
