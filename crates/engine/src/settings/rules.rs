//! Caps, rates and budgets per class of work, as users write them.

use std::collections::HashMap;

use super::limits::ClassLimits;
use crate::{
    Problem, normal,
    plan::{
        matching::has_star,
        rules::{ClassPlan, LimitsPlan, OnStoreFailure, RateRule, RulesPlan, Target},
    },
};

/// Caps, rates and budgets for classes of work.
///
/// Each [class](https://docs.rs/tower-admission/latest/tower_admission/struct.Ticket.html#method.class) has rules of its own for the same labels. Keys override the rules of the whole
/// class. Per field, the first of these that sets it applies: `namespace:label`, `namespace:*`, `label`, `*`, the
/// class.
///
/// ```
/// # mod tower_admission { pub use tower_admission_engine::{*, rules::*, settings::*}; }
/// use tower_admission::{Cap, ClassLimits, Rate, Rules, WhenFull};
///
/// let rules = Rules::new()
///     .class("workflow", ClassLimits::new().max_in_flight(25).max_per_minute(600))
///     .class("query", ClassLimits::new().fail_fast())
///     .override_key("production:payments", "workflow", ClassLimits::new()
///         .max_in_flight(Cap::from(8).when_full(WhenFull::RespondEmpty))
///         .budget("downstream-openai", Rate::from(600).smooth()))     // per minute, evenly
///     .override_key("production:*", "workflow", ClassLimits::new().max_in_flight_per_namespace(300));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Rules {
    pub(crate) others: ClassLimits,
    pub(crate) classes: Vec<(String, ClassLimits)>,
    pub(crate) overrides: Vec<(Key, String, ClassLimits)>,
}

/// The key of an override: text as in a file, or a label that may contain a colon.
#[doc(hidden)]
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Key {
    Text(String),
    Label { namespace: Option<String>, label: String },
}

/// The name of the class for requests whose class has no rules.
pub const OTHERS: &str = "*";

impl Rules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rules of a class.
    pub fn class(mut self, class: impl Into<String>, limits: ClassLimits) -> Self {
        self.classes.push((class.into(), limits));
        self
    }

    /// Sets the rules of requests without a class, and of requests whose class has no rules of its own. Overrides call
    /// these requests class `*`.
    pub fn default_limits(mut self, limits: ClassLimits) -> Self {
        self.others = limits;
        self
    }

    /// Overrides the rules of a class for one key: `namespace:label`, `namespace:*`, `label`, or `*`. The first colon
    /// separates the namespace. A `*` anywhere else matches nothing, and is an error when the handle is built. `*` as the class:
    /// requests without a class, and those whose class has no rules of its own.
    pub fn override_key(mut self, key: impl Into<String>, class: impl Into<String>, limits: ClassLimits) -> Self {
        self.overrides.push((Key::Text(key.into()), class.into(), limits));
        self
    }

    /// Overrides the rules of a class for one label, in one namespace or in any; the label may contain colons.
    pub fn override_label(
        mut self,
        namespace: Option<&str>,
        label: impl Into<String>,
        class: impl Into<String>,
        limits: ClassLimits,
    ) -> Self {
        let key = Key::Label { namespace: namespace.map(Into::into), label: label.into() };
        self.overrides.push((key, class.into(), limits));
        self
    }

    /// `shared`: rules are counted for all instances unless they say otherwise, and what becomes of them without the store.
    #[doc(hidden)]
    pub fn into_plan(self, shared: Option<OnStoreFailure>, problems: &mut Vec<Problem>) -> RulesPlan {
        if self == Self::default() {
            return RulesPlan::default();
        }
        let mut classes =
            vec![ClassPlan { limits: self.others.plan("classes.*", shared, problems), ..ClassPlan::default() }];
        for (name, limits) in &self.classes {
            let path = format!("classes.{name}");
            let limits = limits.plan(&path, shared, problems);
            let problem = match normal(name).filter(|name| *name != OTHERS) {
                None => format!("found {name:?} as a name, allowed are 1 to 256 bytes"),
                // Overrides say so themselves, and a class that has some needs not be written down.
                Some(name) if has_star(name) && self.overrides.iter().any(|(_, class, _)| class == name) => continue,
                Some(name) if has_star(name) => IDLE_CLASS.to_owned(),
                Some(name) if classes.iter().any(|known| *known.name == *name) => {
                    "found twice, each class is allowed once".to_owned()
                }
                Some(name) => {
                    classes.push(ClassPlan { name: name.into(), limits, overrides: HashMap::new() });
                    continue;
                }
            };
            problems.push(Problem::new(path, problem));
        }
        if classes.len() > MOST_CLASSES {
            let message = format!("found {}, allowed are {} at most", classes.len() - 1, MOST_CLASSES - 1);
            problems.push(Problem::new("classes", message));
        }
        for (key, class, limits) in &self.overrides {
            let path = format!("{}.{}.{class}", key.setting(), key.text());
            let limits = limits.plan(&path, shared, problems);
            if let Err(problem) = add_override(&mut classes, key, class, limits) {
                problems.push(Problem::new(path, problem));
            }
        }
        check_groups(&classes, problems);
        RulesPlan { classes }
    }
}

