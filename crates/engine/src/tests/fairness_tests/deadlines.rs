//! Deadlines, and how long a wait may be.

use super::*;
use crate::{Outcome, Reason};

/// Returns a server that runs one request at a time, each for a second, has learned so, and has `waiting` requests in
/// line. None of these has a deadline.
fn one_per_second(waiting: usize) -> Room {
    one_per_second_with(plan(1, 100), waiting)
}

fn one_per_second_with(plan: Plan, waiting: usize) -> Room {
    let slots = plan.law.limit();
    let mut room = Room::new(plan);
    for _ in 0..20 {
        room.ask("a");
        room.ask("a");
        room.pass(SECOND);
        let now = room.now;
        room.engine.observe(now, &mut room.running[0].1, Outcome::Success);
        room.free(0);
        room.pass(SECOND);
        room.free(0);
    }
    (0..=waiting).for_each(|_| room.ask("a"));
    assert_eq!(
        (room.running.len(), room.waiting.len(), room.refused.len()),
        (1, (waiting + 1).saturating_sub(slots), 0)
    );
    room
}

#[test]
fn the_case_of_the_slides() {
    let mut room = one_per_second(3);
    room.arrive("a", 1, None, Some(4 * SECOND));
    assert_eq!((room.waiting.len(), room.refused.len()), (4, 0), "with 3 waiting it is accepted");

    let mut room = one_per_second(4);
    room.arrive("a", 1, None, Some(4 * SECOND));
    assert_eq!((room.waiting.len(), room.refused.len()), (4, 1), "with 4 waiting it is rejected");
    let refusal = room.refused[0].1;
    assert_eq!(refusal.reason, Reason::Deadline);
    let off = refusal.retry_after.abs_diff(SECOND);
    assert!(off < SECOND / 100, "come back after {:?}", refusal.retry_after);
}

#[test]
fn the_fourth_of_the_slides_is_served_in_time() {
    let mut room = one_per_second(3);
    room.arrive("a", 1, None, Some(4 * SECOND + SECOND));
    let last = room.arrived;
    for _ in 0..4 {
        room.pass(SECOND);
        room.free(0);
    }
    assert_eq!(room.granted.last().map(|caller| caller.number), Some(last));
}

#[test]
fn a_request_whose_deadline_passed_never_reaches_a_slot() {
    let mut room = Room::new(plan(1, 100));
    room.ask("a");
    room.arrive("b", 1, None, Some(SECOND));
    room.arrive("c", 1, None, Some(3 * SECOND));
    // No timer came: the request that gives the slot back brings the news.
    room.now = room.now.after(2 * SECOND);
    room.free(0);
    assert_eq!(room.granted.iter().map(|caller| caller.label).collect::<Vec<_>>(), ["c"]);
    assert_eq!(
        room.refused.iter().map(|(it, why)| (it.label, why.reason)).collect::<Vec<_>>(),
        [("b", Reason::Deadline)]
    );
    // A request that comes too late doesn't run even if the server is idle, whether it would wait or not.
    room.free(0);
    room.arrive("d", 1, None, Some(Duration::ZERO));
    let late = Ask { deadline: room.now, ..Ask::of(PartitionId::DEFAULT) };
    let refusal = room.engine.arrive_without_waiting(room.now, &late).unwrap_err();
    assert_eq!((refusal.reason, room.running.len()), (Reason::Deadline, 0));
    assert_eq!(room.refused.last().unwrap().1.reason, Reason::Deadline);
}

#[test]
fn no_request_is_hopeless_where_decisions_do_not_bind() {
    let mut room = one_per_second(0);
    (0..2).for_each(|_| room.arrive("a", 1, None, Some(5 * SECOND)));
    room.now = room.now.after(4 * SECOND + SECOND / 2);
    room.engine.set_mode(room.now, crate::plan::Mode::Off);
    room.answer();
    assert_eq!((room.running.len(), room.refused.len()), (3, 0));
}

/// Whether a request of "z" with a deadline of 4 s is admitted behind 20 of "a", at one request per second.
fn is_let_in(plan: Plan) -> bool {
    let mut room = one_per_second_with(plan, 20);
    room.pass(SECOND / 2);
    room.arrive("z", 1, None, Some(4 * SECOND));
    room.refused.is_empty()
}

#[test]
fn the_prediction_knows_the_order_of_turns() {
    let discipline = |discipline| Plan { discipline, ..plan(1, 100) };
    assert!(is_let_in(discipline(Discipline::Fair)), "the turn goes round by label");
    assert!(!is_let_in(discipline(Discipline::Fifo)), "all of them came before");
}

