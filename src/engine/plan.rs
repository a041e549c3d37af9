//! What the engine needs to know to decide: settings that were found to be valid.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{limit::LimitAlgorithm, rules::RulesPlan};
use crate::matching::ByLabel;

/// Who goes first among those who wait.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Discipline {
    /// First come, first served, whatever the label.
    Fifo,
    /// Round robin over the labels by weight, first come, first served within a label. Without labels it is the same as
    /// [`Fifo`](Self::Fifo).
    #[default]
    Fair,
    /// Like [`Fair`](Self::Fair) as long as the queue drains. Once it has not been empty for an interval, the newest of a
    /// label goes first and nobody who comes waits for longer than a short time: those who came last are the ones whose
    /// callers are still there.
    ///
    /// Adaptive LIFO with controlled delay, as in Maurer, *Fail at Scale*, ACM Queue 13(8), 2015, who uses 100 ms and 5 ms.
    AdaptiveLifo {
        /// How long a queue that drains may have somebody in it. Also the longest wait while it does.
        interval: Duration,
        /// The longest wait while it doesn't.
        short_wait: Duration,
    },
    /// Like [`Fair`](Self::Fair), with a credit of time for bursts: one who comes may wait for as long as there is credit. It is
    /// used up, second by second, while those who are served have waited for longer than a short time, and grows back while
    /// they haven't. So a burst after a calm is absorbed, and a standing overload makes nobody wait for more than a
    /// short time: what waits then would only be served later.
    BurstCredit {
        /// The most credit, and so the longest wait.
        longest: Duration,
        /// What one may always wait: about half of what a request takes.
        standing: Duration,
    },
}

impl Discipline {
    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Fair => "fair",
            Self::AdaptiveLifo { .. } => "adaptive_lifo",
            Self::BurstCredit { .. } => "burst_credit",
        }
    }
}

/// Whether decisions bind.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Mode {
    /// Decisions bind.
    #[default]
    Enforce,
    /// Everything is admitted at once; what would have been rejected or would have waited is counted.
    Observe,
    /// Everything is admitted at once and nothing is counted or learned.
    Off,
}

impl Mode {
    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }
}

/// What a partition may do beyond its share, and what it is owed below it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum PartitionMode {
    /// May use idle capacity; below its share it gets the next freed slots. Never exceeds the limit.
    #[default]
    Burst,
    /// Never runs more than its share, even if the server is idle.
    HardCap,
    /// May use idle capacity; below its share it is admitted at once, *even at the limit*.
    ///
    /// The rule of Netflix's concurrency-limits, with its rounding: the sum of what runs may pass the limit.
    Overcommit,
}

impl PartitionMode {
    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::HardCap => "hard_cap",
            Self::Overcommit => "overcommit",
        }
    }
}

/// How many decisions are remembered, unless told otherwise.
pub(crate) const JOURNAL: usize = 512;

/// Settings for the engine.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) law: Box<dyn LimitAlgorithm>,
    /// The first one is the default. At least one, at most 65,535; their parts add up to the whole.
    pub(crate) partitions: Vec<PartitionPlan>,
    pub(crate) line: Bound,
    pub(crate) gate: Bound,
    /// `None`: the legacy mode, where whoever waits waits for a slot and there is no gate before that.
    pub(crate) queue: Option<usize>,
    pub(crate) discipline: Discipline,
    /// How often less important requests are passed over before it is their turn; `None` for ever.
    pub(crate) aging: Option<u32>,
    pub(crate) labels: LabelPlan,
    pub(crate) rules: RulesPlan,
    /// How long a slot is lent.
    pub(crate) time_to_live: Option<Duration>,
    /// How many decisions are remembered.
    pub(crate) journal: usize,
    /// A law that only says what it would do.
    pub(crate) shadow: Option<Box<dyn LimitAlgorithm>>,
}

