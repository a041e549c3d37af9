//! What happens because time passes.

use crate::engine::Engine;
use crate::time::Timestamp;

impl Engine {
    /// When [`tick`](Self::tick) has something to do, if it ever has.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        let deadline = self.queue.deadlines.first().map_or(Timestamp::NEVER, |(at, _)| at);
        // What is no longer held back may be for those who wait.
        let waiting = self.queue.in_line + self.queue.at_gate > 0;
        let decay = if waiting { self.capacity.reserved.next_decay() } else { Timestamp::NEVER };
        let next = deadline.min(decay).min(self.next_rate()).min(self.slot_ttl.next_end()).min(self.quotas.workers_due);
        (next != Timestamp::NEVER).then_some(next)
    }

    /// Turns away whose wait is over, takes back slots whose time is over, and discounts workers that fell silent. Some
    /// hundred waits at once: whoever asks [when to come back](Self::next_wakeup) is told if there are more.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        const AT_ONCE: usize = 256;
        let now = self.advance(now);
        for _ in 0..AT_ONCE {
            let Some((_, index)) = self.queue.deadlines.first().filter(|&(at, _)| at <= now) else { break };
            self.expire(now, self.queue.waiting.key(index));
        }
        while let Some(holder) = self.slot_ttl.expire(now) {
            self.note_held(self.slot_ttl.time_to_live().unwrap_or_default(), holder.label);
            self.vacate(holder);
        }
        if self.quotas.workers_due <= now {
            self.sweep_workers(now);
        }
        #[cfg(feature = "introspect")]
        self.note_recent(now);
        self.settle(now);
    }

    /// The latest time that any verb was given.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Time never runs backwards here, whatever the clock does, and never reaches "never".
    pub(crate) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now).min(Timestamp::LATEST);
        self.now
    }
}
