//! Settings for labels, as users write them.

use std::{collections::BTreeMap, fmt::Display, ops::RangeInclusive, time::Duration};

use crate::{Derived, declare::settings};
use tower_admission_engine::{
    Problem, normal,
    plan::{
        LabelPlan, LabelRule,
        matching::{ByLabel, Matching, has_star, has_wildcard},
    },
};

settings! {
    /// The settings of labels: `[labels]` of a file. A label is the fairness key of a request, such as a tenant or a
    /// task queue; requests without a label are bounded by the gate alone. A run is one job whose requests spread over
    /// several labels.
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
    #[must_use]
    pub struct Labels with setters {
        /// How many requests of one label may wait.
        ///
        /// 100 unless set. Further requests are rejected with [`LabelQueueFull`](tower_admission_engine::Reason::LabelQueueFull). The
        /// same name in another namespace, or in a class that has rules of its own, is another label.
        pub max_waiting: usize = 100 => |requests: usize| requests,
        /// How many requests of one run may wait, over all labels.
        ///
        /// 5 unless set. Further requests are rejected with [`RunCap`](tower_admission_engine::Reason::RunCap).
        pub max_waiting_per_run: usize = 5 => |requests: usize| requests,
        /// The maximum wait of a request with a label.
        ///
        /// 30 s unless set. All other bounds on its wait apply as well.
        pub max_wait: Duration = Duration::from_secs(30) => |wait: Duration| wait,
        /// How many requests of a label without a cap of its own may run; `"none"` is no bound.
        ///
        /// No bound unless set. Further requests wait, without blocking other labels. Where requests may not wait, they
        /// are rejected with [`LabelCap`](tower_admission_engine::Reason::LabelCap). For a 429 at once, whether they may wait or
        /// not, set [`caps_reject`](Self::caps_reject).
        ///
        /// Counted in this process alone, also with a store. For a cap over all instances use
        /// [`Rules::override_key(label, "*", …)`](tower_admission_engine::settings::Rules::override_key).
        pub cap: Option<usize> = None => |requests: impl Into<Option<usize>>| requests.into(),
        /// How many requests of these labels may run, in any namespace; `"none"` is no bound.
        pub caps: BTreeMap<String, Option<usize>> = BTreeMap::new(),
        /// Whether a request that comes while its label is at its cap is rejected at once (429 over HTTP) instead of waiting.
        ///
        /// False unless set. It is for the caps of this table; a [rule](tower_admission_engine::settings::Cap::reject) says so for
        /// itself. A request that waits for the limit keeps its place, also where its label is full by then.
        ///
        /// ```
        /// // Four requests of each label run, a fifth is told to come back.
        /// let labels = tower_admission::Labels::new().cap(4).caps_reject(true);
        /// ```
        pub caps_reject: bool = false => |reject: bool| reject,
        /// The weight of labels without a weight of their own: turns per turn of a label of weight 1.
        ///
        /// 1 unless set.
        pub weight: u32 = 1 => |turns: u32| turns,
        /// The weights of these labels, in any namespace, from 1 to 1,000.
        pub weights: BTreeMap<String, u32> = BTreeMap::new(),
        /// Settings for labels of one namespace: one `[[labels.only]]` each.
        pub only: Vec<LabelConfig> = Vec::new(),
        /// Whether a label without a setting of its own takes over that of the label without its last segment, and so
        /// on.
        ///
        /// True unless set: `app:browser:uat:eu` takes over the cap or the weight of `app:browser:uat`.
        pub trailing_fallback: bool = true => |on: bool| on,
        /// Whether a label without a setting of its own takes over the smallest one of the labels that begin with it.
        ///
        /// True unless set: `app` takes over the smallest cap of `app:firefox` and `app:chromium`. Trailing fallback
        /// comes first.
        pub prefix_expand: bool = true => |on: bool| on,
        /// Whether `*` as a segment of a name under `caps`, `weights` and `only` matches any one segment;
        /// such a name is an error otherwise.
        ///
        /// False unless set. `app:*:uat` is such a name. Of several that match, the name with the fewest and latest `*`
        /// applies. This pattern comes before the other two.
        pub wildcards: bool = false => |on: bool| on,
        /// How many labels the table of labels has room for.
        ///
        /// 10,000 unless set. Names come from strangers. While all entries are in use, further labels share one entry,
        /// and with it one queue, one cap and one rate.
        ///
        /// A label is in use while it has requests in flight, waiters or workers, or has used part of a rate that still
        /// counts: its own, or the rate of its namespace or budget group if no other label keeps that. So where rates
        /// are set, this should be more than the labels that come in a minute.
        pub max_labels: usize = 10_000 => |labels: usize| labels,
        /// Whether the slots that workers report bound the requests in flight of a label.
        ///
        /// They are only shown unless set; see [`report_worker`](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.report_worker).
        pub enforce_workers: bool = false => |enforce: bool| enforce,
        /// How many labels have metrics of their own, at most 1,000; 0 for none.
        ///
        /// None unless set. The metrics are `admission_label_*`.
        ///
        /// Labels that caps, weights and [overrides](tower_admission_engine::settings::Rules::override_key) name have their series from the start,
        /// one for each class that has rules; a name without a namespace is the label without a namespace. The
        /// remaining series go to the first other labels, for as long as the handle lives: a series never changes its
        /// label. All further labels are counted together. Each series takes 4 KiB, and some 45 lines of a scrape.
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
        pub metrics: usize = 0 => |labels: usize| labels,
    }
}

