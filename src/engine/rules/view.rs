//! What can be seen of rules from outside.

use super::{Rate, RateRule, Resolved, Rule, Rules, Source};
use crate::{engine::labels::Label, time::Timestamp};

/// One rule that counts a label.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RuleSnapshot {
    /// The setting: `max_in_flight`, `max_in_flight_per_namespace`, `max_per_minute`, `max_per_minute_per_namespace`,
    /// `budget` or `max_pending` of a class; `label_cap` of [`Labels`](crate::Labels), or `worker_slots` where these bind.
    pub rule: &'static str,
    /// How many it allows.
    pub bound: usize,
    /// How many are counted now, or were in this minute; in this process, if the rule is shared.
    pub used: usize,
    /// How many more it allows now.
    pub remaining: usize,
    /// What happens to one more: `wait`, `reject` or `empty`.
    pub when_full: &'static str,
    /// The key that it was found under: `namespace:label`, `namespace:*`, `label`, `*` or `class`; `labels` or `workers`
    /// for what those say.
    pub source: &'static str,
    /// Whether it is counted for all instances together. What others use of it is not known here.
    pub shared: bool,
    /// The group of a budget.
    pub group: Option<String>,
}

impl Source {
    /// The form of the key.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "namespace:label",
            Self::Namespace => "namespace:*",
            Self::Label => "label",
            Self::Any => "*",
            Self::Class => "class",
        }
    }
}

impl RuleSnapshot {
    /// Whether it counts starts rather than what runs.
    pub(in crate::engine) fn is_rate(&self) -> bool {
        matches!(self.rule, "budget" | "max_per_minute" | "max_per_minute_per_namespace")
    }

    /// A bound on what runs at once, of which more wait.
    pub(in crate::engine) const fn cap(rule: &'static str, bound: usize, used: usize, source: &'static str) -> Self {
        let remaining = bound.saturating_sub(used);
        Self { rule, bound, used, remaining, when_full: "wait", source, shared: false, group: None }
    }
}

impl Rules {
    /// Whether a class of this name has rules of its own.
    #[cfg(feature = "introspect")]
    pub(in crate::engine) fn has_class(&self, name: &str) -> bool {
        self.plan.classes.iter().any(|class| *class.name == *name)
    }

    /// The name of a class; empty for those without rules of their own.
    pub(in crate::engine) fn class_name(&self, class: u8) -> &str {
        self.plan.classes.get(usize::from(class)).map_or("", |class| &class.name)
    }

    /// Each rule that counts a label.
    pub(in crate::engine) fn view(&self, now: Timestamp, label: &Label) -> Vec<RuleSnapshot> {
        let Some(account) = label.account.as_deref() else { return Vec::new() };
        let Resolved { in_flight, in_flight_per_namespace, per_minute, per_minute_per_namespace, budget, pending } =
            &account.rules;
        let namespace = self.meters.get(account.namespace);
        let group = account.group.map(|group| &self.meters.get(group).rate);
        let budget_rule = budget.as_ref().zip(group).and_then(|((name, rule), used)| {
            let one = rate("budget", now, Some(*rule), used)?;
            Some(RuleSnapshot { group: Some(name.to_string()), ..one })
        });
        [
            cap("max_in_flight", *in_flight, label.running),
            cap("max_in_flight_per_namespace", *in_flight_per_namespace, namespace.running),
            rate("max_per_minute", now, *per_minute, &account.rate),
            rate("max_per_minute_per_namespace", now, *per_minute_per_namespace, &namespace.rate),
            budget_rule,
            cap("max_pending", *pending, label.running + label.waiting),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn cap(name: &'static str, rule: Option<Rule<usize>>, used: usize) -> Option<RuleSnapshot> {
    let Rule { bound, when_full, source, shared } = rule?;
    let shared = shared.is_some();
    let when_full = when_full.as_str();
    Some(RuleSnapshot { when_full, shared, ..RuleSnapshot::cap(name, bound, used, source.as_str()) })
}

fn rate(name: &'static str, now: Timestamp, rule: Option<Rule<RateRule>>, used: &Rate) -> Option<RuleSnapshot> {
    let Rule { bound, when_full, source, shared } = rule?;
    Some(RuleSnapshot {
        rule: name,
        bound: bound.max.get() as usize,
        used: used.count(now) as usize,
        remaining: used.remaining(now, bound) as usize,
        when_full: when_full.as_str(),
        source: source.as_str(),
        shared: shared.is_some(),
        group: None,
    })
}
