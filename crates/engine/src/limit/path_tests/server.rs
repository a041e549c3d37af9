//! A server with clients, in whole numbers: no clock, no random numbers but its own.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::worlds::{Shape, Spread, World};
use crate::{
    Outcome, Timestamp,
    limit::{LimitAlgorithm, Phase, Sample},
};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;

/// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
pub(in crate::limit) struct Random(pub(in crate::limit) u64);

impl Random {
    pub(in crate::limit) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// A request that runs, or one that has ended: when, and how.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Running {
    end: u64,
    start: u64,
    in_flight: usize,
    /// 0: answered, 1: the service refused it, 2: its client left late, 3: its client left early.
    how: u8,
}

/// How long a request takes that runs as the `n`th.
fn service(world: &World, now: u64, n: u64, random: &mut Random) -> u64 {
    let now = now / MILLI;
    let alone = (world.service)(now) * 1_000;
    let crowded = match world.shape {
        Shape::Pool(workers) => alone * n.max(workers) / workers,
        Shape::Knee(knee) => alone * (knee * knee + n * n) / (knee * knee),
    };
    let spread = match world.spread {
        Spread::None => crowded,
        Spread::Some => crowded * (700 + random.below(601)) / 1_000,
        Spread::Tail => crowded * if random.below(20) == 0 { 12 } else { 1 } * (900 + random.below(201)) / 1_000,
    };
    spread + (world.delay)(now) * 1_000
}

fn draw(world: &World, now: u64, in_flight: usize, random: &mut Random) -> Running {
    let time = service(world, now, in_flight as u64, random);
    let how = if random.below(100) < (world.refuses)(now / MILLI) {
        1
    } else if random.below(100) < world.leaves {
        3
    } else if time > world.deadline_in * 1_000 {
        2
    } else {
        0
    };
    let time = match how {
        1 => time.min(MILLI),
        2 => world.deadline_in * 1_000,
        3 => time / 4,
        _ => time,
    };
    // A request that hangs ends after the world does.
    let end = if random.below(1_000) < world.hangs { u64::MAX } else { now + time };
    Running { end, start: now, in_flight, how }
}

fn sample(it: Running, running: usize, refused: bool) -> Sample {
    let rtt = Duration::from_nanos(it.end - it.start);
    let outcome = match it.how {
        0 => Outcome::Success,
        1 => Outcome::Overload,
        _ => Outcome::Cancelled,
    };
    let sample = Sample::new(Timestamp::from_nanos(it.start), rtt, it.in_flight, outcome);
    // An overload in the trailers and a client that left early bring no time.
    let is_untimed = it.how == 3 || it.how == 1 && it.start.is_multiple_of(2);
    Sample { rtt: (!is_untimed).then_some(rtt), running, refused, ..sample }
}

/// What is written of the time since the last line.
struct Lately {
    least: usize,
    most: usize,
    finished: u32,
    probes: u32,
}

/// What the columns of a line are.
pub(super) const COLUMNS: &str =
    "time limit least-most finished in-probes phase: round-trip time and reference in ms, result of the comparison";

fn line(now: u64, law: &impl LimitAlgorithm, lately: &Lately) -> String {
    let milli = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{:.2}", it * 1e3));
    let (inputs, state, Lately { least, most, finished, probes }) = (law.inputs(), law.state(), lately);
    let (time, limit, phase) = (now as f64 / SECOND as f64, law.limit(), state.present_phase());
    let (rtt, reference) = (milli(inputs.rtt_seconds()), milli(inputs.reference_seconds()));
    let ratio = inputs.ratio_if_known().map(|it| format!(" {it:.3}")).unwrap_or_default();
    format!("{time:4.1} {limit:3} {least:3}-{most:<3} {finished:4} {probes:3} {phase:?}: {rtt} {reference}{ratio}\n")
}

/// The path of the limit through a world: a line for each step of it, or for so many steps.
pub(super) fn path<L: LimitAlgorithm>(mut law: L, world: &World, slower: u64) -> String {
    let state = law.state();
    let mut text = format!("{:?} within {:?} against {:?}\n", state.law(), state.bounds(), state.reference());
    let (mut random, step) = (Random(1), world.step * slower * MILLI);
    let mut running: BinaryHeap<Reverse<Running>> = BinaryHeap::new();
    let (mut arrival, mut refused, mut next) = (0, false, step);
    let nothing = |limit| Lately { least: limit, most: limit, finished: 0, probes: 0 };
    let mut lately = nothing(law.limit());
    loop {
        let end = running.peek().map_or(u64::MAX, |it| it.0.end);
        let now = arrival.min(end);
        while next <= now {
            text += &line(next, &law, &lately);
            if next >= world.seconds * SECOND {
                return text;
            }
            lately = nothing(law.limit());
            next += step;
        }
        if end <= arrival {
            let ended = running.pop().unwrap().0;
            law.on_sample(&sample(ended, running.len() + 1, std::mem::take(&mut refused)));
            let limit = law.limit();
            (lately.least, lately.most) = (lately.least.min(limit), lately.most.max(limit));
            lately.finished += 1;
            lately.probes += u32::from(law.state().present_phase() == Phase::Probing);
            continue;
        }
        let rate = (world.load)(now / MILLI);
        if rate == 0 {
            // No request comes: look again a little later.
            arrival += 5 * MILLI;
            continue;
        }
        let between = SECOND / rate;
        arrival += between / 2 + random.below(between);
        let limit = law.limit();
        let room = (limit * world.share / 100).max(1);
        if running.len() < room.min(limit) {
            running.push(Reverse(draw(world, now, running.len() + 1, &mut random)));
        } else {
            // Shares of the limit are in the way while slots are free.
            refused |= running.len() < limit;
        }
    }
}