settings! {
    /// The settings of one label of one namespace: one `[[labels.only]]` of a file.
    pub struct LabelConfig {
        /// The namespace; `""` for labels without one.
        pub namespace: String = String::new(),
        /// The label. Has to be set.
        pub label: String = String::new(),
        /// How many requests of the label may run; `"none"` is no bound, and `"auto"` what other settings say.
        pub cap: Derived<Option<usize>> = Derived::Auto,
        /// The weight of the label: turns per turn of a label of weight 1, from 1 to 1,000.
        pub weight: Option<u32> = None,
    }
}

/// A label in any namespace, or in one.
type Name<'a> = (Option<&'a str>, &'a str);

const HEAVIEST: u32 = 1_000;
const MOST_LABELS: usize = 10_000_000;
const MOST_METRICS: usize = 1_000;

impl Labels {
    /// The defaults: 100 waiters per label and 5 per run, for at most 30 s; no caps, equal weights.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bounds the requests in flight of this label, in any namespace: `None` is no bound. As [`cap`](Self::cap), in this process alone.
    pub fn label_cap(mut self, label: impl Into<String>, requests: impl Into<Option<usize>>) -> Self {
        self.caps.insert(label.into(), requests.into());
        self
    }

    /// Bounds the requests in flight of this label in this namespace: `None` is no bound.
    pub fn label_cap_in(
        mut self,
        namespace: impl Into<String>,
        label: impl Into<String>,
        requests: impl Into<Option<usize>>,
    ) -> Self {
        let (namespace, label) = (namespace.into(), label.into());
        self.only.push(LabelConfig { namespace, label, cap: Derived::Set(requests.into()), weight: None });
        self
    }

    /// Sets the weight of this label: its turns per turn of a label of weight 1, from 1 to 1,000.
    pub fn label_weight(mut self, label: impl Into<String>, turns: u32) -> Self {
        self.weights.insert(label.into(), turns);
        self
    }

    /// Sets the weight of this label in this namespace: its turns per turn of a label of weight 1, from 1 to 1,000.
    pub fn label_weight_in(mut self, namespace: impl Into<String>, label: impl Into<String>, turns: u32) -> Self {
        let (namespace, label) = (namespace.into(), label.into());
        self.only.push(LabelConfig { namespace, label, cap: Derived::Auto, weight: Some(turns) });
        self
    }

    pub(crate) const fn matching(&self) -> Matching {
        let Self { trailing_fallback, prefix_expand, wildcards, .. } = *self;
        Matching { trailing_fallback, prefix_expand, wildcards }
    }

    /// What is set under a name for labels of any namespace, and then for labels of one, as far as it can be used: `wrong` says
    /// what is wrong with a value.
    fn by_name<'a, T: Copy>(
        &'a self,
        (map, any): (&str, &'a BTreeMap<String, T>),
        one: impl Fn(&LabelConfig) -> Option<T>,
        wrong: impl Fn(T) -> Option<String>,
        problems: &mut Vec<Problem>,
    ) -> Vec<(Name<'a>, T)> {
        let any = any.iter().map(|(label, value)| ((None, label.as_str()), *value));
        let name = |only: &'a LabelConfig| (Some(only.namespace.as_str()), only.label.as_str());
        let all = any.chain(self.only.iter().filter_map(|only| Some((name(only), one(only)?))));
        let found = all.filter_map(|(name, value)| {
            let (label, message) = match usable(name, self.matching()) {
                Ok(name) => match wrong(value) {
                    None => return Some((name, value)),
                    Some(message) => (name.1, message),
                },
                Err(unusable) => unusable,
            };
            problems.push(Problem::new(place(name, map, label), message));
            None
        });
        found.collect()
    }

