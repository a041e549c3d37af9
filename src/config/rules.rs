//! Caps, rates and budgets per class of work, as users write them.

use std::{collections::HashMap, num::NonZeroU32};

use crate::{
    engine::rules::{ClassPlan, LimitsPlan, RateMode, RateRule, RulesPlan, Setting, Target, WhenFull},
    problem::Problem,
    ticket::normal,
};

/// How many may be running or waiting at once, and what happens to one more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Cap {
    pub(super) max: usize,
    pub(super) when_full: Option<WhenFull>,
    pub(super) observes: bool,
}

impl Cap {
    /// At most so many; 0 is no bound, and lifts one that a less particular key sets.
    pub const fn of(max: usize) -> Self {
        Self { max, when_full: None, observes: false }
    }

    /// Stops nobody, and says what it would do: one more counts as
    /// [would-be rejected or queued](crate::PartitionSnapshot::would_reject), and not towards this cap.
    pub const fn observe(mut self) -> Self {
        self.observes = true;
        self
    }

    /// What happens to one more.
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = Some(when_full);
        self
    }

    fn setting(self, default: WhenFull) -> Option<Setting<usize>> {
        let when_full = self.when_full.unwrap_or(default);
        (self.max > 0).then_some(Setting { bound: self.max, when_full, observes: self.observes })
    }
}

impl From<usize> for Cap {
    fn from(max: usize) -> Self {
        Self::of(max)
    }
}

/// How many may start per minute, and what happens to one more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub struct Rate {
    pub(super) max: u32,
    pub(super) mode: Option<RateMode>,
    pub(super) when_full: Option<WhenFull>,
    pub(super) observes: bool,
}

impl Rate {
    /// At most so many per minute, from 1 on.
    pub const fn per_minute(max: u32) -> Self {
        Self { max, mode: None, when_full: None, observes: false }
    }

    /// Stops nobody, and says what it would do; see [`Cap::observe`].
    pub const fn observe(mut self) -> Self {
        self.observes = true;
        self
    }

    /// How they are counted: [by minutes of the clock](RateMode::Minute) unless set.
    pub const fn mode(mut self, mode: RateMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Evenly, with a second's worth at once after a pause; see [`RateMode::Smooth`].
    pub fn smooth(self) -> Self {
        let max = NonZeroU32::new(self.max).unwrap_or(NonZeroU32::MIN);
        self.mode(RateMode::Smooth { burst: RateRule::second_of(max) })
    }

    /// What happens to one more.
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = Some(when_full);
        self
    }

    fn setting(self, path: &str, problems: &mut Vec<Problem>) -> Option<Setting<RateRule>> {
        let Some(max) = NonZeroU32::new(self.max) else {
            problems
                .push(Problem::new(path, "found 0, allowed is 1 or more; a rate that lets nothing start is a mistake"));
            return None;
        };
        let bound = RateRule { max, mode: self.mode.unwrap_or_default() };
        Some(Setting { bound, when_full: self.when_full.unwrap_or(WhenFull::Reject), observes: self.observes })
    }
}

impl From<u32> for Rate {
    fn from(max: u32) -> Self {
        Self::per_minute(max)
    }
}

/// What holds for a class of work, or for one key of it. What isn't set is looked up elsewhere; see [`Rules`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Limits {
    pub(crate) in_flight: Option<Cap>,
    pub(crate) in_flight_per_namespace: Option<Cap>,
    pub(crate) per_minute: Option<Rate>,
    pub(crate) per_minute_per_namespace: Option<Rate>,
    pub(crate) budget: Option<(String, Rate)>,
    pub(crate) pending: Option<Cap>,
}

/// How many of a class that must fail fast may be pending per label, unless told otherwise.
pub(crate) const PENDING: usize = 1_024;

impl Limits {
    /// No limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many of one label run at once. More of it wait, and others go on.
    pub fn max_in_flight(mut self, cap: impl Into<Cap>) -> Self {
        self.in_flight = Some(cap.into());
        self
    }

    /// How many of one namespace run at once, over all its labels. More are rejected unless the cap says otherwise.
    pub fn max_in_flight_per_namespace(mut self, cap: impl Into<Cap>) -> Self {
        self.in_flight_per_namespace = Some(cap.into());
        self
    }

    /// How many of one label start per minute. More are rejected unless the rate says otherwise.
    pub fn max_per_minute(mut self, rate: impl Into<Rate>) -> Self {
        self.per_minute = Some(rate.into());
        self
    }

