//! What is learned from requests that ended, and what a new limit changes.

use std::time::Duration;

use crate::{
    engine::{
        Engine,
        control::Step,
        ids::{AbandonedKind, LabelId, LabelMetricsId},
        limit::Sample,
        telemetry::{ChangeEvent, short},
        tokens::{Marks, Slot},
    },
    outcome::Outcome,
    time::Timestamp,
};

impl Engine {
    /// Takes the sample of a request, once. Frees nothing: that is [`finish`](Self::finish), which may come much
    /// later, when the last byte of the response is gone.
    pub(crate) fn observe(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) {
        if slot.is_observed() {
            return;
        }
        slot.marks = slot.marks.with(Marks::OBSERVED);
        let now = self.advance(now);
        let (metrics, running) = (self.label_metrics_of(slot), self.capacity.running());
        self.learn_ended(now, slot, metrics, outcome, now.since(slot.start), running);
    }

    /// Learns from a request that ended, while so many requests ran, itself included.
    #[inline]
    pub(super) fn learn_ended(
        &mut self,
        now: Timestamp,
        slot: &Slot,
        metrics: LabelMetricsId,
        outcome: Outcome,
        rtt: Duration,
        running: usize,
    ) {
        self.telemetry.ended(slot.partition, self.label_that_ends(slot), metrics, outcome, rtt);
        let rtt = match outcome {
            Outcome::Ignore => return,
            Outcome::Overload => rtt,
            Outcome::Cancelled => self.controller.normalise(slot.class, rtt),
            Outcome::Success => {
                self.estimates.answered(slot.class, rtt, slot.is_within_limit());
                self.estimates.abandoned_mut().answered((slot.class, slot.partition), slot.start, rtt);
                self.controller.normalise(slot.class, rtt)
            }
        };
        // A caller that leaves long before its deadline says nothing about the server. If its time counted, callers that leave early
        // again and again would look like a server that drowns.
        let is_early = outcome == Outcome::Cancelled && now.is_in_first_half(slot.start, slot.deadline);
        let rtt = Some(rtt).filter(|_| !is_early);
        // An answer that comes after its caller gave up took a slot for nothing, as a request that was given up did.
        let is_late = outcome == Outcome::Success && now > slot.deadline;
        self.learn(now, slot, rtt, if is_late { Outcome::Cancelled } else { outcome }, running);
    }

    /// Takes the outcome of a request that was given up and whose work may go on. Returns the kind of the work, for
    /// [`abandoned_end`](Self::abandoned_end).
    pub(crate) fn abandon(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) -> AbandonedKind {
        self.observe(now, slot, outcome);
        if slot.is_counted() && !slot.marks.has(Marks::ABANDONED) {
            slot.marks = slot.marks.with(Marks::ABANDONED);
            self.capacity.note_abandoned(slot.partition, 1);
        }
        let (class, partition, age) = (slot.class, slot.partition, now.since(slot.start));
        let is_known = self.estimates.abandoned_mut().given_up((class, partition), age);
        AbandonedKind { class, partition, is_known }
    }

    /// Takes note of an overload that showed only after the sample was taken, in the trailers: it can lower the limit
    /// and brings no round-trip time.
    pub(crate) fn observe_late_overload(&mut self, now: Timestamp, slot: &Slot) {
        let now = self.advance(now);
        self.telemetry.ended_late(slot.partition);
        self.learn(now, slot, None, Outcome::Overload, self.capacity.running());
    }

    /// Returns the metrics that count a request with a slot. Its label is not forgotten before the slot is given back;
    /// it may be where the slot was taken back before its holder is done.
    #[inline]
    fn label_metrics_of(&self, slot: &Slot) -> LabelMetricsId {
        if !self.telemetry.has_label_metrics() {
            return LabelMetricsId::NONE;
        }
        match slot.ttl() {
            Some(ttl) => self.slot_ttl.label_metrics(ttl),
            None => slot.uncounted_label_metrics().unwrap_or_else(|| self.telemetry.label_metrics_of(slot.label)),
        }
    }

    /// Returns the label of a request with a slot; none where the slot is not counted or was taken back, because another label may
    /// have its number now.
    #[inline]
    fn label_that_ends(&self, slot: &Slot) -> LabelId {
        let is_kept = slot.is_counted() && !slot.ttl().is_some_and(|ttl| self.slot_ttl.is_expired(ttl));
        if is_kept { slot.label } else { LabelId::DEFAULT }
    }

    pub(super) fn learn(
        &mut self,
        now: Timestamp,
        slot: &Slot,
        rtt: Option<Duration>,
        outcome: Outcome,
        running: usize,
    ) {
        // A request that ran beyond the limit, because decisions don't bind, says nothing about the limit.
        if !slot.is_within_limit() {
            return;
        }
        let (in_flight, refused) = (slot.in_flight as usize, self.controller.take_refused());
        let sample = Sample { start: slot.start, end: now, rtt, in_flight, running, outcome, refused };
        match self.controller.sample(&sample, self.capacity.limit()) {
            Step::Same => {}
            Step::Panicked => self.note_change(now, ChangeEvent::LawPanic),
            Step::Moved { limit, basis } => {
                let from = short(self.capacity.limit());
                self.capacity.resize(limit);
                self.note_change(now, ChangeEvent::Limit { from, basis });
                self.dispatch(now);
            }
        }
    }
}
