//! The right to run.

use std::sync::Arc;

use super::turn::Shared;
use crate::{engine::Slot, outcome::Outcome};

/// The right to run, until it is dropped.
///
/// Report how it went with [`observe`](Self::observe): the limit is learned from that. A permit that is dropped
/// without a word counts as [`Outcome::Cancelled`], and as [`Outcome::Ignore`] if its thread panics.
///
/// Not `Clone`: it is one slot.
#[must_use = "the slot is free again as soon as the permit is dropped"]
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    slot: Slot,
}

impl Permit {
    pub(super) const fn new(shared: Arc<Shared>, slot: Slot) -> Self {
        Self { shared, slot }
    }

    /// Says how the work went; its round-trip time ends now. Only the first call counts. The slot stays taken until
    /// the permit is dropped.
    pub fn observe(&mut self, outcome: Outcome) {
        if !self.slot.is_observed() {
            self.shared.turn(|state, time| state.engine.observe(time.now(), &mut self.slot, outcome));
        }
    }

    /// Says how the work went and gives the slot back, both in one turn.
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.slot.is_observed()
    }

    /// Reports an overload that showed after [`observe`](Self::observe), which can only lower the limit.
    pub(crate) fn observe_late_overload(&self) {
        self.shared.turn(|state, time| state.engine.observe_late_overload(time.now(), &self.slot));
    }

    fn give_back(&mut self, outcome: Outcome) {
        self.shared.turn(|state, time| {
            let engine = &mut state.engine;
            if !self.slot.is_observed() {
                engine.observe(time.now(), &mut self.slot, outcome);
                engine.finish(engine.now(), &mut self.slot);
            } else {
                let now = if engine.is_saturated() { time.now() } else { engine.now() };
                engine.finish(now, &mut self.slot);
            }
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.slot.is_finished() {
            let outcome = if std::thread::panicking() { Outcome::Ignore } else { Outcome::Cancelled };
            self.give_back(outcome);
        }
    }
}
