//! What is learned from finished requests, and what a new limit changes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{
    Engine, Slot,
    journal::Event,
    limit::{LimitAlgorithm, LimitInputs, Sample},
    series::LabelOutcome,
    shares::allocate,
    slot::OBSERVED,
};
use crate::{outcome::Outcome, time::Timestamp};

/// Gives a law one sample; answers its limit, and what moved it away from the one that is known, unless it panicked.
///
/// The law is foreign code under our lock. Should it panic, the limit stays what it was, and the request that happened to
/// bring the sample is not the one to suffer.
pub(super) fn step(law: &mut dyn LimitAlgorithm, sample: &Sample, known: usize) -> Option<(usize, LimitInputs)> {
    let step = AssertUnwindSafe(|| {
        law.on_sample(sample);
        let limit = law.limit();
        (limit, if limit == known { LimitInputs::default() } else { law.inputs() })
    });
    catch_unwind(step).ok()
}

impl Engine {
    /// Takes the sample of a request, once. Frees nothing: that is [`finish`](Self::finish), which may come much
    /// later, when the last byte of the response is gone.
    pub(crate) fn observe(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) {
        if slot.is_observed() {
            return;
        }
        slot.marks |= OBSERVED;
        let now = self.advance(now);
        let rtt = now.since(slot.start);
        self.tally_slot(slot, |series| {
            series.ended(LabelOutcome::of_ended(outcome));
            if outcome == Outcome::Success {
                series.times.rtt.record(rtt);
            }
        });
        let counts = &mut self.partitions[slot.partition as usize].counts;
        match outcome {
            Outcome::Cancelled => counts.cancelled += 1,
            Outcome::Ignore => {
                counts.ignored += 1;
                return;
            }
            Outcome::Overload => counts.overloads += 1,
            Outcome::Success => {
                counts.successes += 1;
                counts.rtt.record(rtt);
                if slot.is_within_limit() {
                    self.drain.answered(rtt);
                }
                self.work.answered(slot.class, rtt);
            }
        }
        let rtt = if outcome == Outcome::Overload { rtt } else { self.classes.normalise(slot.class, rtt) };
        self.learn(now, slot, Some(rtt), outcome);
    }

    /// Takes note of an overload that showed only after the sample was taken, in the trailers: it can lower the limit
    /// and brings no round-trip time.
    pub(crate) fn observe_late_overload(&mut self, now: Timestamp, slot: &Slot) {
        let now = self.advance(now);
        self.partitions[slot.partition as usize].counts.late_overloads += 1;
        self.learn(now, slot, None, Outcome::Overload);
    }

    fn learn(&mut self, now: Timestamp, slot: &Slot, rtt: Option<Duration>, outcome: Outcome) {
        // What ran beyond the limit, because decisions don't bind, says nothing about the limit.
        if !slot.is_within_limit() {
            return;
        }
        let in_flight = slot.in_flight as usize;
        let sample = Sample { start: slot.start, end: now, rtt, in_flight, running: self.running, outcome };
        self.shadow.learn(&sample);
        let Some((limit, basis)) = step(&mut *self.law, &sample, self.limit) else {
            self.law_panics += 1;
            self.note_change(now, Event::LawPanic);
            return;
        };
        if limit != self.limit {
            let from = self.limit_as_noted();
            self.resize(limit);
            self.note_change(now, Event::Limit { from, basis });
            self.settle(now);
        }
    }

    /// Makes `limit` the limit, from the next decision on. Nobody is evicted.
    pub(super) fn resize(&mut self, limit: usize) {
        self.limit = limit.max(1);
        allocate(self.limit, &self.parts, &mut self.shares);
        for (it, &share) in self.partitions.iter_mut().zip(&self.shares) {
            it.resize(self.limit, share);
        }
        self.trim_reserved();
    }
}
