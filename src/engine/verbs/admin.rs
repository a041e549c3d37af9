//! Letting everybody in, or nobody any more.

use crate::engine::{Engine, journal::Event, plan::Mode};
use crate::{rejection::Reason, time::Timestamp};

impl Engine {
    /// Makes decisions bind, or not. Those who wait when they stop to bind are admitted at once.
    pub(crate) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        let now = self.advance(now);
        let from = self.lifecycle.set_mode(mode);
        if from != mode {
            self.clear_reserved();
            self.note_change(now, Event::Mode { from, to: mode });
        }
        self.settle(now);
    }

    /// Lets nobody in any more. Those who wait are turned away, unless they are to be served.
    pub(crate) fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        let now = self.advance(now);
        if self.lifecycle.drain(serves_waiting) {
            self.clear_reserved();
            self.note_change(now, Event::Drain);
        }
        if !serves_waiting {
            while let Some(key) = self.queue.waiting.anyone() {
                self.end_wait(now, key, Reason::Draining);
            }
        }
        self.settle(now);
    }

    /// Whether nobody is let in any more, and nobody is left.
    pub(crate) const fn is_drained(&self) -> bool {
        self.lifecycle.is_draining()
            && self.capacity.running + self.capacity.outside == 0
            && self.queue.in_line + self.queue.at_gate == 0
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.lifecycle.is_draining()
    }
}
