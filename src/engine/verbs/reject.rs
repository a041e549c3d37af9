//! Which requests are rejected, why, and when it is worth coming back.

use crate::{
    engine::{
        Engine,
        ids::{Key, LabelId},
        plan::rules::WhenFull,
        telemetry::{Blocker, Event},
        tokens::{Ask, ExhaustedRule, InForce, Refusal, RequestRef, Stage},
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Rejects a request that can't run at once and does not wait.
    #[cold]
    pub(super) fn reject_at_once(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        if self.lifecycle.is_draining() {
            return self.reject_draining(now, ask, label);
        }
        let request = self.request_of(now, ask, label);
        if ask.deadline <= now {
            self.record_rejected(now, request, Reason::Deadline, false);
            return self.refusal_too_late(now, ask, label);
        }
        if let Some(full) = self.blocking_rule(now, label) {
            self.record_rejected(now, request, full.reason, false);
            return self.refusal_by_rule(now, ask.partition, label, full);
        }
        let reason = self.reason_for_not_waiting(ask.partition, label);
        // A request that ran into a bound of its own needs nothing held back.
        if reason != Reason::LabelCap {
            self.reserve_slot(now, ask, label);
        }
        self.record_rejected(now, request, reason, false);
        self.refusal(now, ask.partition, label, reason)
    }

    /// Rejects a request that comes while the handle drains.
    #[cold]
    pub(super) fn reject_draining(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        let request = self.request_of(now, ask, label);
        self.record_rejected(now, request, Reason::Draining, false);
        self.refusal(now, ask.partition, label, Reason::Draining)
    }

    /// Ends a wait that can't lead to a slot.
    pub(super) fn reject_waiter(&mut self, now: Timestamp, key: Key, reason: Reason) {
        let waiter = *self.queue.get(key);
        let over = reason == Reason::Deadline && waiter.caller_deadline <= now;
        self.record_rejected(now, waiter.request(), reason, false);
        self.leave(key);
        let refusal = self.refusal(now, waiter.partition, waiter.label, reason);
        self.answer(key, Refusal { over, ..refusal });
    }

    /// Ends the wait of a waiter whose turn it is and that a rule rejects.
    pub(super) fn reject_waiter_by_rule(&mut self, now: Timestamp, key: Key, full: ExhaustedRule) {
        let waiter = *self.queue.get(key);
        self.record_rejected(now, waiter.request(), full.reason, false);
        self.leave(key);
        let refusal = self.refusal_by_rule(now, waiter.partition, waiter.label, full);
        self.answer(key, refusal);
    }

    /// Ends a wait whose time is over. The rejection names the rule that was in the way, where that was not the limit.
    pub(super) fn expire(&mut self, now: Timestamp, key: Key) {
        let waiter = *self.queue.get(key);
        if waiter.caller_deadline <= now {
            return self.reject_waiter(now, key, Reason::Deadline);
        }
        let (partition, label) = (waiter.partition, waiter.label);
        let timeout = if waiter.stage == Stage::Gate { Reason::GateTimeout } else { Reason::QueueTimeout };
        let full = self.exhausted_rule(now, label).filter(|full| full.when_full == WhenFull::Queue);
        let full = full.filter(|_| !self.quotas.is_full(label));
        let reason = full.map_or_else(
            || match self.reason_for_rejecting(partition, label) {
                reason @ (Reason::LabelCap | Reason::PartitionCap) => reason,
                _ => timeout,
            },
            |full| full.reason,
        );
        self.record_rejected(now, waiter.request(), reason, true);
        self.leave(key);
        let refusal = self.refusal(now, partition, label, reason);
        let refusal = full.map_or(refusal, |full| self.as_rule_says(now, refusal, full));
        self.answer(key, Refusal { timed_out: true, ..refusal });
    }

    fn answer(&mut self, key: Key, refusal: Refusal) {
        self.queue.reject(key, refusal);
        self.notices.push_back(key);
    }

    /// Records that a request was rejected, and what was in its way.
    pub(super) fn record_rejected(&mut self, now: Timestamp, request: RequestRef, reason: Reason, timed_out: bool) {
        let blocker = self.if_noted(|engine| engine.blocker(now, request.partition, request.label, reason));
        self.record_rejected_by(now, request, reason, blocker, timed_out);
    }

    pub(super) fn record_rejected_by(
        &mut self,
        now: Timestamp,
        request: RequestRef,
        reason: Reason,
        blocker: Blocker,
        timed_out: bool,
    ) {
        self.record(now, request, Event::Rejected { reason, blocker, timed_out });
        self.controller.rejected(reason);
    }

    /// Returns the reason to reject a request that doesn't wait.
    pub(super) fn reason_for_not_waiting(&self, partition: u16, label: LabelId) -> Reason {
        match self.reason_for_rejecting(partition, label) {
            reason @ (Reason::PartitionCap | Reason::LabelCap) => reason,
            _ => Reason::Limit,
        }
    }

    /// Returns the reason to reject a request that finds neither a slot nor a place.
    pub(super) fn reason_for_rejecting(&self, partition: u16, label: LabelId) -> Reason {
        if self.quotas.is_full(label) {
            Reason::LabelCap
        } else if self.capacity.partition(partition).is_at_hard_cap() {
            Reason::PartitionCap
        } else if self.queue.behind_gate().is_some() {
            Reason::GateFull
        } else if self.queue.places(self.capacity.limit()) == 0 {
            Reason::Limit
        } else {
            Reason::QueueFull
        }
    }

    /// Returns the answer to a request that is rejected, with the time after which it is worth coming back.
    pub(super) fn refusal(&self, now: Timestamp, partition: u16, label: LabelId, reason: Reason) -> Refusal {
        let (limit, running) = (self.capacity.limit(), self.capacity.running());
        let it = self.capacity.partition(partition);
        let (ahead, slots, stall) = match reason {
            Reason::LabelCap | Reason::LabelQueueFull => {
                let label = self.quotas.label(label);
                let ahead = (label.running() + label.waiting() + 1).saturating_sub(label.cap());
                (ahead.max(1), label.cap(), label.stall())
            }
            _ if it.running() >= it.cap() => {
                let waiting = self.queue.in_line_of(partition) + self.queue.at_gate_of(partition);
                (it.running() + waiting + 1 - it.cap(), it.cap(), it.stall())
            }
            _ => {
                let inside = running + self.queue.len();
                (inside.saturating_sub(limit) + 1, limit, self.estimates.stall())
            }
        };
        let slots = slots.min(limit);
        let bound = match reason {
            Reason::LabelQueueFull => self.quotas.label_plan().max_waiting,
            Reason::RunCap => self.quotas.label_plan().max_waiting_per_run,
            _ => slots,
        };
        let retry_after = self.estimates.retry_after(now, ahead, slots, stall);
        Refusal { reason, retry_after, partition, bound, empty: false, timed_out: false, over: false }
    }

    /// Like `refusal`, where a rule rejects.
    pub(super) fn refusal_by_rule(
        &self,
        now: Timestamp,
        partition: u16,
        label: LabelId,
        full: ExhaustedRule,
    ) -> Refusal {
        self.as_rule_says(now, self.refusal(now, partition, label, full.reason), full)
    }

    /// Returns a rejection with the numbers of the rule that is full.
    fn as_rule_says(&self, now: Timestamp, refusal: Refusal, full: ExhaustedRule) -> Refusal {
        // Room comes when a request that the meter counts ends.
        let by_meter = full.meter.filter(|_| full.until.is_none());
        let by_meter =
            by_meter.map(|(meter, _)| self.estimates.retry_after(now, 1, full.bound, self.quotas.stall(meter)));
        Refusal {
            retry_after: full.retry_after(now).or(by_meter).unwrap_or(refusal.retry_after),
            bound: full.bound,
            empty: full.when_full == WhenFull::RespondEmpty,
            ..refusal
        }
    }

    /// Like `refusal`, for a request whose deadline comes before its turn: a deadline that much later might have been
    /// met.
    pub(super) fn refusal_too_late(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        let wait = self.expected_wait(now, ask, label).unwrap_or_default();
        let wait = wait.max(self.estimates.stalled(now).unwrap_or_default());
        let refusal = self.refusal(now, ask.partition, label, Reason::Deadline);
        match wait.checked_sub(ask.deadline.since(now)) {
            Some(missing) if ask.deadline > now => Refusal { retry_after: missing, ..refusal },
            _ => Refusal { over: ask.deadline <= now, ..refusal },
        }
    }

    /// Returns which rules decide: where nothing binds, all of them.
    pub(in crate::engine) const fn rules_in_force(&self) -> InForce {
        if self.lifecycle.enforces() { InForce::Binding } else { InForce::All }
    }

    /// Returns the rule that has no room for another request of a label, if there is such a rule.
    pub(in crate::engine) fn exhausted_rule(&self, now: Timestamp, label: LabelId) -> Option<ExhaustedRule> {
        self.quotas.exhausted(now, label, self.rules_in_force())
    }

    /// Returns the rule that stops a request of a label that arrives, whether the request may wait then or not.
    #[inline]
    pub(super) fn blocking_rule(&self, now: Timestamp, label: LabelId) -> Option<ExhaustedRule> {
        if !self.quotas.has_rules() {
            return None;
        }
        let which = self.rules_in_force();
        self.quotas.pending_exhausted(label, which).or_else(|| self.quotas.exhausted(now, label, which))
    }

    /// Returns the rule because of which a request of a label is rejected rather than queued.
    #[inline]
    pub(super) fn hard_block(&self, now: Timestamp, label: LabelId) -> Option<ExhaustedRule> {
        if !self.quotas.has_rules() {
            return None;
        }
        let which = self.rules_in_force();
        let stops = || self.quotas.exhausted(now, label, which).filter(|full| full.when_full != WhenFull::Queue);
        self.quotas.pending_exhausted(label, which).or_else(stops)
    }

    /// Holds something back for a request that is rejected: a place in line where its partition has a share of them
    /// left, else a slot.
    pub(super) fn reserve(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        let places = self.queue.places(self.capacity.limit());
        if self.queue.in_line_of(ask.partition) >= self.capacity.share_of(ask.partition, places) {
            self.reserve_slot(now, ask, label);
        } else if self.queue.in_line() >= places {
            self.capacity.reserve_place(now, self.estimates.reservation_time(), places);
        }
    }

    /// Holds a slot back for a request that is rejected. Where requests may wait, labels and levels take turns and need
    /// no reservation.
    pub(super) fn reserve_slot(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        let none_waits = self.queue.places(self.capacity.limit()) == 0;
        let is_label_below = none_waits.then(|| self.quotas.are_several_active() && self.is_below_fair_share(label));
        let (hold, level) = (self.estimates.reservation_time(), ask.criticality.level());
        self.capacity.reserve_slot(now, hold, ask.partition, level, is_label_below);
    }
}
