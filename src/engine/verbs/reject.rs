//! Which requests are rejected, why, and when it is worth coming back.

use crate::{
    engine::{
        Engine,
        ids::{Key, LabelId},
        plan::rules::WhenFull,
        telemetry::{Blocker, Event},
        tokens::{Ask, ExhaustedRule, Refusal, RequestRef, Stage},
        verbs::decide::Obstacle,
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Rejects a request that arrives: the only place. A slot is held back for it where its bounds are not its own.
    #[cold]
    pub(super) fn reject(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        obstacle: Obstacle,
        may_wait: bool,
    ) -> Refusal {
        let Obstacle { reason, rule } = obstacle;
        self.record_rejected(now, self.request_of(now, ask, label), reason, false);
        if !obstacle.is_its_own() {
            self.reserve(now, ask, label, may_wait);
        }
        match rule {
            Some(full) => self.refusal_by_rule(now, ask.partition, label, full),
            None if reason == Reason::Deadline => self.refusal_too_late(now, ask, label),
            None => self.refusal(now, ask.partition, label, reason),
        }
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

    /// Ends the wait of a waiter that makes room for another request.
    pub(super) fn push_out(&mut self, now: Timestamp, key: Key) {
        let why = self.reason_for_leaving(now, key, Reason::PushedOut);
        self.end_wait(now, key, why, false);
    }

    /// Ends a wait whose time is over, before its turn or at it. The rejection names the rule that was in the way, where that was
    /// not the limit.
    pub(super) fn expire(&mut self, now: Timestamp, key: Key, is_its_turn: bool) {
        let waiter = *self.queue.get(key);
        if waiter.caller_deadline <= now {
            return self.reject_waiter(now, key, Reason::Deadline);
        }
        let timeout = match waiter.stage {
            _ if is_its_turn && self.was_full_just_now(waiter.label) => Reason::LabelCap,
            Stage::Gate => Reason::GateTimeout,
            _ => Reason::QueueTimeout,
        };
        let why = self.reason_for_leaving(now, key, timeout);
        self.end_wait(now, key, why, true);
    }

    /// Returns why a waiter leaves without a slot: because of its own rule or cap, where that alone stops it, even if more is
    /// full.
    fn reason_for_leaving(&self, now: Timestamp, key: Key, other: Reason) -> (Reason, Option<ExhaustedRule>) {
        let waiter = self.queue.get(key);
        let reason = match self.reason_for_rejecting(waiter.partition, waiter.label) {
            reason @ (Reason::LabelCap | Reason::PartitionCap) => reason,
            _ => other,
        };
        let full = self.exhausted_rule(now, waiter.label).filter(|full| full.when_full == WhenFull::Queue);
        let full = full.filter(|_| !self.quotas.is_full(waiter.label));
        (full.map_or(reason, |full| full.reason), full)
    }

    /// Ends a wait without a slot, for this reason.
    pub(super) fn end_wait(&mut self, now: Timestamp, key: Key, why: (Reason, Option<ExhaustedRule>), timed_out: bool) {
        let (waiter, (reason, full)) = (*self.queue.get(key), why);
        self.record_rejected(now, waiter.request(), reason, timed_out);
        self.leave(key);
        let refusal = match full {
            Some(full) => self.refusal_by_rule(now, waiter.partition, waiter.label, full),
            None => self.refusal(now, waiter.partition, waiter.label, reason),
        };
        self.answer(key, Refusal { timed_out, ..refusal });
    }

    /// Whether a label was at its cap until now, when it is the turn of its waiter, while the server had room: a waiter that nothing
    /// stops has a slot at once.
    fn was_full_just_now(&self, label: LabelId) -> bool {
        let one = self.quotas.label(label);
        one.running() + 1 >= one.cap() && self.capacity.running() + 1 < self.capacity.limit()
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
        self.controller.rejected(reason, self.capacity.is_full());
    }
}
