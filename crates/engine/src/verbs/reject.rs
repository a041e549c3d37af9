//! Which requests are rejected, and what is told of it.

use crate::{
    Engine, Reason, Timestamp,
    ids::{Key, LabelId},
    telemetry::Decided,
    tokens::{Ask, Refusal, RequestRef, Stage},
    verbs::decide::Obstacle,
};

impl Engine {
    /// Rejects a request that arrives: the only place. A slot is held back for it where its bounds are not its own.
    #[cold]
    pub(super) fn reject(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        obstacle: &Obstacle,
        may_wait: bool,
    ) -> Refusal {
        self.record_rejected(now, self.request_of(now, ask, label), obstacle);
        if !obstacle.is_its_own() {
            self.reserve(now, ask, label, may_wait);
        }
        if obstacle.reason == Reason::Deadline {
            return self.refusal_too_late(now, ask, label);
        }
        self.refusal(now, ask.partition, label, obstacle)
    }

    /// Ends a wait without a slot.
    pub(super) fn end_wait(&mut self, now: Timestamp, key: Key, obstacle: &Obstacle) {
        let waiter = self.queue.get(key);
        self.record_rejected(now, waiter.request(), obstacle);
        self.leave(key, false);
        let over = obstacle.reason == Reason::Deadline && waiter.caller_deadline <= now;
        let refusal = self.refusal(now, waiter.partition, waiter.label, obstacle);
        self.queue.answer(key, Stage::Refused(Refusal { over, ..refusal }), waiter.marks);
        self.notices.waiters.push_back(key);
    }

    /// Records that a request was rejected, and what was in its way.
    pub(super) fn record_rejected(&mut self, now: Timestamp, request: RequestRef, obstacle: &Obstacle) {
        let blocker = self.if_noted(|engine| engine.blocker(now, request.partition, request.label, obstacle));
        let Obstacle { reason, timed_out, .. } = *obstacle;
        self.record(now, request, Decided::Rejected { reason, blocker, timed_out });
        self.controller.rejected(reason, self.capacity.is_full());
    }
}
