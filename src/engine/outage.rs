//! What became of the store that counts shared rules, as the engine was told: it asks no store itself.

use std::time::Duration;

use super::{Engine, journal::Event};
use crate::time::Timestamp;

/// Whether a store answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum StoreState {
    #[default]
    Up,
    /// It failed lately, and is asked all the same.
    Failing,
    /// It is left alone until it answers a probe.
    Down,
}

impl StoreState {
    /// The machine word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Failing => "failing",
            Self::Down => "down",
        }
    }
}

/// What is known of the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outage {
    state: StoreState,
    /// When it went down, if it is.
    since: Timestamp,
}

impl Outage {
    pub(super) const fn is_down(self) -> bool {
        matches!(self.state, StoreState::Down)
    }
}

/// How the store changed, for whoever tells others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct StoreChange {
    pub(crate) from: StoreState,
    pub(crate) to: StoreState,
    /// For how long it was down, if it was.
    pub(crate) down_for: Option<Duration>,
}

impl Engine {
    /// Takes note of the state of the store and, if it is down, for how long. Answers how that differs from before.
    pub(crate) fn tell_store(&mut self, now: Timestamp, to: StoreState, down_for: Duration) -> Option<StoreChange> {
        let Outage { state: from, since } = self.store;
        if from == to {
            return None;
        }
        let now = self.advance(now);
        let change = StoreChange { from, to, down_for: self.store.is_down().then(|| now.since(since)) };
        self.store = Outage { state: to, since: now.before(down_for) };
        self.note_change(now, Event::Store(change));
        Some(change)
    }
}
