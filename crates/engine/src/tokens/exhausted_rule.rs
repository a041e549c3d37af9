//! A rule that has no room, and the choice of rules to check.

use crate::{
    Reason, Timestamp,
    ids::MeterId,
    plan::rules::{RateRule, Rule, WhenFull},
};

/// Which rules are checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InForce {
    /// Rules that bind.
    Binding,
    /// Rules that observe: they only count what they would do.
    Observing,
    /// All rules: where nothing binds, it makes no difference.
    All,
}

impl InForce {
    /// Returns a rule, if it is checked.
    pub(crate) fn asked<B>(self, rule: Option<Rule<B>>) -> Option<Rule<B>> {
        rule.filter(|rule| match self {
            Self::Binding => !rule.observes,
            Self::Observing => rule.observes,
            Self::All => true,
        })
    }
}

/// A rule that has no room for another request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExhaustedRule {
    pub(crate) reason: Reason,
    pub(crate) when_full: WhenFull,
    /// Time when the rule has room again, if time alone makes some.
    pub(crate) until: Option<Timestamp>,
    /// The rate, if it is one.
    pub(crate) rate: Option<RateRule>,
    /// Requests that the rule allows.
    pub(crate) bound: usize,
    /// Meter that is full, if there is one, and what the rule needs it to have.
    pub(crate) meter: Option<(MeterId, Need)>,
}

/// What a label needs a meter to have before one more request of the label may start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// Fewer requests than this run.
    Slot(usize),
    /// This rate has room.
    Start(RateRule),
}
