//! Rules as they were configured, and the keys that they hold for.

use std::{collections::HashMap, num::NonZeroU32};

use crate::{codes, ids::RuleClassId};

pub use crate::OnStoreFailure;

/// What a rule does with a request when it is full.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The request waits, and requests of other labels go on.
    Queue,
    /// The request is rejected.
    Reject,
    /// The request is answered as if there were no work for it, 204 [unless set][nothing]:
    /// "no task" for a long poll.
    ///
    /// [nothing]: https://docs.rs/tower-admission/latest/tower_admission/response/struct.Rejections.html#method.nothing
    RespondEmpty,
}

impl WhenFull {
    codes! {
        /// All answers of a rule that is full.
        3:
            Queue = "wait", Reject = "reject", RespondEmpty = "empty",
    }
}

/// A bound on starts per minute.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RateRule {
    pub max: NonZeroU32,
    pub mode: RateMode,
}

/// How a rate is counted: in a minute, or in the period of a claim on a store. By one clock, that of the store if there is
/// one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum RateMode {
    /// Fixed window: up to the maximum in each period of the clock, so up to twice the maximum in a period that straddles
    /// the edge of two.
    #[default]
    Window,
    /// Token bucket (GCRA, the generic cell rate algorithm): one each period / maximum, and this many at once after a
    /// pause. At most the maximum and the burst together in any period.
    Smooth {
        /// How many are allowed at once.
        burst: NonZeroU32,
    },
}

impl RateMode {
    /// Returns how many are allowed at once; `None` in a window.
    #[doc(hidden)]
    pub const fn burst(self) -> Option<NonZeroU32> {
        match self {
            Self::Window => None,
            Self::Smooth { burst } => Some(burst),
        }
    }
}

/// A bound, and what happens when it is full.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Rule<B> {
    pub bound: B,
    pub(crate) when_full: WhenFull,
    /// What becomes of the rule without the store, if it is counted for all instances.
    pub(crate) shared: Option<OnStoreFailure>,
    /// Whether the rule observes: it only counts what it would do.
    pub(crate) observes: bool,
    /// Key under which the bound was found, the class as a whole until it was looked for; see [`Source`].
    pub(crate) source: Source,
}

/// The kind of key that a bound was found under.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Source {
    /// The key `namespace:label`.
    Exact,
    /// The key `namespace:*`.
    Namespace,
    /// The key `label`, or a pattern that matches it.
    Label,
    /// The key `*`.
    Any,
    /// The class as a whole.
    Class,
}

/// The settings of one key, or of a class as a whole. A bound that is not set is `None`; a bound that is lifted is
/// `Some(None)`.
#[doc(hidden)]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LimitsPlan {
    pub in_flight: Option<Option<Rule<usize>>>,
    pub in_flight_per_namespace: Option<Option<Rule<usize>>>,
    pub per_minute: Option<Rule<RateRule>>,
    pub(crate) per_minute_per_namespace: Option<Rule<RateRule>>,
    /// A group and its maximum: they are one setting.
    pub(crate) budget: Option<(Box<str>, Rule<RateRule>)>,
    pub(crate) pending: Option<Option<Rule<usize>>>,
}

/// The key that an override is for.
#[doc(hidden)]
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Target {
    Exact { namespace: Box<str>, label: Box<str> },
    Namespace(Box<str>),
    Label(Box<str>),
    Any,
}

/// All rules of one class of work.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct ClassPlan {
    pub name: Box<str>,
    pub limits: LimitsPlan,
    pub overrides: HashMap<Target, LimitsPlan>,
}

/// All rules. The first class is that of requests whose class has no rules of its own.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct RulesPlan {
    pub classes: Vec<ClassPlan>,
}

/// The rules of one label of one namespace in one class.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    pub(crate) in_flight: Option<Rule<usize>>,
    pub(crate) in_flight_per_namespace: Option<Rule<usize>>,
    pub(crate) per_minute: Option<Rule<RateRule>>,
    pub per_minute_per_namespace: Option<Rule<RateRule>>,
    pub budget: Option<(Box<str>, Rule<RateRule>)>,
    pub(crate) pending: Option<Rule<usize>>,
}