    /// How many of one namespace start per minute, over all its labels. More are rejected unless the rate says otherwise.
    pub fn max_per_minute_per_namespace(mut self, rate: impl Into<Rate>) -> Self {
        self.per_minute_per_namespace = Some(rate.into());
        self
    }

    /// A rate that all labels of a namespace share that name the same group, whatever their class: what a downstream
    /// service takes. More are rejected unless the rate says otherwise.
    pub fn budget(mut self, group: impl Into<String>, rate: impl Into<Rate>) -> Self {
        self.budget = Some((group.into(), rate.into()));
        self
    }

    /// How many of one label are waiting or running. More are rejected with
    /// [`PendingFull`](crate::Reason::PendingFull), so that work that somebody waits for fails fast.
    pub fn max_pending(mut self, cap: impl Into<Cap>) -> Self {
        self.pending = Some(cap.into());
        self
    }

    /// At most 1,024 of one label are waiting or running.
    pub fn fail_fast(self) -> Self {
        self.max_pending(PENDING)
    }

    fn plan(&self, path: &str, problems: &mut Vec<Problem>) -> LimitsPlan {
        let mut rate = |name: &str, rate: Option<Rate>| rate?.setting(&format!("{path}.{name}"), problems);
        let per_minute = rate("max_per_minute", self.per_minute);
        let per_minute_per_namespace = rate("max_per_minute_per_namespace", self.per_minute_per_namespace);
        let group_rate = rate("budget", self.budget.as_ref().map(|(_, rate)| *rate));
        let group = self.budget.as_ref().and_then(|(group, _)| normal(group));
        if self.budget.is_some() && group.is_none() {
            problems.push(Problem::new(
                format!("{path}.budget"),
                "found no name for the group, allowed are 1 to 256 bytes",
            ));
        }
        LimitsPlan {
            in_flight: self.in_flight.map(|cap| cap.setting(WhenFull::Wait)),
            in_flight_per_namespace: self.in_flight_per_namespace.map(|cap| cap.setting(WhenFull::Reject)),
            per_minute,
            per_minute_per_namespace,
            budget: group.map(Into::into).zip(group_rate),
            pending: self.pending.map(|cap| cap.setting(WhenFull::Reject)),
        }
    }
}

/// Caps, rates and budgets for classes of work.
///
/// Each [class](crate::Ticket::class) has limits of its own on the same labels. What a class says as a whole is overridden by
/// key; per field, the first of these that says something holds: `namespace:label`, `namespace:*`, `label`, `*`, the class.
///
/// ```
/// use tower_admission::{Cap, Limits, Rate, Rules, WhenFull};
///
/// let rules = Rules::new()
///     .class("workflow", Limits::new().max_in_flight(25).max_per_minute(600))
///     .class("query", Limits::new().fail_fast())
///     .over("production:payments", "workflow", Limits::new()
///         .max_in_flight(Cap::of(8).when_full(WhenFull::Empty))
///         .budget("downstream-openai", Rate::per_minute(600).smooth()))
///     .over("production:*", "workflow", Limits::new().max_in_flight_per_namespace(300));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Rules {
    pub(crate) others: Limits,
    pub(crate) classes: Vec<(String, Limits)>,
    pub(crate) overrides: Vec<(Key, String, Limits)>,
}

/// Whom an override is for: text as in a file, or a label that may contain a colon.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Key {
    Text(String),
    Label { namespace: Option<String>, label: String },
}

/// The name under which limits for requests of no class with rules are overridden.
pub(crate) const OTHERS: &str = "*";

