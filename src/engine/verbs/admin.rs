//! Modes, draining, and what is told of the store.

use std::time::Duration;

use crate::{
    engine::{
        Engine,
        plan::Mode,
        telemetry::ChangeEvent,
        tokens::{StoreChange, StoreState},
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Sets the mode. Waiters are admitted at once when decisions stop binding.
    pub(crate) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        let now = self.advance(now);
        let from = self.lifecycle.set_mode(mode);
        self.find_extras();
        if from != mode {
            self.capacity.clear_reserved();
            self.note_change(now, ChangeEvent::Mode { from, to: mode });
        }
        self.dispatch(now);
    }

    /// Begins to drain: no request is admitted any more. Waiters are rejected, unless they are to be served.
    pub(crate) fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        let now = self.advance(now);
        let was_open = self.lifecycle.drain(serves_waiting);
        self.find_extras();
        if was_open {
            self.capacity.clear_reserved();
            self.note_change(now, ChangeEvent::Drain);
        }
        if !serves_waiting {
            while let Some(key) = self.queue.anyone() {
                self.reject_waiter(now, key, Reason::Draining);
            }
        }
        self.dispatch(now);
    }

    /// Whether the handle drains and no request is left.
    pub(crate) const fn is_drained(&self) -> bool {
        self.lifecycle.is_draining()
            && self.capacity.running() + self.capacity.over_limit() == 0
            && self.queue.is_empty()
    }

    pub(crate) const fn is_closed(&self) -> bool {
        self.lifecycle.is_draining()
    }

    /// Takes note of the state of the store and, if it is down, for how long; returns how that differs from before. The
    /// engine asks no store itself.
    pub(crate) fn tell_store(&mut self, now: Timestamp, to: StoreState, down_for: Duration) -> Option<StoreChange> {
        if self.lifecycle.store().state() == to {
            return None;
        }
        let now = self.advance(now);
        let change = self.lifecycle.store_mut().change(now, to, down_for);
        self.note_change(now, ChangeEvent::Store(change));
        Some(change)
    }
}