impl ClassPlan {
    /// Returns the rules of a label: per field the first setting, from the most particular key to the class.
    pub fn resolve(&self, namespace: &str, label: &str) -> Resolved {
        let get = |target: Target, source| Some((self.overrides.get(&target)?, source));
        let mut own = [None; 4];
        if !self.overrides.is_empty() {
            own = [
                get(Target::Exact { namespace: namespace.into(), label: label.into() }, Source::Exact),
                get(Target::Namespace(namespace.into()), Source::Namespace),
                get(Target::Label(label.into()), Source::Label),
                get(Target::Any, Source::Any),
            ];
        }
        let layers = || own.into_iter().flatten().chain([(&self.limits, Source::Class)]);
        let cap = |field: fn(&LimitsPlan) -> Option<Option<Rule<usize>>>| {
            let (found, source) = layers().find_map(|(limits, source)| Some((field(limits)?, source)))?;
            found.map(|rule| Rule { source, ..rule })
        };
        let rate = |field: fn(&LimitsPlan) -> Option<Rule<RateRule>>| {
            layers().find_map(|(limits, source)| Some(Rule { source, ..field(limits)? }))
        };
        Resolved {
            in_flight: cap(|limits| limits.in_flight),
            in_flight_per_namespace: cap(|limits| limits.in_flight_per_namespace),
            per_minute: rate(|limits| limits.per_minute),
            per_minute_per_namespace: rate(|limits| limits.per_minute_per_namespace),
            budget: layers().find_map(|(limits, source)| {
                let (group, rule) = limits.budget.as_ref()?;
                Some((group.clone(), Rule { source, ..*rule }))
            }),
            pending: cap(|limits| limits.pending),
        }
    }
}

impl LimitsPlan {
    /// Returns of each rule whether it observes, and what becomes of it without the store if it is counted for all instances.
    fn rules(&self) -> impl Iterator<Item = (bool, Option<OnStoreFailure>)> {
        let caps = [self.in_flight, self.in_flight_per_namespace, self.pending];
        let rates = [self.per_minute, self.per_minute_per_namespace, self.budget.as_ref().map(|(_, rate)| *rate)];
        let caps = caps.into_iter().flatten().flatten().map(|cap| (cap.observes, cap.shared));
        caps.chain(rates.into_iter().flatten().map(|rate| (rate.observes, rate.shared)))
    }
}

impl RulesPlan {
    /// The same of all rules.
    fn rules(&self) -> impl Iterator<Item = (bool, Option<OnStoreFailure>)> {
        let limits = self.classes.iter().flat_map(|class| [&class.limits].into_iter().chain(class.overrides.values()));
        limits.flat_map(LimitsPlan::rules)
    }

    /// Whether any rule observes.
    pub(crate) fn observes(&self) -> bool {
        self.rules().any(|(observes, _)| observes)
    }

    /// Whether any rule is counted for all instances.
    pub(crate) fn is_shared(&self) -> bool {
        self.rules().any(|(_, shared)| shared.is_some())
    }

    /// Returns the name of a class; empty for the class of all other requests.
    pub(crate) fn class_name(&self, class: RuleClassId) -> &str {
        self.classes.get(class.index()).map_or("", |class| &class.name)
    }

    /// Returns the classes that settings name and bound, by number.
    pub(crate) fn named_classes(&self) -> impl Iterator<Item = (RuleClassId, &str)> {
        let bounds = |class: &ClassPlan| class.limits != LimitsPlan::default() || !class.overrides.is_empty();
        let classes = RuleClassId::all().zip(&self.classes).skip(1);
        classes.filter(move |(_, class)| bounds(class)).map(|(number, class)| (number, &*class.name))
    }

    /// Returns what shared rules do without their store, each word once, the strictest first.
    pub(crate) fn without_store(&self) -> Vec<&'static str> {
        let mut ways: Vec<_> = self.rules().filter_map(|(_, shared)| Some(shared?.way())).collect();
        ways.sort_unstable();
        ways.dedup();
        ways.into_iter().map(|(_, word)| word).collect()
    }
}