#[cfg(test)]
impl Plan {
    /// For tests: a fair queue, and nothing special for labels.
    pub(crate) fn plain(
        law: Box<dyn LimitAlgorithm>,
        partitions: Vec<PartitionPlan>,
        line: Bound,
        gate: Bound,
    ) -> Self {
        Self {
            law,
            partitions,
            line,
            gate,
            queue: None,
            discipline: Discipline::Fair,
            aging: Some(16),
            labels: LabelPlan::default(),
            rules: RulesPlan::default(),
            time_to_live: None,
            journal: JOURNAL,
            shadow: None,
        }
    }
}

/// What holds for labels.
#[derive(Clone, Debug)]
pub(crate) struct LabelPlan {
    /// How many are told apart.
    pub(crate) max_labels: usize,
    /// How many of one label may wait, and of one run over all labels.
    pub(crate) max_waiting: usize,
    pub(crate) max_waiting_per_run: usize,
    /// How long one with a label waits.
    pub(crate) wait: Option<Duration>,
    /// For labels that have no rule of their own.
    pub(crate) default: LabelRule,
    /// By namespace, where one is given, and label.
    pub(crate) rules: HashMap<(Option<Box<str>>, Box<str>), LabelRule>,
    /// For labels without a rule of their own: caps, the largest number for none, and weights.
    pub(crate) patterns: Option<(ByLabel<usize>, ByLabel<u32>)>,
    /// Whether the slots that workers report bound what runs.
    pub(crate) enforce_workers: bool,
    /// How many have metrics of their own, and which ones settings name, by namespace and label.
    pub(crate) metrics: usize,
    pub(crate) named: Vec<(Box<str>, Box<str>)>,
}

impl Default for LabelPlan {
    fn default() -> Self {
        Self {
            max_labels: 10_000,
            max_waiting: 100,
            max_waiting_per_run: 5,
            wait: Some(Duration::from_secs(30)),
            default: LabelRule::default(),
            rules: HashMap::new(),
            patterns: None,
            enforce_workers: false,
            metrics: 0,
            named: Vec::new(),
        }
    }
}

impl LabelPlan {
    /// The rule of a label: one for its namespace before one for its name alone.
    pub(crate) fn rule(&self, namespace: &str, label: &str) -> LabelRule {
        if self.rules.is_empty() {
            return self.default;
        }
        let exact = self.rules.get(&(Some(namespace.into()), label.into()));
        let exact = exact.or_else(|| self.rules.get(&(None, label.into())));
        exact.copied().or_else(|| self.rule_by_pattern(namespace, label)).unwrap_or(self.default)
    }

    /// Each field by itself: a label may have its cap from one pattern and its weight from another.
    fn rule_by_pattern(&self, namespace: &str, label: &str) -> Option<LabelRule> {
        let (caps, weights) = self.patterns.as_ref()?;
        let cap = caps.find(Some(namespace), label);
        Some(LabelRule {
            cap: cap.map_or(self.default.cap, |cap| (cap < usize::MAX).then_some(cap)),
            weight: weights.find(Some(namespace), label).unwrap_or(self.default.weight),
        })
    }
}

/// What holds for one label.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LabelRule {
    /// How many of it may run.
    pub(crate) cap: Option<usize>,
    /// How many turns it gets for each one of a label of weight 1; never 0.
    pub(crate) weight: u32,
}

impl Default for LabelRule {
    fn default() -> Self {
        Self { cap: None, weight: 1 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PartitionPlan {
    pub(crate) name: Arc<str>,
    /// Parts per million of the limit.
    pub(crate) part: u32,
    pub(crate) mode: PartitionMode,
    /// Whether it only says what it would do.
    pub(crate) observes: bool,
}

impl PartitionPlan {
    /// Whether it may run beyond the limit.
    pub(crate) fn passes_limit(&self) -> bool {
        self.observes || self.mode == PartitionMode::Overcommit
    }
}

/// How many may wait somewhere, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) places: Places,
    pub(crate) wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Places {
    Exactly(usize),
    /// As many as the current limit.
    Limit,
}

impl Places {
    pub(crate) const fn count(self, limit: usize) -> usize {
        match self {
            Self::Exactly(places) => places,
            Self::Limit => limit,
        }
    }
}
