//! Letting everybody in, or nobody any more.

use crate::engine::{Engine, journal::Event, plan::Mode};
use crate::{rejection::Reason, time::Timestamp};

impl Engine {
    /// Makes decisions bind, or not. Those who wait when they stop to bind are admitted at once.
    pub(crate) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        let now = self.advance(now);
        let from = std::mem::replace(&mut self.lifecycle.mode, mode);
        if from != mode {
            self.clear_reserved();
            self.note_change(now, Event::Mode { from, to: mode });
        }
        self.settle(now);
    }

    /// Lets nobody in any more. Those who wait are turned away, unless they are to be served.
    pub(crate) fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        let now = self.advance(now);
        self.lifecycle.serves_waiting = serves_waiting;
        if !std::mem::replace(&mut self.lifecycle.closed, true) {
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
        self.lifecycle.closed
            && self.capacity.running + self.capacity.outside == 0
            && self.queue.in_line + self.queue.at_gate == 0
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.lifecycle.closed
    }
}
