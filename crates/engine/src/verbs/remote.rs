//! Requests that got a slot and have to ask a store before they run, since some of their rules are counted for all instances.
//!
//! Such a request is a waiter that was granted a slot and hasn't fetched it. From there it goes one of three ways. Its slot is
//! [claimed](Engine::claim) as any other. It is [rejected](Engine::reject_remote). Or, where the rule that has no room lets its label wait,
//! it is [requeued](Engine::requeue) to its place in line, without a slot. Its label is closed then: other labels go on, and no request of
//! this label takes a slot until it is worth [trying again](Engine::retry_remote). Then one request of the label asks, and the next request
//! when that was admitted: however many wait, only one asks at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Engine, Reason, Timestamp,
    ids::{Key, LabelId, RunId},
    plan::rules::WhenFull,
    telemetry::Decided,
    tokens::{Counted, Marks, Place, Refusal, SharedRules, Stage},
    verbs::decide::Obstacle,
};

/// A shared rule that has no room, as the store said.
#[derive(Clone, Copy, Debug)]
pub struct NoRoom {
    /// The kind of the rule. Not its index: the rules may have been replaced while the store was asked.
    pub rule: Counted,
    /// Time until there is room again, if time alone makes some.
    pub retry_after: Option<Duration>,
}

impl Engine {
    /// Like `needs_remote`, for a request that was granted a slot.
    pub fn has_to_ask_for(&self, place: &Place) -> Option<Arc<SharedRules>> {
        if !self.quotas.has_rules().shared {
            return None;
        }
        let waiter = self.queue.get(place.key());
        if matches!(waiter.stage, Stage::Granted { .. }) { self.needs_remote(waiter.label) } else { None }
    }

    /// Rejects a request that asked: a shared rule has no room.
    pub fn reject_remote(&mut self, now: Timestamp, place: &Place, no_room: NoRoom) -> Refusal {
        let now = self.advance(now);
        let key = place.key();
        let label = self.give_up(now, key);
        self.note_answer(now, label, true);
        let until = no_room.retry_after.map(|after| now.after(after));
        let full = self.quotas.deny_remote(label, no_room.rule, until, false);
        // Without it where the rules were replaced meanwhile.
        self.leave_rejected(now, key, &full.map_or(Obstacle::new(Reason::Limit), Obstacle::from))
    }

    /// Fails closed: rejects a request that could not ask, since the store is gone and one of its rules fails closed.
    pub fn reject_without_store(&mut self, now: Timestamp, place: &Place, retry_after: Option<Duration>) -> Refusal {
        let now = self.advance(now);
        let key = place.key();
        let label = self.give_up(now, key);
        self.note_answer(now, label, false);
        let one = self.quotas.label(label);
        let reason = if one.pending.is_some() { Reason::PendingUnavailable } else { Reason::StoreUnavailable };
        let closes = one.remote.and_then(|it| it.rules.closes());
        // The other waiters learn it themselves, one after the other.
        let refusal = self.leave_rejected(now, key, &Obstacle::new(reason));
        let retry_after = retry_after.unwrap_or(refusal.retry_after);
        Refusal { retry_after, empty: closes == Some(WhenFull::RespondEmpty), ..refusal }
    }

    /// Lets a request that asked wait for a shared rule that has no room, without its slot. Returns its label, or why it can't wait.
    ///
    /// The request stands where it stood before, and no longer than it would have. If it had not waited yet, its wait
    /// begins.
    pub fn requeue(&mut self, now: Timestamp, place: &Place, no_room: NoRoom) -> Result<LabelId, Refusal> {
        let now = self.advance(now);
        let key = place.key();
        let waiter = self.queue.get(key);
        let label = waiter.label;
        let Stage::Granted { until, .. } = waiter.stage else { return Ok(label) };
        let (one, plan) = (self.quotas.label(label), self.quotas.plans().0);
        let of_run = (waiter.run != RunId::NONE).then(|| self.queue.of_run(waiter.run));
        let is_crowded =
            one.waiting >= plan.max_waiting || of_run.is_some_and(|of_run| of_run >= plan.max_waiting_per_run);
        let no_place = (!one.name.is_empty() && is_crowded) || self.room().places == 0;
        if waiter.caller_deadline <= now || (until.is_none() && no_place) {
            return Err(self.reject_remote(now, place, no_room));
        }
        if self.lifecycle.standing().rejects_waiting {
            self.give_up(now, key);
            return Err(self.leave_rejected(now, key, &Obstacle::new(Reason::Draining)));
        }
        self.note_answer(now, label, true);
        let until = no_room.retry_after.map(|after| now.after(after));
        self.quotas.deny_remote(label, no_room.rule, until, true);
        self.give_up(now, key);
        let throttle = self.quotas.waits(label, false);
        self.throttle(label, throttle);
        let (flow_tag, own) = self.quotas.waits_by(label);
        self.queue.requeue(now, key, flow_tag, own);
        if let Some(full) = self.exhausted_rule(now, label) {
            self.await_room(now, label, &full);
        }
        self.dispatch(now);
        Ok(label)
    }

    /// Lets a label that waits for this kind of shared rule ask again. Returns whether the label still waits for the
    /// rule.
    pub fn retry_remote(&mut self, now: Timestamp, label: LabelId, counted: Counted) -> bool {
        let now = self.advance(now);
        if !self.quotas.retry_remote(label, counted) {
            return false;
        }
        self.unthrottle(label);
        self.dispatch(now);
        true
    }

    /// Gives back the slot of a request that asked, as if the request had never had it.
    fn give_up(&mut self, now: Timestamp, key: Key) -> LabelId {
        let waiter = self.queue.get(key);
        let holder = waiter.holder();
        self.queue.mark(key, Marks::NONE, waiter.dry_run);
        self.record(now, waiter.request(), Decided::GaveBack);
        self.quotas.refund(now, &holder);
        self.release(&holder);
        holder.label
    }

    /// Rejects a request that gave its slot back, and lets the next request of its label ask.
    fn leave_rejected(&mut self, now: Timestamp, key: Key, obstacle: &Obstacle) -> Refusal {
        let waiter = self.queue.get(key);
        self.record_rejected(now, waiter.request(), obstacle);
        let refusal = self.refusal(now, waiter.partition, waiter.label, obstacle);
        self.forget(key);
        self.allow_probe(waiter.label);
        self.dispatch(now);
        refusal
    }
}
