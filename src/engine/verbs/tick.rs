//! What happens because time passes.

use crate::{engine::Engine, time::Timestamp};

impl Engine {
    /// Returns when [`tick`](Self::tick) has something to do, if ever.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        // A slot that is no longer held back may be for a waiter.
        let decay = if self.queue.is_empty() { Timestamp::NEVER } else { self.capacity.next_decay() };
        let next = self.queue.next_deadline().min(decay).min(self.quotas.next_room());
        let next = next.min(self.slot_ttl.next_end()).min(self.quotas.next_silence());
        (next != Timestamp::NEVER).then_some(next)
    }

    /// Rejects waiters whose wait is over, takes back slots that expired, and discounts workers that fell silent. Some
    /// hundred waits at once: [`next_wakeup`](Self::next_wakeup) tells if there are more.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        const AT_ONCE: usize = 256;
        let now = self.advance(now);
        for _ in 0..AT_ONCE {
            let Some(key) = self.queue.expired(now) else { break };
            self.expire(now, key);
        }
        while let Some(holder) = self.slot_ttl.expire(now) {
            self.note_held(self.slot_ttl.time_to_live().unwrap_or_default(), holder.label);
            self.release(&holder);
        }
        if self.quotas.next_silence() <= now {
            for label in self.quotas.take_silent() {
                let throttle = self.quotas.discount(now, label);
                self.throttle(label, throttle);
            }
        }
        #[cfg(feature = "introspect")]
        self.telemetry.note_recent(now);
        self.dispatch(now);
    }

    /// Returns the latest time that any verb was given.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Moves the time on for a look at the engine, and does nothing else.
    pub(crate) fn pass_time(&mut self, now: Timestamp) {
        let _now = self.advance(now);
        // Where no driver ticks, the looks themselves note the counts to compare.
        #[cfg(feature = "introspect")]
        self.telemetry.note_recent(_now);
    }
}
