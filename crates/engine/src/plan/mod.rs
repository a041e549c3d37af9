//! Settings of the engine, after they were found to be valid.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

pub mod matching;
#[cfg(test)]
mod plain_tests;
pub mod rules;

use self::rules::RulesPlan;
use super::limit::LimitAlgorithm;
use crate::{codes, plan::matching::ByLabel, words::from_str};

/// Which waiter goes first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Discipline {
    /// First come, first served, whatever the label.
    Fifo,
    /// Round robin over the labels by weight, first come, first served within a label. Without labels it is the same as
    /// [`Fifo`](Self::Fifo).
    #[default]
    Fair,
    /// Like [`Fair`](Self::Fair) as long as the queue drains. Once it has not been empty for an interval, the newest
    /// request of a label goes first and no new request waits for longer than a short time: the callers of the newest
    /// requests are the ones that are still there.
    ///
    /// Adaptive LIFO with controlled delay, as in Maurer, *Fail at Scale*, ACM Queue 13(8), 2015, which uses 100 ms and
    /// 5 ms.
    AdaptiveLifo {
        /// Time for which a queue that drains may have waiters. Also the longest wait while it does.
        interval: Duration,
        /// Longest wait while the queue doesn't drain.
        short_wait: Duration,
    },
    /// Like [`Fair`](Self::Fair), with a credit of time for bursts: a new request may wait for as long as there is
    /// credit, and for `longest` at most. The credit is used up, second by second, while the requests that are served
    /// have waited for longer than a short time, and grows back twice as fast while they haven't. So a burst after a calm
    /// is absorbed. In a standing overload no request waits for more than a short time: such a wait would only serve
    /// every request later. Each partition has a credit of its own: a flood of a partition leaves the bursts of the others alone.
    BurstCredit {
        /// Longest wait.
        longest: Duration,
        /// Wait that is always allowed: about half of what a request takes. Where few requests run at once it is two turns, so
        /// that no slot is idle.
        standing: Duration,
        /// Most credit: for how long in a row requests may wait for longer than `standing`. No less than `longest`.
        credit: Duration,
    },
}

/// Maurer's figures.
const ADAPTIVE: Discipline =
    Discipline::AdaptiveLifo { interval: Duration::from_millis(100), short_wait: Duration::from_millis(5) };

/// A burst of a second, and half of what a quick request takes.
const CREDIT: Discipline = Discipline::BurstCredit {
    longest: Duration::from_secs(1),
    standing: Duration::from_millis(25),
    credit: Duration::from_secs(1),
};

impl Discipline {
    /// All disciplines, with the times that they have unless set.
    pub const ALL: [Self; 4] = [Self::Fifo, Self::Fair, ADAPTIVE, CREDIT];

    /// Returns the code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Fair => "fair",
            Self::AdaptiveLifo { .. } => "adaptive_lifo",
            Self::BurstCredit { .. } => "burst_credit",
        }
    }

    /// Returns the settings that only some of them have, by name.
    #[doc(hidden)]
    pub fn times(self) -> Vec<(&'static str, Duration)> {
        match self {
            Self::Fifo | Self::Fair => Vec::new(),
            Self::AdaptiveLifo { interval, short_wait } => vec![("interval", interval), ("short_wait", short_wait)],
            Self::BurstCredit { longest, standing, credit } => {
                vec![("longest", longest), ("standing", standing), ("credit", credit)]
            }
        }
    }
}

/// Whether decisions bind.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Mode {
    /// Decisions bind.
    #[default]
    Enforce,
    /// Every request is admitted at once; requests that would have been rejected or would have waited are counted.
    Observe,
    /// Every request is admitted at once and nothing is counted or learned.
    Off,
}

impl Mode {
    codes! {
        /// All modes.
        3:
            Enforce = "enforce", Observe = "observe", Off = "off",
    }
}

/// What a partition may do beyond its share, and what it is owed below it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PartitionMode {
    /// May use idle capacity; below its share it gets the next freed slots. Never exceeds the limit.
    #[default]
    Burst,
    /// Never runs more than its share, even if the server is idle.
    ///
    /// Further requests wait like any other; with `shed` they get 429 (`partition_cap`). For a 429 at once beside a queue, use a
    /// [`Cap::reject`](crate::settings::Cap::reject) rule.
    HardCap,
    /// May use idle capacity; below its share it is admitted at once, *even at the limit*.
    ///
    /// The rule of Netflix's concurrency-limits, with its rounding: the sum of what runs may pass the limit.
    Overcommit,
}

impl PartitionMode {
    codes! {
        /// All modes.
        3:
            Burst = "burst", HardCap = "hard_cap", Overcommit = "overcommit",
    }
}

from_str!(Discipline, Mode, PartitionMode, rules::WhenFull);

/// Decisions that the journal holds, unless set.
pub const JOURNAL: usize = 512;

