//! What is learned from requests that ended, and what a new limit changes.

use std::time::Duration;

use crate::{
    Engine, Outcome, Timestamp,
    control::{Move, Step},
    ids::{AbandonedKind, ClassId, LabelId, LabelMetricsId},
    limit::Sample,
    telemetry::{ChangeEvent, Event, short},
    tokens::{Borrower, Marks, RequestRef, RequestSample, Slot},
};

impl Engine {
    /// Takes the sample of a request, once. Frees nothing: that is [`finish`](Self::finish), which may come much
    /// later, when the last byte of the response is gone.
    #[inline]
    pub fn observe(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) {
        if slot.is_observed() {
            return;
        }
        slot.marks = slot.marks.with(Marks::OBSERVED);
        let now = self.advance(now);
        // Where the slot is not counted or was taken back, another label may have its number now.
        let is_kept = slot.is_counted() && !slot.ttl().is_some_and(|ttl| self.slot_ttl.is_expired(ttl));
        let (label, metrics) = (if is_kept { slot.label } else { LabelId::DEFAULT }, self.label_metrics_of(slot));
        self.learn_one(now, &slot.sample(now, outcome, 0), now.since(slot.start), label, metrics);
        self.controller.goes_on(slot);
    }

    /// Has the limit follow the answers that outlast the deadline of their callers, after the sample of a request that goes on.
    pub fn go_on(&mut self, now: Timestamp) {
        if self.refit() {
            self.dispatch(now);
        }
    }

    /// Notes that a request that was observed does not go on.
    pub(super) fn note_end_of(&mut self, slot: &Slot) {
        if self.controller.note_end_of(slot) {
            self.refit();
        }
    }

    /// Has the limit follow those answers, and lets no waiter start. Returns whether it may have moved.
    pub(super) fn refit(&mut self) -> bool {
        let is_moved = self.controller.refit();
        if is_moved {
            self.capacity.resize(self.controller.limit(self.capacity.limit()));
        }
        is_moved
    }

    /// Notes that the answer to a request begins in time: no later end of it comes too late.
    pub fn answer(&mut self, now: Timestamp, slot: &mut Slot) {
        let now = self.advance(now);
        slot.deadline = Timestamp::MET;
        let work = (slot.class, slot.partition);
        self.estimates.answered(work, slot.start, now.since(slot.start), slot.is_within_limit());
    }

    /// Takes samples of requests on lent slots that were answered in time, in their order. The journal lists the last of them. Where
    /// the requests have ended, it learns for how long they held their slots as well: see [`learn_hold`](Self::learn_hold).
    pub fn learn(&mut self, borrower: Borrower, samples: &mut [Sample], have_ended: bool) {
        let Some(last) = samples.last() else { return };
        let Borrower { partition, label } = borrower;
        let (request, in_flight) = (RequestRef::new(last.start, partition, label), short(last.in_flight));
        self.tell(self.now, Event::Listed { request, in_flight });
        let metrics = self.telemetry.label_metrics_of(label);
        let (class, outcome) = (ClassId::OTHERS, Outcome::Success);
        let (answering, refused) = self.controller.for_sample();
        for sample in &mut *samples {
            let rtt = sample.rtt.unwrap_or_default();
            sample.end = self.advance(sample.end);
            self.tell(sample.end, Event::Ended { partition, label, metrics, outcome, rtt, weight: sample.weight });
            self.estimates.answered((class, partition), sample.start, rtt, true);
            sample.rtt = Some(self.controller.normalise(class, rtt));
            sample.answering = answering;
        }
        samples[0].refused = refused;
        self.obey_law(samples, true, have_ended);
    }

    /// Takes the sample of a request on a lent slot.
    pub fn learn_from(&mut self, sample: &RequestSample) {
        let now = self.advance(sample.end);
        let &RequestSample { partition, label, start, end, in_flight, .. } = sample;
        self.tell(now, Event::Listed { request: RequestRef::new(start, partition, label), in_flight });
        self.learn_one(now, sample, end.since(start), label, self.telemetry.label_metrics_of(label));
    }

    #[inline(always)]
    fn learn_one(
        &mut self,
        now: Timestamp,
        sample: &RequestSample,
        rtt: Duration,
        label: LabelId,
        metrics: LabelMetricsId,
    ) {
        let &RequestSample { partition, class, start, outcome, is_untimely, weight, .. } = sample;
        self.tell(now, Event::Ended { partition, label, metrics, outcome, rtt, weight });
        let (rtt, outcome) = match outcome {
            Outcome::Ignore => return,
            Outcome::Overload => (Some(rtt), outcome),
            // A caller that leaves long before its deadline says nothing about the server. If its time counted, callers that
            // leave early again and again would look like a server that drowns.
            Outcome::Cancelled => {
                (Some(self.controller.normalise(class, rtt)).filter(|_| !is_untimely), Outcome::Cancelled)
            }
            Outcome::Success => {
                // A waiter with as much time as a head takes is in time, however long its body takes.
                if !sample.is_of_body {
                    self.estimates.answered((class, partition), start, rtt, sample.is_within_limit);
                }
                // An answer that comes after its caller gave up took a slot for nothing, as a request that was given up did.
                let outcome = if is_untimely { Outcome::Cancelled } else { Outcome::Success };
                if is_untimely {
                    let borrower = Borrower { partition, label };
                    self.tell(now, Event::AnsweredLate { borrower, count: weight.into() });
                }
                (Some(self.controller.normalise(class, rtt)), outcome)
            }
        };
        self.ask_law(now, sample, rtt, outcome);
    }

