//! Settings for labels, as users write them.

use std::{collections::HashMap, time::Duration};

use crate::{
    engine::plan::{LabelPlan, LabelRule},
    matching::{ByLabel, Matching, has_star, has_wildcard},
    problem::Problem,
    ticket::normal,
};

/// The settings of labels. A label is the fairness key of a request, such as a tenant or a task queue; requests without
/// a label are bounded by the gate alone. A run is one job whose requests spread over several labels.
///
/// ```
/// use std::time::Duration;
/// use tower_admission::Labels;
///
/// let labels = Labels::new()
///     .max_waiting(20)
///     .max_waiting_per_run(3)
///     .max_wait(Duration::from_secs(20))
///     .label_cap("AppA:Chromium:UAT", 2)
///     .label_cap("AppB:Firefox:UAT", 1)
///     .label_weight("gold", 4);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Labels {
    pub(in crate::config) plan: LabelPlan,
    pub(in crate::config) default_weight: u32,
    pub(in crate::config) matching: Matching,
    pub(in crate::config) caps: Vec<(Name, usize)>,
    pub(in crate::config) weights: Vec<(Name, u32)>,
}

/// A label in any namespace, or in one.
pub(in crate::config) type Name = (Option<String>, String);

const HEAVIEST: u32 = 1_000;
const MOST_LABELS: usize = 10_000_000;
const MOST_METRICS: usize = 1_000;

impl Default for Labels {
    fn default() -> Self {
        Self::new()
    }
}

