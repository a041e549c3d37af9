//! Rules as they are seen from outside.

use std::borrow::Cow;

use super::{Rate, Rules};
use crate::{
    Reason, Timestamp,
    plan::rules::{RateRule, Resolved, Rule, Source},
    quota::label::Label,
    tokens::ExhaustedRule,
};

/// One rule that counts a label.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Rule"))]
#[non_exhaustive]
pub struct RuleSnapshot {
    /// The setting: `max_in_flight`, `max_in_flight_per_namespace`, `max_per_minute`, `max_per_minute_per_namespace`,
    /// `budget` or `max_pending` of a class; `label_cap` of [labels][Labels], or `worker_slots` where the slots of
    /// workers bind.
    ///
    /// [Labels]: https://docs.rs/tower-admission/latest/tower_admission/struct.Labels.html
    pub rule: Cow<'static, str>,
    /// Requests that the rule allows.
    pub bound: usize,
    /// Requests that are counted now, or were in this minute; in this process, if the rule is shared.
    pub used: usize,
    /// Further requests that the rule allows now.
    pub remaining: usize,
    /// What happens to one more request: `wait`, `reject` or `empty`; or would happen, if the rule observes.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["wait", "reject", "empty"])))]
    pub when_full: Cow<'static, str>,
    /// Whether the rule observes: it only counts what it would do. A request that it would have rejected is not counted
    /// as used.
    pub observes: bool,
    /// Key under which the rule was found: `namespace:label`, `namespace:*`, `label`, `*` or `class`; `labels` or
    /// `workers` for rules from those settings.
    pub source: Cow<'static, str>,
    /// Whether the rule is counted for all instances together. What other instances use of it is not known here.
    pub shared: bool,
    /// The group of a budget.
    pub group: Option<String>,
}

impl Source {
    /// Returns the form of the key.
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
    /// Whether the rule counts starts rather than running requests.
    pub(crate) fn is_rate(&self) -> bool {
        matches!(&*self.rule, "budget" | "max_per_minute" | "max_per_minute_per_namespace")
    }

    /// Returns a bound on running requests, beyond which requests wait.
    pub(crate) fn cap(rule: &'static str, bound: usize, used: usize, source: &'static str) -> Self {
        let remaining = bound.saturating_sub(used);
        Self {
            rule: rule.into(),
            bound,
            used,
            remaining,
            when_full: "wait".into(),
            source: source.into(),
            ..Self::default()
        }
    }
}

impl Rules {
    /// Returns how much is used of a rule that is full.
    pub(crate) fn used(&self, now: Timestamp, label: &Label, full: &ExhaustedRule) -> usize {
        let Some(key_meters) = label.key_meters.as_deref() else { return 0 };
        match (full.reason, full.meter) {
            (Reason::PendingFull, _) => label.running + label.waiting,
            (Reason::NamespaceCap, _) => self.meters.get(key_meters.namespace).running,
            (Reason::Budget | Reason::Rate, Some((meter, _))) => self.meters.get(meter).rate.count(now) as usize,
            (Reason::Rate, None) => key_meters.rate.count(now) as usize,
            _ => label.running,
        }
    }

    /// Returns each rule that counts a label.
    pub(crate) fn view(&self, now: Timestamp, label: &Label) -> Vec<RuleSnapshot> {
        let Some(key_meters) = label.key_meters.as_deref() else { return Vec::new() };
        let Resolved { in_flight, in_flight_per_namespace, per_minute, per_minute_per_namespace, budget, pending } =
            &key_meters.rules;
        let namespace = self.meters.get(key_meters.namespace);
        let group = key_meters.group.map(|group| self.meters.get(group));
        let budget_rule = budget.as_ref().zip(group).and_then(|((name, rule), meter)| {
            let one = rate("budget", now, Some(*rule), meter.rate_of(*rule))?;
            Some(RuleSnapshot { group: Some(name.to_string()), ..one })
        });
        [
            cap("max_in_flight", *in_flight, |rule| label.running_for(rule)),
            cap("max_in_flight_per_namespace", *in_flight_per_namespace, |rule| namespace.running_for(rule)),
            rate("max_per_minute", now, *per_minute, &key_meters.rate),
            per_minute_per_namespace
                .and_then(|rule| rate("max_per_minute_per_namespace", now, Some(rule), namespace.rate_of(rule))),
            budget_rule,
            cap("max_pending", *pending, |rule| label.inside_for(rule)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn cap(name: &'static str, rule: Option<Rule<usize>>, used: impl FnOnce(Rule<usize>) -> usize) -> Option<RuleSnapshot> {
    let rule = rule?;
    let used = used(rule);
    Some(RuleSnapshot { used, remaining: rule.bound.saturating_sub(used), ..snapshot(name, &rule, rule.bound) })
}

fn rate(name: &'static str, now: Timestamp, rule: Option<Rule<RateRule>>, used: &Rate) -> Option<RuleSnapshot> {
    let rule = rule?;
    let (bound, remaining) = (rule.bound.max.get() as usize, used.remaining(now, rule.bound) as usize);
    Some(RuleSnapshot { used: used.count(now) as usize, remaining, ..snapshot(name, &rule, bound) })
}

fn snapshot<B>(name: &'static str, rule: &Rule<B>, bound: usize) -> RuleSnapshot {
    let &Rule { when_full, observes, source, shared, .. } = rule;
    let (when_full, source) = (when_full.as_str().into(), source.as_str().into());
    let shared = shared.is_some();
    RuleSnapshot { rule: name.into(), bound, when_full, observes, source, shared, ..RuleSnapshot::default() }
}
