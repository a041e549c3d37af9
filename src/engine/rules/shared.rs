//! Rules that are counted for all instances together, and what this one knows of them.
//!
//! The engine doesn't count them, and doesn't know who does. It says which rules a request needs the consent for, and
//! remembers what it was told: that a rule which lets its label wait has no room, or that a rate has none until some time.

use std::{
    any::Any,
    fmt,
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use super::{Full, RateRule, Resolved, Rule, WhenFull};
use crate::{rejection::Reason, time::Timestamp};

/// What a rule does while the store can't be asked. An explicit choice, since each has its price.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// Nobody is admitted: nothing is exceeded, and nothing is served.
    #[default]
    FailClosed,
    /// The rule doesn't count: everything is served, and nothing is held back.
    FailOpen,
    /// Each process admits its share, counted by itself: the bound divided by the number of instances, rounded down.
    ///
    /// Together they stay within the bound while the number is right. What was granted by the store before is not
    /// counted against the share, so for as long as it runs there may be as much again.
    LocalShare {
        /// How many processes share the rule.
        instances: NonZeroU32,
    },
}

/// Which of a label's rules one is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Counted {
    LabelCap,
    NamespaceCap,
    LabelRate,
    NamespaceRate,
    Budget,
}

/// How much a shared rule allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SharedBound {
    Cap(NonZeroU32),
    Rate(RateRule),
}

/// A rule that is counted for all instances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SharedRule {
    pub(crate) counts: Counted,
    pub(crate) bound: SharedBound,
    pub(crate) when_full: WhenFull,
    pub(crate) when_gone: OnStoreFailure,
}

impl SharedRule {
    pub(in crate::engine) const fn reason(&self) -> Reason {
        match self.counts {
            Counted::LabelCap => Reason::LabelCap,
            Counted::NamespaceCap => Reason::NamespaceCap,
            Counted::LabelRate | Counted::NamespaceRate => Reason::Rate,
            Counted::Budget => Reason::Budget,
        }
    }

    /// The setting, as in `RuleSnapshot`.
    const fn name(&self) -> &'static str {
        match self.counts {
            Counted::LabelCap => "max_in_flight",
            Counted::NamespaceCap => "max_in_flight_per_namespace",
            Counted::LabelRate => "max_per_minute",
            Counted::NamespaceRate => "max_per_minute_per_namespace",
            Counted::Budget => "budget",
        }
    }

    /// How many it allows.
    pub(in crate::engine) const fn most(&self) -> usize {
        match self.bound {
            SharedBound::Cap(bound) => bound.get() as usize,
            SharedBound::Rate(rate) => rate.max.get() as usize,
        }
    }
}

/// The rules of one label of one class for which a request needs consent, all of them or none.
pub(crate) struct SharedRules {
    /// Empty for requests whose class has no rules of its own.
    pub(crate) class: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) label: Box<str>,
    pub(crate) group: Option<Box<str>>,
    pub(crate) rules: Vec<SharedRule>,
    /// What whoever asks has made of this, once for all requests.
    pub(crate) prepared: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl SharedRules {
    pub(in crate::engine) fn of(class: &str, namespace: &str, label: &str, resolved: &Resolved) -> Option<Self> {
        let cap = |counts, rule: Option<Rule<usize>>| {
            let Rule { bound, when_full, shared, .. } = rule?;
            let bound = NonZeroU32::new(u32::try_from(bound).unwrap_or(u32::MAX))?;
            Some(SharedRule { counts, bound: SharedBound::Cap(bound), when_full, when_gone: shared? })
        };
        let rate = |counts, rule: Option<Rule<RateRule>>| {
            let Rule { bound, when_full, shared, .. } = rule?;
            Some(SharedRule { counts, bound: SharedBound::Rate(bound), when_full, when_gone: shared? })
        };
        let rules = [
            cap(Counted::LabelCap, resolved.in_flight),
            cap(Counted::NamespaceCap, resolved.in_flight_per_namespace),
            rate(Counted::LabelRate, resolved.per_minute),
            rate(Counted::NamespaceRate, resolved.per_minute_per_namespace),
            rate(Counted::Budget, resolved.budget.as_ref().map(|(_, rule)| *rule)),
        ];
        let rules: Vec<_> = rules.into_iter().flatten().collect();
        let group = resolved.budget.as_ref().map(|(group, _)| group.clone());
        (!rules.is_empty()).then(|| Self {
            class: class.into(),
            namespace: namespace.into(),
            label: label.into(),
            group,
            rules,
            prepared: OnceLock::new(),
        })
    }

    /// The rule of this kind, of which a label has one at most, and its index.
    pub(in crate::engine) fn find(&self, counts: Counted) -> Option<(usize, SharedRule)> {
        self.rules.iter().copied().enumerate().find(|(_, rule)| rule.counts == counts)
    }

    /// Whether nobody is admitted while the store is gone, and whether that is answered as if there were nothing.
    pub(in crate::engine) fn closes(&self) -> Option<WhenFull> {
        let closed = || self.rules.iter().filter(|rule| rule.when_gone == OnStoreFailure::FailClosed);
        let empty = closed().any(|rule| rule.when_full == WhenFull::RespondEmpty);
        closed().next().map(|_| if empty { WhenFull::RespondEmpty } else { WhenFull::Reject })
    }
}