impl Rules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// What holds for requests of a class.
    pub fn class(mut self, class: impl Into<String>, limits: Limits) -> Self {
        self.classes.push((class.into(), limits));
        self
    }

    /// What holds for requests whose class has no rules, or that have no class. Overridden as class `*`.
    pub fn others(mut self, limits: Limits) -> Self {
        self.others = limits;
        self
    }

    /// What holds for one key of a class: `namespace:label`, `namespace:*`, `label`, or `*`. The first colon separates the
    /// namespace.
    pub fn over(mut self, key: impl Into<String>, class: impl Into<String>, limits: Limits) -> Self {
        self.overrides.push((Key::Text(key.into()), class.into(), limits));
        self
    }

    /// What holds for one label of a class, in one namespace or in any; the label may contain colons.
    pub fn over_label(
        mut self,
        namespace: Option<&str>,
        label: impl Into<String>,
        class: impl Into<String>,
        limits: Limits,
    ) -> Self {
        let key = Key::Label { namespace: namespace.map(Into::into), label: label.into() };
        self.overrides.push((key, class.into(), limits));
        self
    }

    pub(crate) fn into_plan(self, problems: &mut Vec<Problem>) -> RulesPlan {
        if self == Self::default() {
            return RulesPlan::default();
        }
        let mut classes = vec![ClassPlan { limits: self.others.plan("classes.*", problems), ..ClassPlan::default() }];
        for (name, limits) in &self.classes {
            let path = format!("classes.{name}");
            let limits = limits.plan(&path, problems);
            match normal(name).filter(|name| *name != OTHERS) {
                None => {
                    problems.push(Problem::new(path, format!("found {name:?} as a name, allowed are 1 to 256 bytes")))
                }
                Some(name) if classes.iter().any(|known| *known.name == *name) => {
                    problems.push(Problem::new(path, "found twice, each class is allowed once"));
                }
                Some(name) => classes.push(ClassPlan { name: name.into(), limits, overrides: HashMap::new() }),
            }
        }
        if classes.len() > MOST_CLASSES {
            let message = format!("found {}, allowed are {} at most", classes.len() - 1, MOST_CLASSES - 1);
            problems.push(Problem::new("classes", message));
        }
        for (key, class, limits) in &self.overrides {
            let path = format!("{}.{}.{class}", key.setting(), key.text());
            let limits = limits.plan(&path, problems);
            let known =
                classes.iter_mut().find(|known| *known.name == **class || class == OTHERS && known.name.is_empty());
            let Some(known) = known else {
                problems.push(Problem::new(
                    path,
                    format!("found class {class:?}, allowed are those under classes, and {OTHERS}"),
                ));
                continue;
            };
            match key.target() {
                None => problems.push(Problem::new(path, "found an empty name, allowed are 1 to 256 bytes")),
                Some(target) => {
                    if known.overrides.insert(target, limits).is_some() {
                        problems.push(Problem::new(path, "found twice, each key is allowed once"));
                    }
                }
            }
        }
        check_groups(&classes, problems);
        RulesPlan { classes }
    }
}

/// Kinds of work are told apart by small numbers, and those with rules are the first of them.
const MOST_CLASSES: usize = 32;

impl Key {
    const fn setting(&self) -> &'static str {
        match self {
            Self::Text(_) => "overrides",
            Self::Label { .. } => "label_overrides",
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Label { namespace: None, label } => label.clone(),
            Self::Label { namespace: Some(namespace), label } => format!("{namespace}:{label}"),
        }
    }

    fn target(&self) -> Option<Target> {
        let label = |label: &str| Some(Box::from(normal(label)?));
        match self {
            Self::Text(text) => match text.split_once(':') {
                None if text.trim() == "*" => Some(Target::Any),
                None => Some(Target::Label(label(text)?)),
                Some((namespace, rest)) if rest.trim() == "*" => {
                    Some(Target::Namespace(normal(namespace).unwrap_or_default().into()))
                }
                Some((namespace, rest)) => {
                    let namespace = normal(namespace).unwrap_or_default().into();
                    Some(Target::Exact { namespace, label: label(rest)? })
                }
            },
            Self::Label { namespace: None, label: name } => Some(Target::Label(label(name)?)),
            Self::Label { namespace: Some(namespace), label: name } => {
                let namespace = normal(namespace).unwrap_or_default().into();
                Some(Target::Exact { namespace, label: label(name)? })
            }
        }
    }
}

/// A group has one maximum per namespace: wherever it is named, the same.
fn check_groups(classes: &[ClassPlan], problems: &mut Vec<Problem>) {
    let mut known: Vec<(&str, Option<&str>, RateRule)> = Vec::new();
    for class in classes {
        let whole = class.limits.budget.iter().map(|budget| (None, budget));
        let single = class.overrides.iter().filter_map(|(target, limits)| {
            let namespace = match target {
                Target::Exact { namespace, .. } | Target::Namespace(namespace) => Some(&**namespace),
                Target::Label(_) | Target::Any => None,
            };
            Some((namespace, limits.budget.as_ref()?))
        });
        for (namespace, (group, setting)) in whole.chain(single) {
            let conflict = known.iter().find(|(other, elsewhere, rule)| {
                *other == &**group
                    && *rule != setting.bound
                    && (namespace.is_none() || elsewhere.is_none() || namespace == *elsewhere)
            });
            if let Some((_, _, rule)) = conflict {
                let (one, two) = (rule.max.min(setting.bound.max), rule.max.max(setting.bound.max));
                let found = if one == two { "two modes".to_owned() } else { format!("the maxima {one} and {two}") };
                let message = format!("found {found}, allowed is one for a group in a namespace");
                let problem = Problem::new(format!("budget {group}"), message);
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            known.push((group, namespace, setting.bound));
        }
    }
}
