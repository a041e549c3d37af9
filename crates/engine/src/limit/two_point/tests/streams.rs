//! Answers that go on after their head, in virtual time.
//!
//! Four workers do pieces of 20 ms. A call is one piece. A stream has its head after the first one, and goes on: idle, or with more
//! pieces. Where idle streams hold all slots of a limit the server is idle, and no call is answered.

use super::*;
use crate::limit::path_tests::Random;

/// Milliseconds.
const PATIENCE: u64 = 250;
const LINE: u64 = 25;
const PIECE: u64 = 20;
const LENGTH: u64 = 40_000;
const WORKERS: usize = 4;

/// How many of a hundred calls are streams, with how many further pieces so far apart, and for how long these stay after the last.
#[derive(Clone, Copy, Debug)]
struct Streams {
    percent: u64,
    pieces: u64,
    apart: u64,
    idle: u64,
}

/// A request that runs.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    arrived: u64,
    start: u64,
    in_flight: usize,
    left: u64,
    /// When its last piece ended.
    done: u64,
    stream: Option<Streams>,
    has_head: bool,
    is_worked_at: bool,
    is_sampled: bool,
}

/// Returns how many percent of the capacity of the server are answered in time, at such a load in percent. `tells` says whether answers
/// that outlast their callers have slots of their own.
fn in_time(streams: Streams, load: u64, tells: bool) -> u64 {
    let (mut law, mut random) = (TwoPoint::new(), Random(load));
    let at = |now: u64| Timestamp::ZERO.after(Duration::from_millis(now));
    law.note_patience(Some(Duration::from_millis(PATIENCE)));
    // Calls in a million of milliseconds.
    let capacity = 100_000_000 * WORKERS as u64 / PIECE / (100 + streams.percent * streams.pieces);
    let (mut line, mut running, mut answered, mut number) = (Vec::new(), Vec::<Call>::new(), 0, 0);
    let mut workers = [None::<(u64, u64)>; WORKERS];
    for now in 0..LENGTH {
        let rate = capacity * load / 100;
        let come = rate / 1_000_000 + u64::from(random.below(1_000_000) < rate % 1_000_000);
        line.extend((0..come).map(|_| (now, (random.below(100) < streams.percent).then_some(streams))));
        line.retain(|&(arrived, _)| now < arrived + LINE);
        for ended in workers.iter_mut().filter_map(|worker| worker.take_if(|worker| worker.1 <= now)) {
            let Some(call) = running.iter_mut().find(|call| call.number == ended.0) else { continue };
            answered += u64::from(!call.has_head && call.arrived >= LENGTH / 4);
            (call.has_head, call.is_worked_at, call.done, call.left) = (true, false, now, call.left - 1);
        }
        for call in running.clone() {
            let is_late = now >= call.arrived + PATIENCE;
            let stays = call.stream.map_or(0, |stream| stream.idle);
            let ends = if call.has_head { call.left == 0 && now >= call.done + stays } else { is_late };
            if !call.is_sampled && (ends || is_late) {
                let answering = running.iter().filter(|call| call.is_sampled).count();
                let outcome = if call.has_head { Outcome::Success } else { Outcome::Cancelled };
                let sample = Sample::new(at(call.start), at(now).since(at(call.start)), call.in_flight, outcome);
                // As the controller does: samples leave such streams out, and these have slots on top of the limit.
                let beside = if tells { answering + usize::from(!ends) } else { 0 };
                let [in_flight, all] = [call.in_flight, running.len()].map(|all| all.saturating_sub(beside).max(1));
                let answering = answering.saturating_sub(beside);
                law.on_sample(&Sample { in_flight, running: all, answering, ..sample });
            }
            running.iter_mut().filter(|it| it.number == call.number).for_each(|it| it.is_sampled |= ends || is_late);
            running.retain(|it| !ends || it.number != call.number);
        }
        let beside = running.iter().filter(|call| tells && call.is_sampled).count();
        for (arrived, stream) in line.drain(..(law.limit() + beside).saturating_sub(running.len()).min(line.len())) {
            let (in_flight, left) = (running.len() + 1, 1 + stream.map_or(0, |stream| stream.pieces));
            let call = Call {
                number,
                arrived,
                start: now,
                in_flight,
                left,
                done: now,
                stream,
                has_head: false,
                is_worked_at: false,
                is_sampled: false,
            };
            running.push(call);
            number += 1;
        }
        for worker in workers.iter_mut().filter(|worker| worker.is_none()) {
            let ready = |call: &Call| if call.has_head { call.done + streams.apart } else { call.start };
            let waits = running.iter_mut().filter(|call| !call.is_worked_at && call.left > 0 && ready(call) <= now);
            let Some(call) = waits.min_by_key(|call| ready(call)) else { break };
            call.is_worked_at = true;
            *worker = Some((call.number, now + PIECE));
        }
    }
    answered * 100_000_000 / capacity / (LENGTH * 3 / 4)
}

const IDLE: Streams = Streams { percent: 10, pieces: 0, apart: 0, idle: 10_000 };

#[test]
fn streams_that_cost_nothing_take_no_slots_from_calls() {
    for (streams, load, least) in [
        (IDLE, 50, 45),
        (IDLE, 300, 85),
        (Streams { percent: 2, idle: 30_000, ..IDLE }, 100, 85),
        (Streams { percent: 50, idle: 5_000, ..IDLE }, 100, 85),
    ] {
        let answered = [true, false].map(|tells| in_time(streams, load, tells));
        println!("{streams:?} at {load}: {answered:?}");
        assert!(answered[0] >= least && answered[1] < least * 2 / 3, "{streams:?} at {load}: {answered:?}");
    }
}

#[test]
fn streams_that_cost_work_are_held_back_as_calls_are() {
    let busy = Streams { percent: 20, pieces: 20, apart: 0, idle: 0 };
    for streams in [busy, Streams { apart: 100, ..busy }, Streams { percent: 100, apart: 100, ..busy }] {
        let answered = in_time(streams, 300, true);
        println!("{streams:?}: {answered}");
        assert!(answered >= 65, "{streams:?}: {answered}");
    }
}
