//! What is learned from finished requests, and what a new limit changes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use crate::engine::{
    Engine, Slot, control::Step, journal::Event, limit::Sample, series::LabelOutcome, shares::allocate, slot::OBSERVED,
};
use crate::{outcome::Outcome, time::Timestamp};

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
        let counts = &mut self.capacity.partitions[slot.partition as usize].counts;
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
                self.estimates.answered(slot.class, rtt, slot.is_within_limit());
            }
        }
        let rtt = if outcome == Outcome::Overload { rtt } else { self.controller.normalise(slot.class, rtt) };
        self.learn(now, slot, Some(rtt), outcome);
    }

    /// Takes note of an overload that showed only after the sample was taken, in the trailers: it can lower the limit
    /// and brings no round-trip time.
    pub(crate) fn observe_late_overload(&mut self, now: Timestamp, slot: &Slot) {
        let now = self.advance(now);
        self.capacity.partitions[slot.partition as usize].counts.late_overloads += 1;
        self.learn(now, slot, None, Outcome::Overload);
    }

    fn learn(&mut self, now: Timestamp, slot: &Slot, rtt: Option<Duration>, outcome: Outcome) {
        // What ran beyond the limit, because decisions don't bind, says nothing about the limit.
        if !slot.is_within_limit() {
            return;
        }
        let in_flight = slot.in_flight as usize;
        let sample = Sample { start: slot.start, end: now, rtt, in_flight, running: self.capacity.running, outcome };
        match self.controller.sample(&sample) {
            Step::Same => {}
            Step::Panicked => self.note_change(now, Event::LawPanic),
            Step::Moved { limit, basis } => {
                let from = self.limit_as_noted();
                self.resize(limit);
                self.note_change(now, Event::Limit { from, basis });
                self.settle(now);
            }
        }
    }

    /// Makes `limit` the limit, from the next decision on. Nobody is evicted.
    pub(crate) fn resize(&mut self, limit: usize) {
        self.capacity.limit = limit.max(1);
        allocate(self.capacity.limit, &self.capacity.parts, &mut self.capacity.shares);
        for (it, &share) in self.capacity.partitions.iter_mut().zip(&self.capacity.shares) {
            it.resize(self.capacity.limit, share);
        }
        self.trim_reserved();
    }
}