impl fmt::Debug for SharedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRules").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// What is known of the shared rules of a label.
#[derive(Debug)]
pub(in crate::engine) struct Consent {
    pub(in crate::engine) rules: Arc<SharedRules>,
    /// A rule that lets the label wait has no room.
    pub(in crate::engine) closed: Option<Closed>,
    /// A rate that turns requests away has no room until then.
    pub(in crate::engine) barred: Option<(usize, Timestamp)>,
    /// When the store gave no answer, if that was its last word.
    pub(in crate::engine) unanswered: Option<Timestamp>,
}

/// A label whose requests wait for a shared rule: one of them at a time asks again.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Closed {
    /// The index of the rule.
    pub(in crate::engine) rule: usize,
    /// When time alone makes room; never for a cap.
    pub(in crate::engine) until: Timestamp,
    /// Whether the next one may ask.
    pub(in crate::engine) one_may_ask: bool,
}

impl Consent {
    pub(super) fn of(rules: SharedRules) -> Box<Self> {
        Box::new(Self { rules: Arc::new(rules), closed: None, barred: None, unanswered: None })
    }

    /// The shared rule of which it is known that it has no room for one more, and until when.
    fn known_full(&self, now: Timestamp) -> Option<(&SharedRule, Timestamp)> {
        let barred = self.barred.filter(|&(_, until)| until > now);
        let closed = self.closed.filter(|closed| !closed.one_may_ask && closed.until > now);
        let (rule, until) = barred.or_else(|| closed.map(|closed| (closed.rule, closed.until)))?;
        Some((self.rules.rules.get(rule)?, until))
    }

    /// The name of that rule.
    pub(in crate::engine) fn full_name(&self, now: Timestamp) -> &'static str {
        self.known_full(now).map_or("", |(rule, _)| rule.name())
    }

    /// The same as any rule that is full.
    pub(in crate::engine) fn full(&self, now: Timestamp) -> Option<Full> {
        let (rule, until) = self.known_full(now)?;
        let until = (until != Timestamp::NEVER).then_some(until);
        Some(Full { reason: rule.reason(), when_full: rule.when_full, until, bound: rule.most(), meter: None })
    }

    /// Notes that somebody asks: while the label is closed, nobody else does.
    pub(super) fn asks(&mut self) {
        if let Some(closed) = &mut self.closed {
            (closed.one_may_ask, closed.until) = (false, Timestamp::NEVER);
        }
    }
}

/// The rule that a rate has, if it is counted here.
pub(super) fn counted_here(rule: Option<Rule<RateRule>>) -> Option<Rule<RateRule>> {
    rule.filter(|rule| rule.shared.is_none())
}
