//! What the engine is told of the store that counts shared rules: it asks no store itself.

use std::time::Duration;

use crate::{
    engine::{
        Engine,
        ids::LabelId,
        journal::Event,
        lifecycle::{StoreChange, StoreState},
        rules::WhenFull,
    },
    time::Timestamp,
};

impl Engine {
    /// Takes note of the state of the store and, if it is down, for how long; returns how that differs from before.
    pub(crate) fn tell_store(&mut self, now: Timestamp, to: StoreState, down_for: Duration) -> Option<StoreChange> {
        if self.lifecycle.store().state() == to {
            return None;
        }
        let now = self.advance(now);
        let change = self.lifecycle.store_mut().change(now, to, down_for);
        self.note_change(now, Event::Store(change));
        Some(change)
    }

    /// Notes that the store gave a request of a label an answer, or none.
    pub(crate) fn note_answer(&mut self, now: Timestamp, label: LabelId, answered: bool) {
        let unanswered = (!answered).then_some(now);
        let known = self.lifecycle.store().unanswered();
        let Some(consent) = self.consent_mut(label) else { return };
        if answered && known.is_none() && consent.unanswered.is_none() {
            return;
        }
        // What is let in without the store says nothing about it.
        if consent.rules.closes().is_some() {
            consent.unanswered = unanswered;
            self.lifecycle.store_mut().note_answer(unanswered);
        }
    }

    /// What becomes of requests of a label whose shared rules can't be checked; `None` while they can.
    pub(crate) fn closes_without_store(&self, label: LabelId) -> Option<WhenFull> {
        let consent = self.consent(label)?;
        let is_gone = self.lifecycle.store().is_gone(self.now, consent.unanswered);
        consent.rules.closes().filter(|_| is_gone)
    }
}