/// Adds what holds for a key of a class, or says what is wrong with it.
fn add_override(classes: &mut [ClassPlan], key: &Key, class: &str, limits: LimitsPlan) -> Result<(), String> {
    let is_it = |known: &&mut ClassPlan| *known.name == *class || class == OTHERS && known.name.is_empty();
    let Some(known) = classes.iter_mut().find(is_it) else {
        let is_idle = class != OTHERS && has_star(class);
        let unknown = || format!("found class {class:?}, allowed are the names under classes, and {OTHERS}");
        return Err(if is_idle { IDLE_CLASS.to_owned() } else { unknown() });
    };
    key.idle_star().map_or(Ok(()), Err)?;
    let target = key.target().ok_or("found an empty name, allowed are 1 to 256 bytes")?;
    match known.overrides.insert(target, limits) {
        None => Ok(()),
        Some(_) => Err("found twice, each key is allowed once".to_owned()),
    }
}

/// Kinds of work are told apart by small numbers, and those with rules are the first of them.
const MOST_CLASSES: usize = 32;

const IDLE_CLASS: &str = "found a * that matches nothing, allowed is the whole name of a class, or * alone for requests \
     whose class has no rules";

impl Key {
    /// What is wrong with a `*` that stands for no whole label. Under `label_overrides` it is a part of the name.
    fn idle_star(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        let (namespace, label) = text.split_once(':').map_or((None, text.as_str()), |(one, two)| (Some(one), two));
        let stands_for_any = label.trim() == OTHERS;
        let in_namespace = namespace.is_some_and(has_star);
        if !in_namespace && (stands_for_any || !has_star(label)) {
            return None;
        }
        let hint = match namespace.map(str::trim) {
            Some("*") if stands_for_any || !has_star(label) => format!("; {:?} is for any namespace", label.trim()),
            _ => "; a label with a * in its name goes under label_overrides".to_owned(),
        };
        Some(format!("found a * that matches nothing, allowed are label, namespace:label, namespace:* and *{hint}"))
    }

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
        let namespace = |namespace: &str| Box::from(normal(namespace).unwrap_or_default());
        match self {
            Self::Text(text) => match text.split_once(':') {
                None if text.trim() == "*" => Some(Target::Any),
                None => Some(Target::Label(label(text)?)),
                Some((of, rest)) if rest.trim() == "*" => Some(Target::Namespace(namespace(of))),
                Some((of, rest)) => Some(Target::Exact { namespace: namespace(of), label: label(rest)? }),
            },
            Self::Label { namespace: None, label: name } => Some(Target::Label(label(name)?)),
            Self::Label { namespace: Some(of), label: name } => {
                Some(Target::Exact { namespace: namespace(of), label: label(name)? })
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
                let message = format!("found {found}, allowed is one per group and namespace");
                let problem = Problem::new(format!("budget {group}"), message);
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            known.push((group, namespace, setting.bound));
        }
    }
}
