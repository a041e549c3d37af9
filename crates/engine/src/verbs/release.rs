//! How tokens come back: a place is claimed or cancelled, a slot is finished, and the time of either is over.

use std::task::Poll;

use crate::{
    Engine, Timestamp,
    ids::{Key, TtlId},
    telemetry::{ChangeEvent, Decided, HealthInputs, LabelGauges, PartitionGauges},
    tokens::{Marks, Place, Refusal, Slot, Stage},
};

impl Engine {
    /// Claims the slot of a waiter. Whatever the timers say, this answer counts.
    pub fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let now = self.advance(now);
        let key = place.key();
        if self.queue.get(key).deadline <= now {
            self.end_wait(now, key, &self.end_of_wait(now, key, false));
            self.dispatch(now);
        }
        let waiter = self.queue.get(key);
        let answer = match waiter.stage {
            Stage::Gate | Stage::Line => return Poll::Pending,
            // The request's time starts now, not at the grant: how long the task took to wake up is no congestion.
            Stage::Granted { in_flight, until } => {
                let asked = self.needs_remote(waiter.label).is_some();
                if asked {
                    self.note_answer(now, waiter.label, true);
                    // A request that waited in line was granted its slot later than it came.
                    if until.is_none() {
                        self.outage.note_time(now, now.since(waiter.since));
                    }
                }
                self.record(now, waiter.request(), Decided::Claimed { waited: until.is_some(), asked });
                let slot = self.slot(now, waiter.class, waiter.holder(), in_flight).until(waiter.caller_deadline);
                Ok(Slot { dry_run: waiter.dry_run, ..slot })
            }
            Stage::Refused(refusal) => Err(refusal),
        };
        self.forget(key);
        if self.quotas.has_rules().shared && answer.is_ok() {
            self.allow_probe(waiter.label);
            self.dispatch(now);
        }
        #[cfg(test)]
        self.check();
        Poll::Ready(answer)
    }

    /// Gives up a place, and the slot that may have been granted to it.
    pub fn cancel(&mut self, now: Timestamp, place: &Place) {
        let now = self.advance(now);
        let key = place.key();
        let waiter = self.queue.get(key);
        match waiter.stage {
            Stage::Gate | Stage::Line => self.leave(key, false),
            Stage::Granted { .. } => {
                self.release(&waiter.holder());
                self.allow_probe(waiter.label);
            }
            Stage::Refused(_) => {}
        }
        if !matches!(waiter.stage, Stage::Refused(_)) {
            self.record(now, waiter.request(), Decided::Cancelled);
        }
        self.forget(key);
        self.dispatch(now);
    }

    /// Gives a slot back, once.
    pub fn finish(&mut self, now: Timestamp, slot: &mut Slot) {
        let (is_counted, within_limit, holder) = (slot.is_counted(), slot.is_within_limit(), slot.holder());
        self.note_end_of(slot);
        slot.marks = slot.marks.without(Marks::COUNTED.with(Marks::IN_SHADOW));
        if !is_counted {
            return self.controller.leave_shadow(holder.marks);
        }
        if slot.marks.has(Marks::ABANDONED) {
            self.capacity.note_abandoned(slot.partition, -1);
        }
        let now = self.advance(now);
        // A slot that was taken back before is not counted any more, and its label may be forgotten.
        if !self.slot_ttl.give_back(slot.ttl) {
            if within_limit {
                self.note_held(now.since(slot.start), slot.label);
            }
            self.release(&holder);
        }
        if self.queue.lengths().all() > 0 {
            self.dispatch(now);
        }
    }

    /// Whether this slot expired and was taken back.
    pub fn is_expired(&self, slot: TtlId) -> bool {
        self.slot_ttl.is_expired(slot)
    }

    /// Returns the next slot that expired since the last call: its holder should be told.
    pub fn take_expired(&mut self) -> Option<TtlId> {
        self.notices.slots.pop_front()
    }

    /// Returns the next waiter whose wait ended since the last call, granted or rejected: it should be woken.
    pub fn take_notice(&mut self) -> Option<Key> {
        self.notices.waiters.pop_front()
    }

    #[doc(hidden)]
    pub fn has_notices(&self) -> bool {
        !self.notices.waiters.is_empty() || !self.notices.slots.is_empty()
    }

    /// Returns when [`tick`](Self::tick) has something to do, if ever.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        // A slot that is no longer held back may be for a waiter.
        let decay = if self.queue.lengths().all() > 0 { self.capacity.next_decay() } else { Timestamp::NEVER };
        let next = self.queue.next_deadline().min(decay).min(self.quotas.next_room());
        let next = next.min(self.slot_ttl.next_end()).min(self.quotas.next_silence());
        (next != Timestamp::NEVER).then_some(next)
    }

    /// Rejects waiters whose wait is over, takes back slots that expired, and discounts workers that fell silent. Some
    /// hundred waits at once: [`next_wakeup`](Self::next_wakeup) tells if there are more.
    pub fn tick(&mut self, now: Timestamp) {
        const AT_ONCE: usize = 256;
        let now = self.advance(now);
        for _ in 0..AT_ONCE {
            let Some(key) = self.queue.expired(now) else { break };
            self.end_wait(now, key, &self.end_of_wait(now, key, false));
        }
        while let Some((slot, holder)) = self.slot_ttl.expire(now) {
            self.notices.slots.push_back(slot);
            self.note_held(self.slot_ttl.time_to_live().unwrap_or_default(), holder.label);
            self.release(&holder);
        }
        for (label, throttle) in self.quotas.discount(now) {
            self.throttle(label, throttle);
        }
        if self.telemetry.wants(now).judgement {
            self.judge(now);
        }
        self.dispatch(now);
    }

    /// Returns the latest time that any verb was given.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the time on for a look at the engine, and judges its state.
    pub fn pass_time_for_look(&mut self, now: Timestamp) {
        let now = self.advance(now);
        // Where no driver ticks, the looks themselves note the counts to compare.
        self.judge(now);
    }

    /// Judges the state of the handle by what is seen of it now, and by the last seconds.
    fn judge(&mut self, now: Timestamp) {
        let (usual, (_, is_stuck)) = (self.usual_hold(), self.stuck(&self.holders()));
        let Self { lifecycle, capacity, queue, telemetry, .. } = self;
        let (is_shared, store) = (self.quotas.has_rules().shared, self.outage.seen(now));
        let inputs = HealthInputs {
            is_draining: lifecycle.is_draining(),
            binds: lifecycle.enforces(),
            is_store_gone: is_shared && self.outage.is_gone(now, None),
            is_store_quiet: is_shared && store.quiet.is_some(),
            is_store_slow: is_shared && store.slow.is_some(),
            is_busy: capacity.is_full() || queue.lengths().all() > 0,
            is_line_long: queue.lengths().all() >= capacity.limit().max(1),
            is_stuck,
        };
        let of_partition = |id| {
            let it = capacity.partition(id);
            PartitionGauges { running: it.running, is_below_share: it.is_owed() }
        };
        let of_label = |id| {
            let it = self.quotas.label(id);
            let hold = if it.mean_hold.is_zero() { usual } else { it.mean_hold };
            LabelGauges { running: it.running, waiting: it.waiting, hold }
        };
        if telemetry.judge(now, inputs, of_partition, of_label) {
            self.note_change(now, ChangeEvent::CallersLeave);
        }
    }
}
