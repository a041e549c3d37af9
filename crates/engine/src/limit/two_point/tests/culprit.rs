//! A request that takes what all others need, in virtual time: as `benches/theirs/culprit`, many times.
//!
//! A backend does one thing at a time. Every twelve seconds a culprit stops it for five, and the limit goes down to one slot, which is
//! right. One request in a thousand is an export: it takes a second, needs nothing but its slot, and comes back where it is
//! refused. Where exports hold all slots of a low limit, nothing is answered although the backend is idle.

use super::*;
use crate::limit::path_tests::Random;

/// Quarters of a millisecond.
const SECOND: u64 = 4_000;
const PATIENCE: u64 = SECOND / 4;
/// A request that waited for so long is refused; an export comes back after that.
const LINE: u64 = SECOND / 40;
const BACKOFF: u64 = SECOND / 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Usual,
    Export,
    Culprit,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    kind: Kind,
    arrived: u64,
    start: u64,
    in_flight: usize,
}

fn at(tick: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_micros(250 * tick))
}

/// Returns how many of ten thousand usual requests were answered in time.
fn answered(mut law: TwoPoint, seed: u64) -> u64 {
    law.note_patience(Some(at(PATIENCE).since(Timestamp::ZERO)));
    let mut random = Random(seed);
    let (mut line, mut running) = (Vec::<(Kind, u64)>::new(), Vec::<Request>::new());
    let (mut offered, mut answered, mut held_until) = (0, 0, 0);
    // What the backend does, by when it arrived, and until when.
    let mut work: Option<(u64, u64)> = None;
    for now in 0..40 * SECOND {
        let chance = random.below(5_000);
        offered += u64::from(chance < 1_000);
        line.extend((chance < 1_001).then_some((if chance < 1_000 { Kind::Usual } else { Kind::Export }, now)));
        line.extend((now % (12 * SECOND) == 8 * SECOND).then_some((Kind::Culprit, now)));
        line.retain(|&(kind, arrived)| kind != Kind::Usual || now < arrived + LINE);
        for (_, arrived) in line.iter_mut().filter(|it| it.0 == Kind::Export && now >= it.1 + LINE) {
            *arrived = now + BACKOFF;
        }
        let done = work.take_if(|work| now >= work.1.max(held_until)).map(|work| work.0);
        while let Some(place) = running.iter().position(|it| match it.kind {
            Kind::Usual => Some(it.arrived) == done || now >= it.arrived + PATIENCE,
            Kind::Export => now >= it.start + SECOND,
            Kind::Culprit => now >= it.start + 5 * SECOND,
        }) {
            let all = running.len();
            let it = running.remove(place);
            let in_time = it.kind == Kind::Usual && now < it.arrived + PATIENCE;
            answered += u64::from(in_time);
            let outcome = if in_time { Outcome::Success } else { Outcome::Cancelled };
            let sample = Sample::new(at(it.start), at(now).since(at(it.start)), it.in_flight, outcome);
            law.on_sample(&Sample { running: all, ..sample });
            work = work.filter(|work| it.kind != Kind::Usual || work.0 != it.arrived);
        }
        while running.len() < law.limit() {
            let first = line.iter().enumerate().filter(|(_, it)| it.1 <= now).min_by_key(|(_, it)| it.1);
            let Some((place, _)) = first else { break };
            let (kind, arrived) = line.remove(place);
            held_until = if kind == Kind::Culprit { now + 5 * SECOND } else { held_until };
            running.push(Request { kind, arrived, start: now, in_flight: running.len() + 1 });
        }
        let next = || running.iter().filter(|it| it.kind == Kind::Usual).map(|it| it.arrived).min();
        work =
            work.or_else(|| next().filter(|_| now >= held_until).map(|arrived| (arrived, now + 3 + random.below(3))));
    }
    answered * 10_000 / offered
}

/// The mean of as many runs as tell it from chance, or as `CULPRITS` says: single ones differ by ten points in a hundred.
fn mean(law: &TwoPoint) -> u64 {
    let runs = std::env::var("CULPRITS").map_or(200, |runs| runs.parse().unwrap());
    (0..runs).map(|seed| answered(law.clone(), seed)).sum::<u64>() / runs
}

#[test]
fn long_requests_do_not_hold_all_slots_for_long_where_quick_answers_open_more() {
    let [now, without] = [TwoPoint::new(), TwoPoint::new().without("reopen").unwrap()].map(|law| mean(&law));
    println!("of 10,000: {now}, and {without} without the rule");
    assert!(now > without + 1_000, "{now}, control {without}");
}