/// Settings for the engine.
#[doc(hidden)]
#[derive(Debug)]
pub struct Plan {
    pub law: Box<dyn LimitAlgorithm>,
    /// Partitions, the default one first. At least one, at most 65,535; their parts add up to the whole.
    pub partitions: Vec<PartitionPlan>,
    pub line: Bound,
    pub gate: Bound,
    /// Places in line; `None`: no gate, a waiter waits for a slot only.
    pub queue: Option<usize>,
    pub discipline: Discipline,
    /// The deadline of requests that have none, from when they come.
    pub default_deadline: Option<Duration>,
    /// Times that less important requests are passed over before their turn; `None` for ever.
    pub aging: Option<u32>,
    pub labels: LabelPlan,
    pub rules: RulesPlan,
    /// Time to live of a slot.
    pub time_to_live: Option<Duration>,
    /// Decisions that the journal holds.
    pub journal: usize,
    /// One in how many requests is timed while all is quiet, where the law allows for it.
    pub time_one_in: Option<NonZeroU32>,
    /// Shadow law: only counts what it would do.
    pub shadow: Option<Box<dyn LimitAlgorithm>>,
}

/// What bounds the queue, and which request goes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuePlan {
    pub(crate) line: Bound,
    pub(crate) gate: Bound,
    pub(crate) queue: Option<usize>,
    pub(crate) discipline: Discipline,
    pub(crate) default_deadline: Option<Duration>,
    pub(crate) aging: Option<u32>,
}

impl Plan {
    pub(crate) const fn queue(&self) -> QueuePlan {
        let Self { line, gate, queue, discipline, default_deadline, aging, .. } = *self;
        QueuePlan { line, gate, queue, discipline, default_deadline, aging }
    }
}

/// What holds for labels.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LabelPlan {
    /// Labels that are told apart.
    pub max_labels: usize,
    /// Requests of one label that may wait, and of one run over all labels.
    pub max_waiting: usize,
    pub max_waiting_per_run: usize,
    /// Longest wait of a request with a label.
    pub wait: Option<Duration>,
    /// Rule of labels that have none of their own.
    pub default: LabelRule,
    /// Rules by namespace, where one is given, and label.
    pub rules: HashMap<(Option<Box<str>>, Box<str>), LabelRule>,
    /// Patterns for labels without a rule of their own: caps, the largest number for none, and weights.
    pub patterns: Option<(ByLabel<usize>, ByLabel<u32>)>,
    /// Whether a request is rejected at once while its label is at a cap of these settings.
    pub caps_reject: bool,
    /// Whether the slots that workers report bound what runs.
    pub enforce_workers: bool,
    /// Labels that have metrics of their own, and those that settings name, by namespace and label.
    pub metrics: usize,
    pub named: Vec<(Box<str>, Box<str>)>,
}

impl LabelPlan {
    /// Returns the rule of a label: the rule for its namespace before the rule for its name alone.
    pub fn rule(&self, namespace: &str, label: &str) -> LabelRule {
        if self.rules.is_empty() {
            return self.default;
        }
        let exact = self.rules.get(&(Some(namespace.into()), label.into()));
        let exact = exact.or_else(|| self.rules.get(&(None, label.into())));
        exact.copied().or_else(|| self.rule_by_pattern(namespace, label)).unwrap_or(self.default)
    }

    /// Returns the rule of a label by patterns, each field by itself: cap and weight may come from different patterns.
    fn rule_by_pattern(&self, namespace: &str, label: &str) -> Option<LabelRule> {
        let (caps, weights) = self.patterns.as_ref()?;
        let cap = caps.find(Some(namespace), label);
        Some(LabelRule {
            cap: cap.map_or(self.default.cap, |cap| (cap < usize::MAX).then_some(cap)),
            weight: weights.find(Some(namespace), label).unwrap_or(self.default.weight),
        })
    }
}

/// The rule of one label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LabelRule {
    /// Requests of the label that may run.
    pub cap: Option<usize>,
    /// Turns of the label for each turn of a label of weight 1; never 0.
    pub weight: u32,
}

impl Default for LabelRule {
    fn default() -> Self {
        Self { cap: None, weight: 1 }
    }
}

#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct PartitionPlan {
    pub name: Arc<str>,
    /// Part of the limit, in parts per million.
    pub part: u32,
    pub mode: PartitionMode,
    /// Whether it observes: it only counts what it would do.
    pub observes: bool,
    /// Part of its share that is not lent, in parts per million.
    pub withheld: u32,
}

/// How many requests may wait at a place, and for how long.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub places: Places,
    pub wait: Option<Duration>,
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Places {
    Exactly(usize),
    /// As many as the current limit, and at least so many.
    Limit {
        at_least: usize,
    },
}

impl Places {
    pub(crate) const fn count(self, limit: usize) -> usize {
        match self {
            Self::Exactly(places) => places,
            Self::Limit { at_least } if at_least > limit => at_least,
            Self::Limit { .. } => limit,
        }
    }
}
