//! What can be set, and what holds unless it is.

pub(super) mod labels;
pub(super) mod limits;
pub(super) mod rules;
mod share;
#[cfg(feature = "config")]
mod store;
#[cfg(feature = "config")]
mod store_address;

use std::time::Duration;

#[cfg(feature = "config")]
pub(crate) use self::store::StoreSettings;
#[cfg(feature = "config")]
pub use self::store::StoreUrl;
pub use self::{
    labels::Labels,
    limits::{Cap, ClassLimits, Rate},
    rules::Rules,
    share::{Share, percent},
};
use crate::engine::{
    limit::{Fixed, Limit},
    plan::{Discipline, JOURNAL, Mode, PartitionMode},
    rules::OnStoreFailure,
};

/// Settings of a handle, before they were looked at.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) limit: Limit,
    /// A limit that only says what it would do.
    pub(crate) shadow: Option<Limit>,
    pub(crate) waiting: Waiting,
    pub(crate) partitions: Partitions,
    pub(crate) labels: Labels,
    pub(crate) rules: Rules,
    pub(crate) sharing: ForAll,
    pub(crate) time_to_live: Option<Duration>,
    /// How many decisions are remembered, and as many changes.
    pub(crate) journal: usize,
    pub(crate) hints: Hints,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            limit: Fixed::default().into(),
            shadow: None,
            waiting: Waiting::DEFAULT,
            partitions: Partitions::default(),
            labels: Labels::new(),
            rules: Rules::new(),
            sharing: ForAll::default(),
            time_to_live: None,
            journal: JOURNAL,
            hints: Hints::default(),
        }
    }
}

/// How many requests wait, for how long, and which of them is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) queue: usize,
    pub(crate) admission_timeout: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) max_waiting: Option<usize>,
    pub(crate) discipline: Discipline,
    /// How often less important requests are passed over before it is their turn.
    pub(crate) aging: Option<u32>,
}

impl Waiting {
    pub(crate) const DEFAULT: Self = Self {
        queue: 0,
        admission_timeout: Duration::from_secs(5),
        max_wait: None,
        wait_timeout: None,
        max_waiting: None,
        discipline: Discipline::Fair,
        aging: Some(16),
    };
}

/// What is guaranteed to groups of callers, and what the partition of all others may do.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    pub(crate) shares: Vec<(String, Share)>,
    pub(crate) default_mode: PartitionMode,
    /// Whether the partition of requests that belong to no other only says what it would do.
    pub(crate) default_observes: bool,
}

/// Whether rules are counted for all instances, and where.
#[derive(Debug, Default)]
pub(crate) struct ForAll {
    pub(crate) is_shared: bool,
    /// What becomes of rules without the store, unless they say so.
    pub(crate) when_gone: OnStoreFailure,
    /// The store, where it comes from a configuration.
    #[cfg(feature = "config")]
    pub(crate) store: Option<StoreSettings>,
}

/// What is known of the surroundings. It changes nothing but warnings.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// The highest limit that there can be, where that is known: a law doesn't tell.
    pub(crate) largest_limit: Option<usize>,
    pub(crate) client_patience: Option<Duration>,
    pub(crate) max_concurrent_streams: Option<usize>,
    /// What looked like a mistake before it came here.
    pub(crate) notes: Vec<String>,
}
