//! The rules that a request has to ask a store for.

use std::{
    any::Any,
    fmt,
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use super::ExhaustedRule;
use crate::{
    Reason, Timestamp,
    plan::rules::{OnStoreFailure, RateRule, Resolved, Rule, WhenFull},
};

/// The kind of a shared rule.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counted {
    LabelCap,
    NamespaceCap,
    LabelRate,
    NamespaceRate,
    Budget,
}

/// Bound of a shared rule.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SharedBound {
    Cap(NonZeroU32),
    Rate(RateRule),
}

/// A rule that is counted for all instances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharedRule {
    pub counts: Counted,
    pub bound: SharedBound,
    pub when_full: WhenFull,
    pub on_store_failure: OnStoreFailure,
}

impl SharedRule {
    /// Returns this rule as any other rule that is full.
    pub(crate) fn exhausted(&self, until: Option<Timestamp>) -> ExhaustedRule {
        let (bound, rate) = match self.bound {
            SharedBound::Cap(bound) => (bound, None),
            SharedBound::Rate(rate) => (rate.max, Some(rate)),
        };
        let (reason, when_full, bound) = (self.reason(), self.when_full, bound.get() as usize);
        ExhaustedRule { reason, when_full, until, rate, bound, meter: None }
    }

    pub(crate) const fn reason(&self) -> Reason {
        match self.counts {
            Counted::LabelCap => Reason::LabelCap,
            Counted::NamespaceCap => Reason::NamespaceCap,
            Counted::LabelRate | Counted::NamespaceRate => Reason::Rate,
            Counted::Budget => Reason::Budget,
        }
    }

    /// Returns the setting, as in `RuleSnapshot`.
    pub(crate) const fn name(&self) -> &'static str {
        match self.counts {
            Counted::LabelCap => "max_in_flight",
            Counted::NamespaceCap => "max_in_flight_per_namespace",
            Counted::LabelRate => "max_per_minute",
            Counted::NamespaceRate => "max_per_minute_per_namespace",
            Counted::Budget => "budget",
        }
    }
}

/// The rules of one label of one class that a request has to ask for, all of them or none.
#[doc(hidden)]
pub struct SharedRules {
    /// Class of work; empty for requests whose class has no rules of its own.
    pub class: Box<str>,
    pub namespace: Box<str>,
    pub label: Box<str>,
    pub group: Option<Box<str>>,
    pub rules: Vec<SharedRule>,
    /// What the runtime made of these rules, for all of their requests; `None` where no store could decide over them together.
    pub prepared: OnceLock<Option<Arc<dyn Any + Send + Sync>>>,
}

impl SharedRules {
    pub(crate) fn of(class: &str, namespace: &str, label: &str, resolved: &Resolved) -> Option<Self> {
        let cap = |counts, rule: Option<Rule<usize>>| {
            let Rule { bound, when_full, shared, .. } = rule?;
            let bound = NonZeroU32::new(u32::try_from(bound).unwrap_or(u32::MAX))?;
            Some(SharedRule { counts, bound: SharedBound::Cap(bound), when_full, on_store_failure: shared? })
        };
        let rate = |counts, rule: Option<Rule<RateRule>>| {
            let Rule { bound, when_full, shared, .. } = rule?;
            Some(SharedRule { counts, bound: SharedBound::Rate(bound), when_full, on_store_failure: shared? })
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

    /// Returns the rule of this kind, of which a label has one at most, and its index.
    pub(crate) fn find(&self, counts: Counted) -> Option<(usize, SharedRule)> {
        self.rules.iter().copied().enumerate().find(|(_, rule)| rule.counts == counts)
    }

    /// Returns what becomes of requests while the store is gone, as a word: that of the strictest rule.
    pub(crate) fn without_store(&self) -> Option<&'static str> {
        self.rules.iter().map(|rule| rule.on_store_failure.way()).min().map(|(_, word)| word)
    }

    /// Fail closed: returns what requests are answered while the store is gone, if one of the rules fails closed.
    pub(crate) fn closes(&self) -> Option<WhenFull> {
        let closed = || self.rules.iter().filter(|rule| rule.on_store_failure == OnStoreFailure::FailClosed);
        let empty = closed().any(|rule| rule.when_full == WhenFull::RespondEmpty);
        closed().next().map(|_| if empty { WhenFull::RespondEmpty } else { WhenFull::Reject })
    }
}

impl fmt::Debug for SharedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRules").field("rules", &self.rules).finish_non_exhaustive()
    }
}