impl Labels {
    /// The defaults: 100 waiters per label and 5 per run, for at most 30 s; no caps, equal weights.
    pub fn new() -> Self {
        Self {
            plan: LabelPlan::default(),
            default_weight: 1,
            matching: Matching::default(),
            caps: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Bounds the waiters of one label: 100 unless set. Further requests are rejected with
    /// [`LabelQueueFull`](crate::Reason::LabelQueueFull).
    pub const fn max_waiting(mut self, requests: usize) -> Self {
        self.plan.max_waiting = requests;
        self
    }

    /// Bounds the waiters of one run, over all labels: 5 unless set. Further requests are rejected with
    /// [`RunCap`](crate::Reason::RunCap).
    pub const fn max_waiting_per_run(mut self, requests: usize) -> Self {
        self.plan.max_waiting_per_run = requests;
        self
    }

    /// Bounds the wait of a request with a label: 30 s unless set. All other bounds on its wait apply as well.
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.plan.wait = Some(wait);
        self
    }

    /// Bounds the requests in flight of one label, for labels without a cap of their own: 0 is no bound, and the
    /// default.
    ///
    /// Further requests wait, without blocking other labels. Where requests may not wait, they are rejected with
    /// [`LabelCap`](crate::Reason::LabelCap).
    pub const fn cap(mut self, requests: usize) -> Self {
        self.plan.default.cap = unless_zero(requests);
        self
    }

    /// Bounds the requests in flight of this label, in any namespace: 0 is no bound.
    pub fn label_cap(mut self, label: impl Into<String>, requests: usize) -> Self {
        self.caps.push(((None, label.into()), requests));
        self
    }

    /// Bounds the requests in flight of this label in this namespace: 0 is no bound.
    pub fn label_cap_in(mut self, namespace: impl Into<String>, label: impl Into<String>, requests: usize) -> Self {
        self.caps.push(((Some(namespace.into()), label.into()), requests));
        self
    }

    /// Sets the weight of labels without a weight of their own: their turns per turn of a label of weight 1; 1 unless
    /// set.
    pub const fn weight(mut self, turns: u32) -> Self {
        self.default_weight = turns;
        self
    }

    /// Sets the weight of this label: its turns per turn of a label of weight 1, from 1 to 1,000.
    pub fn label_weight(mut self, label: impl Into<String>, turns: u32) -> Self {
        self.weights.push(((None, label.into()), turns));
        self
    }

    /// Sets the weight of this label in this namespace: its turns per turn of a label of weight 1, from 1 to 1,000.
    pub fn label_weight_in(mut self, namespace: impl Into<String>, label: impl Into<String>, turns: u32) -> Self {
        self.weights.push(((Some(namespace.into()), label.into()), turns));
        self
    }

    /// Sets whether a label without a cap or a weight of its own takes over the one of the label without its last
    /// segment, and so on: `app:browser:uat:eu` the one of `app:browser:uat`. True unless set.
    pub const fn trailing_fallback(mut self, on: bool) -> Self {
        self.matching.trailing_fallback = on;
        self
    }

    /// Sets whether a label without a cap or a weight of its own takes over the smallest one of the labels that begin
    /// with it: `app` the smallest of `app:firefox` and `app:chromium`. True unless set. Trailing fallback comes first.
    pub const fn prefix_expand(mut self, on: bool) -> Self {
        self.matching.prefix_expand = on;
        self
    }

    /// Sets whether `*` as a segment of the name of a cap or a weight matches any one segment: `app:*:uat`. False
    /// unless set, and such a name is an error then. Of several that match, the name with the fewest and latest `*`
    /// applies. This pattern comes before the other two.
    pub const fn wildcards(mut self, on: bool) -> Self {
        self.matching.wildcards = on;
        self
    }

    /// Bounds the table of labels: 10,000 entries unless set. Names come from strangers. While all entries are in use,
    /// further labels share one entry, and with it one queue, one cap and one rate.
    ///
    /// A label is in use while it has requests in flight, waiters or workers, or has used part of a rate that still
    /// counts: its own, or the rate of its namespace or budget group if no other label keeps that. So where rates are
    /// set, this should be more than the labels that come in a minute.
    pub const fn max_labels(mut self, labels: usize) -> Self {
        self.plan.max_labels = labels;
        self
    }

    /// Sets whether the slots that workers [report](crate::Admission::report_worker) bound the requests in flight of a
    /// label; they are only shown unless set.
    pub const fn enforce_workers(mut self, enforce: bool) -> Self {
        self.plan.enforce_workers = enforce;
        self
    }

    /// Bounds the labels with metrics of their own, `admission_label_*`: 0 unless set, which publishes none; at most
    /// 1,000.
    ///
    /// Labels that caps, weights and [overrides](crate::Rules::override_key) name have their series from the start, one
    /// for each class that has rules; a name without a namespace is the label without a namespace. The remaining series
    /// go to the first other labels, for as long as the handle lives: a series never changes its label. All further
    /// labels are counted together. Each series takes 4 KiB, and some 45 lines of a scrape.
    ///
    /// ```
    /// use tower_admission::{Admission, Labels};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let labels = Labels::new().label_cap("AppA:Chromium:UAT", 2).metrics(50);
    /// let admission = Admission::builder().labels(labels).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn metrics(mut self, labels: usize) -> Self {
        self.plan.metrics = labels;
        self
    }

    pub(crate) fn into_plan(self, problems: &mut Vec<Problem>) -> LabelPlan {
        let mut plan = self.plan;
        let mut complain = |path: String, message: String| problems.push(Problem::new(path, message));
        plan.default.weight = self.default_weight;
        if !(1..=HEAVIEST).contains(&plan.default.weight) {
            let message = format!("found {}, allowed is 1 to {HEAVIEST}", plan.default.weight);
            complain("labels.weight".into(), message);
        }
        if !(1..=MOST_LABELS).contains(&plan.max_labels) {
            complain("labels.max_labels".into(), format!("found {}, allowed is 1 to {MOST_LABELS}", plan.max_labels));
        }
        if plan.metrics > MOST_METRICS {
            complain("labels.metrics".into(), format!("found {}, allowed is 0 to {MOST_METRICS}", plan.metrics));
        }
        let mut caps = ByLabel::new(self.matching);
        let mut weights = ByLabel::new(self.matching);
        let mut names = Vec::new();
        let usable = |name| usable(name, self.matching);
        for (name, cap) in &self.caps {
            match usable(name) {
                // No bound is the largest one.
                Ok((namespace, label)) => {
                    caps.insert(namespace, label, unless_zero(*cap).unwrap_or(usize::MAX));
                    names.push((namespace, label));
                }
                Err(problem) => complain(place(name, "caps", problem.label), problem.message),
            }
        }
        for (name, weight) in &self.weights {
            match usable(name) {
                Ok((_, label)) if !(1..=HEAVIEST).contains(weight) => {
                    complain(place(name, "weights", label), format!("found {weight}, allowed is 1 to {HEAVIEST}"));
                }
                Ok((namespace, label)) => {
                    weights.insert(namespace, label, *weight);
                    names.push((namespace, label));
                }
                Err(problem) => complain(place(name, "weights", problem.label), problem.message),
            }
        }
        // Each field by itself: a label with a weight of its own may have its cap from a pattern, or from any namespace.
        let rule = |namespace: Option<&str>, label: &str| LabelRule {
            cap: caps.find(namespace, label).map_or(plan.default.cap, bound),
            weight: weights.find(namespace, label).unwrap_or(plan.default.weight),
        };
        let names_one = |label: &str| !(self.matching.wildcards && has_wildcard(label));
        let named = names.iter().filter(|(_, label)| names_one(label));
        plan.named = named.map(|(namespace, label)| (namespace.unwrap_or_default().into(), (*label).into())).collect();
        plan.rules = names
            .into_iter()
            .map(|(namespace, label)| ((namespace.map(Into::into), label.into()), rule(namespace, label)))
            .collect::<HashMap<_, _>>();
        plan.patterns = Some((caps, weights));
        plan
    }
}

