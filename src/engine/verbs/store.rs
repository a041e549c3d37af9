//! What became of the store that counts shared rules, as the engine was told: it asks no store itself.

use std::time::Duration;

use crate::engine::{Engine, journal::Event, labels::LabelId, rules::WhenFull};
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
pub(crate) struct Outage {
    state: StoreState,
    /// When it went down, if it is.
    since: Timestamp,
    /// When it gave no answer to a request, unless it gave one since.
    unanswered: Option<Timestamp>,
    /// When it was back.
    back: Timestamp,
}

/// For how long a store that gave no answer counts as gone although it is still asked: after that nothing is known.
const LATELY: Duration = Duration::from_secs(10);

impl Outage {
    pub(crate) const fn is_down(self) -> bool {
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
        let Outage { state: from, since, .. } = self.lifecycle.store;
        if from == to {
            return None;
        }
        let now = self.advance(now);
        let change = StoreChange { from, to, down_for: self.lifecycle.store.is_down().then(|| now.since(since)) };
        (self.lifecycle.store.state, self.lifecycle.store.since) = (to, now.before(down_for));
        if to == StoreState::Up {
            (self.lifecycle.store.unanswered, self.lifecycle.store.back) = (None, now);
        }
        self.note_change(now, Event::Store(change));
        Some(change)
    }

    /// Notes that the store gave a request of a label an answer, or none.
    pub(crate) fn note_answer(&mut self, now: Timestamp, label: LabelId, answered: bool) {
        let unanswered = (!answered).then_some(now);
        let known = self.lifecycle.store.unanswered;
        let Some(consent) = self.consent_mut(label) else { return };
        if answered && known.is_none() && consent.unanswered.is_none() {
            return;
        }
        // What is let in without the store says nothing about it.
        if consent.rules.closes().is_some() {
            consent.unanswered = unanswered;
            self.lifecycle.store.unanswered = unanswered;
        }
    }

    /// What becomes of requests of a label whose shared rules can't be checked; `None` while they can.
    pub(crate) fn closes_without_store(&self, label: LabelId) -> Option<WhenFull> {
        let consent = self.consent(label)?;
        let lately = |unanswered: Option<Timestamp>| {
            unanswered.is_some_and(|at| at >= self.lifecycle.store.back && self.now.since(at) < LATELY)
        };
        let is_gone =
            self.lifecycle.store.is_down() || lately(self.lifecycle.store.unanswered) || lately(consent.unanswered);
        consent.rules.closes().filter(|_| is_gone)
    }
}
