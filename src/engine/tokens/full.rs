//! A rule that has no room, and which rules are asked.

use std::time::Duration;

use crate::{
    engine::{
        ids::MeterId,
        plan::rules::{RateRule, WhenFull},
    },
    rejection::Reason,
    time::Timestamp,
};

/// InForce rules are asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InForce {
    /// Those that bind.
    Binding,
    /// Those that only say what they would do.
    Observing,
    /// All of them: where nothing binds, it makes no difference.
    All,
}

impl InForce {
    pub(crate) const fn includes(self, observes: bool) -> bool {
        match self {
            Self::Binding => !observes,
            Self::Observing => observes,
            Self::All => true,
        }
    }
}

/// A rule that has no room for one more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExhaustedRule {
    pub(crate) reason: Reason,
    pub(crate) when_full: WhenFull,
    /// When it has room again, if time alone makes some.
    pub(crate) until: Option<Timestamp>,
    /// How much it allows.
    pub(crate) bound: usize,
    /// The meter that is full, if it is one, and what it takes.
    pub(crate) meter: Option<(MeterId, Need)>,
}

impl ExhaustedRule {
    /// How long from `now` until it has room, where that is known.
    pub(crate) fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        // As long as a person would call it: never nothing.
        self.until.map(|until| until.since(now).max(Duration::from_nanos(1)))
    }
}

/// What a label needs a meter to have before one more of it may start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// Fewer than this run.
    Slot(usize),
    /// This rate has room.
    Start(RateRule),
}
