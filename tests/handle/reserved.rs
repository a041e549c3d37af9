//! Slots that are held back for requests that were turned away below their share: few, and not for long.

use std::collections::VecDeque;

use admission_testkit::ByHand;
use tower_admission::{Admission, AdmissionBuilder, Criticality, Permit, Ticket, limit::Fixed, percent};

use super::{ms, poll_once};

fn with_limit(limit: usize) -> (AdmissionBuilder, ByHand) {
    let clock = ByHand::default();
    (Admission::builder().limit(Fixed::new(limit)).clock(clock.clone()), clock)
}

/// How many of so many requests get a slot.
fn admitted<'a>(admission: &Admission, requests: usize, ticket: impl Fn() -> Ticket<'a>) -> Vec<Permit> {
    (0..requests).filter_map(|_| admission.try_admit(ticket()).ok()).collect()
}

#[test]
fn what_was_refused_once_does_not_turn_an_idle_server_away() {
    let levels = [Criticality::CriticalPlus, Criticality::Critical];
    let of_level = |level: usize| Ticket::new().criticality(levels[level]);
    let of_label = |label: usize| Ticket::new().label(["light", "heavy"][label]);
    let of_partition = |partition: usize| Ticket::new().partition(if partition == 1 { "large" } else { "small" });
    let tickets: [(&str, &dyn Fn(usize) -> Ticket<'static>); 3] =
        [("level", &of_level), ("label", &of_label), ("partition", &of_partition)];
    for (kind, ticket) in tickets {
        let (builder, clock) = with_limit(100);
        let admission = builder.shed().partition("small", percent(50)).build().unwrap();
        let common = || ticket(1);
        let running = admitted(&admission, 100, common);
        assert_eq!(running.len(), 100);
        let refused = admitted(&admission, 100, || ticket(0)).len();
        assert_eq!(refused, 0, "{kind}: a full server is full");
        clock.pass(ms(100));
        drop(running);
        let at_once = admitted(&admission, 100, common).len();
        assert!(at_once >= 99, "{kind}: {at_once} of 100 requests on a server where nothing runs");
        clock.pass(ms(101));
        let after = admitted(&admission, 100, common).len();
        assert_eq!(after, 100, "{kind}: one service time later");
    }
}

#[test]
fn invented_labels_hold_back_no_more_than_one_does() {
    let (builder, _clock) = with_limit(100);
    let admission = builder.shed().build().unwrap();
    let holder = || Ticket::new().label("holder");
    let _another = admission.try_admit(Ticket::new().label("another")).unwrap();
    let running = admitted(&admission, 99, holder);
    for label in 0..5_000 {
        let name = format!("invented {label}");
        assert!(admission.try_admit(Ticket::new().label(&name)).is_err());
    }
    drop(running);
    let found = admitted(&admission, 99, holder).len();
    assert!(found >= 98, "{found} of 99 slots that are free");
}

#[test]
fn without_a_driver_nothing_is_held_back_after_an_hour() {
    for limit in 1..10 {
        let (builder, clock) = with_limit(limit);
        let admission = builder.shed().partition("a", percent(50)).partition("b", percent(50)).build().unwrap();
        let of_a = || Ticket::new().partition("a").criticality(Criticality::Sheddable);
        let running = admitted(&admission, limit, of_a);
        let refused = admitted(&admission, 100, || Ticket::new().partition("b").label("some"));
        clock.pass(ms(3_600_000));
        drop((running, refused));
        assert_eq!(admitted(&admission, limit, of_a).len(), limit, "the first look after an hour");
    }
}

/// How a server fares that 16,000 requests a second flood, of which it can serve 1,600, while another partition comes
/// as told: how many slots run on average after 1 s, and what part of the other partition's requests is served.
fn flood(other: impl Fn(usize) -> usize) -> (f64, f64) {
    let (builder, clock) = with_limit(80);
    let admission = builder.shed().partition("bulk", percent(50)).partition("web", percent(50)).build().unwrap();
    let mut running: VecDeque<(usize, Permit)> = VecDeque::new();
    let (mut in_flight, mut came, mut served) = (0, 0, 0);
    for now in 0..4_000 {
        while running.front().is_some_and(|&(ends, _)| ends <= now) {
            running.pop_front();
        }
        let mut arrive = |partition: &'static str, requests| {
            let found = admitted(&admission, requests, || Ticket::new().partition(partition));
            let count = found.len();
            // From 45 to 55 ms, in an order of its own.
            running
                .extend(found.into_iter().enumerate().map(|(i, permit)| (now + 45 + (now * 7 + i * 3) % 11, permit)));
            running.make_contiguous().sort_by_key(|&(ends, _)| ends);
            count
        };
        arrive("bulk", 8);
        let found = arrive("web", other(now));
        arrive("bulk", 8);
        if now >= 1_000 {
            (came, served) = (came + other(now), served + found);
            in_flight += admission.snapshot().in_flight;
        }
        clock.pass(ms(1));
    }
    (in_flight as f64 / 3_000.0, 100.0 * served as f64 / (came as f64).max(1.0))
}

/// What it is, how many requests come at a time, and how many percent of them are served at least.
type Other<'a> = (&'a str, &'a dyn Fn(usize) -> usize, f64);

#[test]
fn a_flooded_server_uses_at_least_98_percent_of_its_slots() {
    let other: [Other<'_>; 5] = [
        ("nothing else", &|_| 0, 0.0),
        ("one request in 200 ms", &|now| usize::from(now % 200 == 0), 0.0),
        ("one in 10 ms: 5 slots", &|now| usize::from(now % 10 == 3), 80.0),
        ("one in 2 ms: 25 slots", &|now| usize::from(now % 2 == 0), 80.0),
        ("sixty at once, each half second", &|now| if now % 500 == 0 { 60 } else { 0 }, 0.0),
    ];
    for (what, other, least) in other {
        let (in_flight, served) = flood(other);
        println!("{what}: {in_flight:.2} of 80 slots run, {served:.1} % of it is served");
        assert!(in_flight >= 0.98 * 80.0, "{what}: {in_flight:.2} of 80 slots run");
        assert!(served >= least, "{what}: {served:.1} % is served");
    }
}

#[test]
fn nothing_is_held_back_any_more_after_a_reload_from_shedding_to_a_queue() {
    let (builder, _clock) = with_limit(4);
    let admission = builder.shed().build().unwrap();
    let label = |name: &'static str| Ticket::new().label(name);
    let _other = admission.try_admit(label("c")).unwrap();
    let mut running = admitted(&admission, 3, || label("a"));
    assert!(admission.try_admit(label("b")).is_err());
    admission.reload(Admission::builder().limit(Fixed::new(4)).queue(10)).unwrap();
    drop(running.pop());
    let mut waiter = admission.admit(label("a"));
    let permit = poll_once(&mut waiter);
    assert!(matches!(permit, Some(Ok(_))), "a free slot and a waiter side by side: {permit:?}");
}
