//! The table of labels under a flood of names.

use super::*;
use crate::ids::RuleClassId;

/// Sends a request of a label that a stranger made up, and ends it at once if it is admitted.
fn visit(engine: &mut Engine, now: Timestamp, name: &str) {
    let ask = Ask { subject: Some(Subject::new("", name, None)), ..Ask::of(PartitionId::DEFAULT) };
    if let Ok(mut slot) = engine.arrive_without_waiting(now, &ask) {
        engine.finish(now, &mut slot);
    }
}

fn knows(engine: &Engine, name: &str) -> bool {
    engine.quotas.find(RuleClassId::OTHERS, &Subject::new("", name, None)).is_some()
}

#[test]
fn a_million_names_take_the_place_of_none_that_is_in_use() {
    const NAMES: usize = 1_000_000;
    let mut plan = plan(3, 10);
    plan.labels.max_labels = 1_000;
    plan.labels.default.cap = Some(1);
    let mut room = Room::new(plan);
    // One label runs, one waits behind it, one has a worker, and one slot is left.
    ["runs", "runs", "other"].into_iter().for_each(|name| room.ask(name));
    let worker = Subject::new("", "has a worker", None);
    assert!(room.engine.report_worker(room.now, None, &worker, "worker", Some((1, 10 * SECOND))));
    let in_use = ["runs", "other", "has a worker"];
    for number in 0..NAMES {
        visit(&mut room.engine, room.now, &number.to_string());
        if number % 10_000 == 0 || number < 2_000 {
            room.engine.check_all();
            assert!(in_use.iter().all(|name| knows(&room.engine, name)));
        }
    }
    assert!(in_use.iter().all(|name| knows(&room.engine, name)));
    assert_eq!(room.engine.quotas.in_use().count(), 1_000);
    assert_eq!(room.engine.quotas.table().evicted, NAMES as u64 + 3 - 1_000);
    assert_eq!(room.engine.quotas.table().overflowed, 0);
    // The labels that came last are known still, and no others.
    assert!((NAMES - 997..NAMES).all(|number| knows(&room.engine, &number.to_string())));
}

#[test]
fn the_label_that_is_idle_for_longest_is_forgotten_first() {
    let mut plan = plan(10, 0);
    plan.labels.max_labels = 4;
    let mut room = Room::new(plan);
    ["a", "b", "c", "d"].into_iter().for_each(|name| room.ask(name));
    // First "b" ends, then "d", "a" and "c", and "c" comes once more.
    [1, 2, 0, 0].into_iter().for_each(|which| room.free(which));
    room.ask("c");
    room.free(0);
    let mut forgotten = Vec::new();
    for stranger in ["1", "2", "3", "4"] {
        let before: Vec<_> = NAMES.into_iter().filter(|name| knows(&room.engine, name)).collect();
        visit(&mut room.engine, room.now, stranger);
        forgotten.extend(before.into_iter().filter(|name| !knows(&room.engine, name)));
    }
    assert_eq!(forgotten, ["b", "d", "a", "c"]);
}

#[test]
fn where_all_labels_are_in_use_further_ones_share_an_entry() {
    let mut plan = plan(2, 10);
    plan.labels.max_labels = 2;
    plan.labels.default.cap = Some(1);
    let mut room = Room::new(plan);
    ["a", "b", "x", "y", "x"].into_iter().for_each(|name| room.ask(name));
    assert_eq!((room.running.len(), room.waiting.len()), (2, 3));
    assert_eq!((room.engine.quotas.table().overflowed, room.engine.quotas.table().evicted), (3, 0));
    // A worker of one of these labels is not noted: it would stand for all of them.
    let subject = Subject::new("", "x", None);
    assert!(!room.engine.report_worker(room.now, None, &subject, "worker", Some((0, SECOND))));
    // These labels share one cap, and take turns like any other.
    room.free(0);
    room.free(0);
    assert_eq!(room.granted.iter().map(|caller| caller.label).collect::<Vec<_>>(), ["x"]);
    // "a" and "b" are idle now, so there is room again.
    room.ask("z");
    assert!(knows(&room.engine, "z") && !knows(&room.engine, "a"));
}

#[test]
fn an_expired_slot_teaches_nothing_about_the_label_that_has_its_entry_now() {
    let mut plan = plan(1, 10);
    plan.labels.max_labels = 1;
    plan.time_to_live = Some(SECOND);
    let mut room = Room::new(plan);
    room.ask("a");
    room.pass(SECOND);
    assert_eq!(room.engine.slot_ttl.expired(), 1);
    room.ask("b");
    assert!(!knows(&room.engine, "a"));
    room.now = room.now.after(SECOND / 2);
    room.free(0);
    let (snapshot, labels) = (room.engine.snapshot(), room.engine.all_labels());
    assert_eq!((snapshot.in_flight, labels[0].name.as_str()), (1, "b"));
    assert!(labels[0].drain_rate.abs() < f64::EPSILON, "nothing of it has ended");
    assert!((snapshot.mean_hold_seconds - 1.0).abs() < 1e-9, "the slot came free after its time");
}

#[test]
fn workers_do_not_make_the_fair_share_of_others_smaller() {
    let mut room = Room::new(plan(4, 0));
    let subject = |label| Subject::new("", label, None);
    for label in ["x", "y", "z"] {
        room.engine.report_worker(room.now, None, &subject(label), "worker", Some((1, SECOND)));
    }
    room.ask("a");
    room.ask("b");
    assert_eq!((room.engine.quotas.active(), room.engine.quotas.fair_share(4)), (2, 2));
}