#[test]
fn the_prediction_knows_that_the_newest_go_first() {
    let lifo = Discipline::AdaptiveLifo { interval: 10 * SECOND, short_wait: 5 * SECOND };
    let mut room = one_per_second_with(Plan { discipline: lifo, ..plan(1, 100) }, 20);
    room.arrive("a", 1, None, Some(4 * SECOND));
    assert_eq!(room.refused.len(), 1, "as long as the line drains, 20 of its own go first");
    room.now = room.now.after(10 * SECOND + SECOND / 2);
    room.arrive("a", 1, None, Some(4 * SECOND));
    assert_eq!(room.refused.len(), 1, "now it goes first itself");
}

#[test]
fn waiters_for_their_own_cap_delay_no_others() {
    let capped = LabelRule { cap: Some(1), weight: 1 };
    let mut room = one_per_second_with(with_rules(plan(2, 100), [LabelRule::default(), capped, capped, capped]), 0);
    // One request of each of three labels runs, or waits for the running one; all other requests are throttled.
    ["b", "a"].into_iter().for_each(|name| room.ask(name));
    (0..20).for_each(|_| room.ask("b"));
    let expected = |room: &mut Room, label| {
        let ask = Ask { subject: Some(Subject::new("", label, None)), ..Ask::of(PartitionId::DEFAULT) };
        let id = room.engine.label_of::<false>(room.now, &ask);
        room.engine.expected_wait(room.now, &ask, id).unwrap().as_secs_f64()
    };
    let (free, throttled) = (expected(&mut room, "a"), expected(&mut room, "b"));
    assert!(free < 1.6, "{free} s, where two are served per second and one is before it");
    assert!(throttled > 20.0, "{throttled} s, where 20 of its own are before it");
}

fn adaptive(slots: usize) -> Plan {
    Plan {
        discipline: Discipline::AdaptiveLifo { interval: SECOND / 10, short_wait: SECOND / 200 },
        ..plan(slots, 100)
    }
}

#[test]
fn the_first_in_line_after_a_quiet_hour_finds_no_backlog() {
    let mut room = Room::new(adaptive(1));
    room.now = room.now.after(3_600 * SECOND);
    ["a", "b", "b"].into_iter().for_each(|name| room.ask(name));
    room.pass(SECOND / 20);
    assert_eq!(room.refused.len(), 0, "the short wait is for those who come to a backlog");
    room.free(0);
    assert_eq!(room.granted[0].number, 2, "first come, first served");
}

#[test]
fn a_line_that_does_not_drain_serves_the_newest_first_and_waits_are_short() {
    let mut room = Room::new(adaptive(1));
    room.ask("a");
    for _ in 0..4 {
        room.ask("b");
        room.pass(SECOND * 4 / 100);
    }
    // A request has been in line for 160 ms; requests that came until 60 ms ago have left.
    room.ask("b");
    room.free(0);
    assert_eq!(room.granted.last().map(|caller| caller.number), Some(6), "the newest goes first");
    room.ask("b");
    let newest = room.arrived;
    room.pass(SECOND / 200);
    assert!(room.refused.iter().any(|(caller, why)| caller.number == newest && why.reason == Reason::QueueTimeout));
    assert!(!room.waiting.is_empty(), "who came before waits for longer");
}

#[test]
fn the_place_of_one_pushed_out_is_for_the_first_at_the_gate() {
    let mut plan = plan(1, 4);
    plan.queue = Some(4);
    plan.gate = Bound::of(4, None);
    let mut room = Room::new(plan);
    ["x", "a", "a", "b", "b", "b", "a"].into_iter().for_each(|name| room.ask(name));
    // A request of "b" and the last of "a" stand at the gate. Once a request of "a" ran, its place is for "b".
    room.free(0);
    assert_eq!((room.engine.queue.lengths().in_line, room.engine.queue.lengths().at_gate), (4, 1));
    room.ask("a");
    let pushed: Vec<_> = room.refused.iter().map(|(it, why)| (it.label, it.number, why.reason)).collect();
    assert_eq!(pushed, [("b", 6, Reason::PushedOut)]);
    for _ in 0..5 {
        room.free(0);
    }
    let of_a: Vec<_> = room.granted.iter().filter(|it| it.label == "a").map(|it| it.number).collect();
    assert_eq!(of_a, [2, 3, 7, 8]);
}

#[test]
fn a_request_that_does_not_wait_leaves_no_slot_empty_for_waiters() {
    let mut room = Room::new(plan(2, 100));
    ["a", "b"].into_iter().for_each(|name| room.ask(name));
    let ask = Ask { subject: Some(Subject::new("", "c", None)), ..Ask::of(PartitionId::DEFAULT) };
    assert!(room.engine.arrive_without_waiting(room.now, &ask).is_err());
    room.free(1);
    room.ask("a");
    assert_eq!((room.running.len(), room.waiting.len()), (2, 0));
}