/// Why the name of a label can't be used.
struct Unusable<'a> {
    /// The name, unless it is empty.
    label: &'a str,
    message: String,
}

/// The namespace and the label of a setting, in their normal form.
fn usable((namespace, label): &Name, matching: Matching) -> Result<(Option<&str>, &str), Unusable<'_>> {
    let namespace = namespace.as_deref().map(|name| normal(name).unwrap_or_default());
    let Some(name) = normal(label) else {
        return Err(Unusable { label: "", message: format!("found {label:?} as a label, {A_NAME}") });
    };
    let message = match namespace.filter(|namespace| has_star(namespace)) {
        Some(namespace) => format!("found a * in namespace {namespace:?}, allowed is the whole name of a namespace"),
        None if !matching.is_idle(name) => return Ok((namespace, name)),
        None => "found a * that matches nothing, allowed is one as a whole segment, with wildcards = true".to_owned(),
    };
    Err(Unusable { label: name, message })
}

/// Where a setting for a label stands in a file.
fn place((namespace, _): &Name, map: &str, label: &str) -> String {
    let map = if namespace.is_some() { "only" } else { map };
    if label.is_empty() { format!("labels.{map}") } else { format!("labels.{map}.{label}") }
}

const A_NAME: &str = "allowed are 1 to 256 bytes";

/// A cap as a bound, where the largest number is none.
const fn bound(cap: usize) -> Option<usize> {
    if cap == usize::MAX { None } else { Some(cap) }
}

const fn unless_zero(cap: usize) -> Option<usize> {
    if cap == 0 { None } else { Some(cap) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_namespace_before_name() {
        let labels = Labels::new().cap(9).label_cap(" a:b ", 2).label_weight("a:b", 3).label_cap_in("ns", "a:b", 0);
        let mut problems = Vec::new();
        let plan = labels.into_plan(&mut problems);
        assert!(problems.is_empty());
        assert_eq!(plan.rule("other", "a:b"), LabelRule { cap: Some(2), weight: 3 });
        assert_eq!(plan.rule("ns", "a:b"), LabelRule { cap: None, weight: 3 }, "each field by itself");
        assert_eq!(plan.rule("ns", "c"), LabelRule { cap: Some(9), weight: 1 });
    }

    #[test]
    fn every_problem_is_named() {
        let labels = Labels::new().max_labels(0).weight(0).metrics(1_001).label_weight("a", 1_001).label_cap("  ", 1);
        let mut problems = Vec::new();
        labels.into_plan(&mut problems);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "labels.weight: found 0, allowed is 1 to 1000",
                "labels.max_labels: found 0, allowed is 1 to 10000000",
                "labels.metrics: found 1001, allowed is 0 to 1000",
                "labels.caps: found \"  \" as a label, allowed are 1 to 256 bytes",
                "labels.weights.a: found 1001, allowed is 1 to 1000",
            ]
        );
    }
}
