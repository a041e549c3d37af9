//! What the engine needs to know to decide: settings that were found to be valid.

use std::{sync::Arc, time::Duration};

use super::limit::Law;

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

/// Settings for the engine.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) law: Box<dyn Law>,
    /// The first one is the default. At least one, at most 65,535; their parts add up to the whole.
    pub(crate) partitions: Vec<PartitionPlan>,
    pub(crate) line: Bound,
    pub(crate) gate: Bound,
    /// `None`: the legacy mode, where whoever waits waits for a slot and there is no gate before that.
    pub(crate) queue: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct PartitionPlan {
    pub(crate) name: Arc<str>,
    /// Parts per million of the limit.
    pub(crate) part: u32,
    pub(crate) mode: PartitionMode,
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
