//! What is learned from finished requests, and what a new limit changes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use super::{
    Engine, Slot,
    journal::Event,
    limit::{Basis, Law, Sample},
    plan::Mode,
    series::LabelOutcome,
    shares::allocate,
    slot::OBSERVED,
};
use crate::{outcome::Outcome, time::Timestamp};

/// Gives a law one sample; answers its limit, and what moved it away from the one that is known, unless it panicked.
///
/// The law is foreign code under our lock. Should it panic, the limit stays what it was, and the request that happened to
/// bring the sample is not the one to suffer.
pub(super) fn step(law: &mut dyn Law, sample: &Sample, known: usize) -> Option<(usize, Basis)> {
    let step = AssertUnwindSafe(|| {
        law.on_sample(sample);
        let limit = law.limit();
        (limit, if limit == known { Basis::default() } else { law.basis() })
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
            self.kept -= it.kept_slots();
            it.resize(self.limit, share);
            self.kept += it.kept_slots();
        }
    }

    /// Asserts, in debug builds, what holds after every verb. See the module `engine`.
    pub(super) fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let sum = |count: fn(&super::Partition) -> usize| self.partitions.iter().map(count).sum::<usize>();
        assert_eq!(self.running, sum(|it| it.running), "running requests are conserved");
        let all = || (0..=u16::MAX).take(self.partitions.len());
        assert_eq!(
            self.in_line,
            all().map(|it| self.waiting.in_line(it)).sum::<usize>(),
            "waiters in line are conserved"
        );
        assert_eq!(
            self.at_gate,
            all().map(|it| self.waiting.at_gate(it)).sum::<usize>(),
            "waiters at the gate are conserved"
        );
        assert_eq!(self.outside, sum(|it| it.outside), "requests outside of the limit are conserved");
        assert!(self.waiting.len() >= self.in_line + self.at_gate, "every waiter has an entry");
        assert_eq!(self.running, self.levels.running.iter().sum::<usize>(), "running requests have a level");
        assert_eq!(self.kept, sum(super::Partition::kept_slots), "what is kept is conserved");
        assert!(self.limit >= 1, "the limit is never below 1");
        for partition in all() {
            let stuck = self.partition_is_served(partition) && self.waiting.next(partition).is_some();
            assert!(!stuck || self.mode != Mode::Enforce, "a free slot and a waiter that may take it coexist");
            let enters = self.waiting.first_at_gate(partition).is_some() && self.line_has_room(partition);
            assert!(!enters, "room in the line and a waiter at the gate coexist");
        }
        assert!(self.mode == Mode::Enforce || self.in_line + self.at_gate == 0, "nobody waits for what doesn't bind");
    }
}