    /// Takes the outcome of a request that was given up and whose work may go on. Returns the kind of the work, for
    /// [`abandoned_end`](Self::abandoned_end).
    pub fn abandon(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) -> AbandonedKind {
        self.observe(now, slot, outcome);
        if slot.is_counted() && !slot.marks.has(Marks::ABANDONED) {
            self.note_end_of(slot);
            slot.marks = slot.marks.with(Marks::ABANDONED);
            self.capacity.note_abandoned(slot.partition, 1);
        }
        let (class, partition, age) = (slot.class, slot.partition, now.since(slot.start));
        let is_known = self.estimates.given_up(class, partition, age);
        AbandonedKind { class, partition, is_known }
    }

    /// Takes note of an overload, which can lower the limit and brings no round-trip time: one that a request on a lent slot met
    /// which was not timed, or one that came so `late` that the sample was taken before, in the trailers.
    #[cold]
    pub fn observe_overload(&mut self, now: Timestamp, slot: &Slot, late: bool) {
        let now = self.advance(now);
        let borrower = Borrower { partition: slot.partition, label: slot.label };
        let untimed = Event::EndedUntimed { borrower, outcome: Outcome::Overload, count: 1 };
        self.tell(now, if late { Event::EndedLate(slot.partition) } else { untimed });
        self.ask_law(now, &slot.sample(now, Outcome::Overload, 0), None, Outcome::Overload);
    }

    /// Returns the metrics that count a request with a slot. Its label is not forgotten before the slot is given back;
    /// it may be where the slot was taken back before its holder is done.
    #[inline]
    fn label_metrics_of(&self, slot: &Slot) -> LabelMetricsId {
        if !self.telemetry.wants(self.now).label_metrics {
            return LabelMetricsId::NONE;
        }
        match slot.ttl() {
            Some(ttl) => self.slot_ttl.label_metrics(ttl),
            None => slot.uncounted_label_metrics().unwrap_or_else(|| self.telemetry.label_metrics_of(slot.label)),
        }
    }

    /// Asks the law what follows from a sample.
    #[inline(always)]
    fn ask_law(&mut self, now: Timestamp, sample: &RequestSample, rtt: Option<Duration>, outcome: Outcome) {
        let &RequestSample { start, in_flight, running, weight, .. } = sample;
        // A request that ran beyond the limit, because decisions don't bind, says nothing about the limit.
        if !sample.is_within_limit {
            return;
        }
        let running = if running == 0 { self.capacity.running() } else { running as usize };
        let (in_flight, was_answered) = (in_flight as usize, sample.outcome == Outcome::Success);
        let (answering, refused) = self.controller.for_sample();
        let sample = Sample { start, end: now, rtt, in_flight, running, answering, outcome, refused, weight };
        self.obey_law(&[sample], was_answered, false);
    }

    /// Asks the law what follows from samples of requests that were all answered, or of which none was; and learns for how long they
    /// held lent slots, where all `have_ended`.
    fn obey_law(&mut self, mut samples: &[Sample], were_answered: bool, have_ended: bool) {
        while let Some((count, step)) = self.controller.learn(samples, self.capacity.limit()) {
            let (learned, others) = samples.split_at(count);
            samples = others;
            let Some((last, earlier)) = learned.split_last() else { return };
            // The limit was still what it is while they were learned.
            earlier.iter().for_each(|sample| self.go_on_after(sample, were_answered, have_ended));
            if matches!(step, Step::Stays | Step::Moved(_)) {
                // Where there is no line, a request would be refused for it.
                let has_line = self.room().places > 0;
                self.capacity.pace(if has_line { self.controller.pacing() } else { Duration::ZERO });
            }
            match step {
                Step::Same | Step::Stays => {}
                Step::Panicked => self.note_change(last.end, ChangeEvent::LawPanic),
                Step::Moved(Move { to, basis, .. }) => {
                    let from = short(self.capacity.limit());
                    self.capacity.resize(to);
                    self.note_change(last.end, ChangeEvent::Limit { from, basis });
                    self.dispatch(last.end);
                }
            }
            self.go_on_after(last, were_answered, have_ended);
        }
    }

    /// Begins or ends a pause, and learns how long a slot was held, after the law took a sample.
    #[inline]
    fn go_on_after(&mut self, sample: &Sample, was_answered: bool, has_ended: bool) {
        if let Some((until, limit)) = self.controller.pause(sample, was_answered, self.capacity.limit()) {
            self.capacity.pause(until);
            self.capacity.resize(limit);
            if until == Timestamp::NEVER {
                self.dispatch(sample.end);
            }
        }
        if has_ended && sample.running >= self.capacity.limit() {
            self.estimates.held(sample.end.since(sample.start));
        }
    }
}