    pub(crate) fn to_plan(&self, problems: &mut Vec<Problem>) -> LabelPlan {
        let default = LabelRule { cap: self.cap, weight: self.weight };
        let of_all = [
            ("labels.cap", zero(self.cap)),
            ("labels.weight", light_or_heavy(self.weight)),
            ("labels.max_labels", outside(self.max_labels, 1..=MOST_LABELS)),
            ("labels.metrics", outside(self.metrics, 0..=MOST_METRICS)),
        ];
        problems.extend(of_all.into_iter().filter_map(|(path, message)| Some(Problem::new(path, message?))));
        let matching = self.matching();
        // An entry without a label is a mistake, also if it sets nothing.
        let is_blank = |only: &LabelConfig| only.label.is_empty() && only.weight.is_none();
        let cap_of = |only: &LabelConfig| only.cap.get().copied().or_else(|| is_blank(only).then_some(None));
        let capped = self.by_name(("caps", &self.caps), cap_of, zero, problems);
        let weighted = self.by_name(("weights", &self.weights), |only| only.weight, light_or_heavy, problems);
        let names: Vec<Name<'_>> = capped.iter().map(|it| it.0).chain(weighted.iter().map(|it| it.0)).collect();
        let mut caps = ByLabel::new(matching);
        for ((namespace, label), cap) in capped {
            // No bound is the largest one.
            caps.insert(namespace, label, cap.unwrap_or(usize::MAX));
        }
        let mut weights = ByLabel::new(matching);
        for ((namespace, label), weight) in weighted {
            weights.insert(namespace, label, weight);
        }
        // Each field by itself: a label with a weight of its own may have its cap from a pattern, or from any namespace.
        let rule = |namespace: Option<&str>, label: &str| LabelRule {
            cap: caps.find(namespace, label).map_or(default.cap, |cap| (cap < usize::MAX).then_some(cap)),
            weight: weights.find(namespace, label).unwrap_or(default.weight),
        };
        let names_one = |label: &str| !(matching.wildcards && has_wildcard(label));
        let named = names.iter().filter(|(_, label)| names_one(label));
        LabelPlan {
            max_labels: self.max_labels,
            max_waiting: self.max_waiting,
            max_waiting_per_run: self.max_waiting_per_run,
            wait: Some(self.max_wait),
            default,
            caps_reject: self.caps_reject,
            enforce_workers: self.enforce_workers,
            metrics: self.metrics,
            named: named.map(|(namespace, label)| (namespace.unwrap_or_default().into(), (*label).into())).collect(),
            rules: names
                .iter()
                .map(|&(namespace, label)| ((namespace.map(Into::into), label.into()), rule(namespace, label)))
                .collect(),
            patterns: Some((caps, weights)),
        }
    }
}

/// The namespace and the label of a setting, in their normal form; or the label, unless it is empty, and why it can't be used.
fn usable((namespace, label): Name<'_>, matching: Matching) -> Result<Name<'_>, (&str, String)> {
    let namespace = namespace.map(|name| normal(name).unwrap_or_default());
    let name = normal(label).ok_or_else(|| ("", format!("found {label:?} as a label, allowed are 1 to 256 bytes")))?;
    let message = match namespace.filter(|namespace| has_star(namespace)) {
        Some(namespace) => format!("found a * in namespace {namespace:?}, allowed is the whole name of a namespace"),
        None if !matching.is_idle(name) => return Ok((namespace, name)),
        None => "found a * that matches nothing, allowed is one as a whole segment, with wildcards = true".to_owned(),
    };
    Err((name, message))
}

/// Where a setting for a label stands in a file.
fn place((namespace, _): Name<'_>, map: &str, label: &str) -> String {
    let map = if namespace.is_some() { "only" } else { map };
    if label.is_empty() { format!("labels.{map}") } else { format!("labels.{map}.{label}") }
}

/// It would let a label through that is meant to be blocked.
fn zero(cap: Option<usize>) -> Option<String> {
    (cap == Some(0)).then(|| "found 0, allowed is 1 or more, or none for no bound".to_owned())
}

fn light_or_heavy(weight: u32) -> Option<String> {
    outside(weight, 1..=HEAVIEST)
}

fn outside<T: Copy + PartialOrd + Display>(found: T, allowed: RangeInclusive<T>) -> Option<String> {
    let (least, most) = (allowed.start(), allowed.end());
    (!allowed.contains(&found)).then(|| format!("found {found}, allowed is {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_by_namespace_before_name() {
        let labels = Labels::new().cap(9).label_cap(" a:b ", 2).label_weight("a:b", 3).label_cap_in("ns", "a:b", None);
        let mut problems = Vec::new();
        let plan = labels.to_plan(&mut problems);
        assert!(problems.is_empty());
        assert_eq!(plan.rule("other", "a:b"), LabelRule { cap: Some(2), weight: 3 });
        assert_eq!(plan.rule("ns", "a:b"), LabelRule { cap: None, weight: 3 }, "each field by itself");
        assert_eq!(plan.rule("ns", "c"), LabelRule { cap: Some(9), weight: 1 });
    }

    #[test]
    fn every_problem_is_named() {
        let labels = Labels::new().max_labels(0).weight(0).metrics(1_001).label_weight("a", 1_001).label_cap("  ", 1);
        let labels = labels.label_weight_in("ns", "", 2);
        let mut problems = Vec::new();
        labels.to_plan(&mut problems);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "labels.weight: found 0, allowed is 1 to 1000",
                "labels.max_labels: found 0, allowed is 1 to 10000000",
                "labels.metrics: found 1001, allowed is 0 to 1000",
                "labels.caps: found \"  \" as a label, allowed are 1 to 256 bytes",
                "labels.weights.a: found 1001, allowed is 1 to 1000",
                "labels.only: found \"\" as a label, allowed are 1 to 256 bytes",
            ]
        );
    }
}
