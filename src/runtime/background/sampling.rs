//! Samples for the history of a handle: when they are taken, and what is read of them.

use std::{sync::Arc, time::Duration};

use super::history::{GAP, History, HistoryView};
use crate::{
    Timestamp,
    engine::HealthSnapshot,
    runtime::{core::lock, shared::Shared},
};

impl Shared {
    /// Keeps a history from now on. The driver takes the samples, also where no request comes.
    pub(crate) fn begin_history(self: &Arc<Self>) {
        let mut history = lock(&self.history);
        if history.is_none() {
            let now = self.time.now();
            *history = Some(Box::new(History::new(self.with_engine(|state, _| {
                state.engine.begin_sampling();
                state.engine.advance(now);
                state.engine.sample()
            }))));
        }
        drop(history);
        self.drive_here();
    }

    /// Takes a sample if a second is over. Without a history, this does nothing.
    pub(in crate::runtime) fn note_history(&self) {
        if let Some(history) = &mut *lock(&self.history) {
            self.note_history_in(history);
            history.is_driven = true;
        }
    }

    fn note_history_in(&self, history: &mut History) {
        let now = self.time.now();
        if history.is_due(now) {
            let gap = now.since(history.last.at);
            let stall = (history.is_driven && gap > GAP).then_some(gap);
            let has_longer_waits = history.has_longer_waits();
            let (sample, mut health, classes) = self.with_engine(|state, _| {
                state.engine.note_past(now, has_longer_waits, stall);
                // Labels are chosen, as by a tick.
                state.engine.pass_time_for_look(now);
                (state.engine.sample(), state.snapshot().health, state.engine.classes_without_rules())
            });
            history.add_changes(&mut health);
            history.note(sample, health.headline);
            history.note_unknown(now, self.partitions.unknown(), classes);
        }
    }

    /// Returns the frames of the last `last`, and of them those that end after `since`.
    pub(crate) fn history(&self, last: Duration, since: Timestamp) -> Option<HistoryView> {
        let mut history = lock(&self.history);
        let history = history.as_mut()?;
        // Where no driver ticks, looks are samples.
        self.note_history_in(history);
        let now = self.time.now();
        Some(HistoryView { began: history.began, now, frames: history.since(since.max(now.before(last))) })
    }

    /// Adds what is different from before, as far as a history is kept.
    pub(in crate::runtime) fn add_changes(&self, health: &mut HealthSnapshot) {
        if let Some(history) = &*lock(&self.history) {
            history.add_changes(health);
        }
    }
}
