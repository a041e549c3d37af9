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
    limits::{Cap, Limits, Rate},
    rules::Rules,
    share::{Share, percent},
};
use crate::engine::{
    limit::{Fixed, Limit},
    plan::{Discipline, JOURNAL, Mode, PartitionMode},
    rules::WhenGone,
};

/// Settings of a handle, before they were looked at.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) limit: Limit,
    /// A limit that only says what it would do.
    pub(crate) shadow: Option<Limit>,
    /// The highest limit that there can be, where that is known: a law doesn't tell.
    pub(crate) largest_limit: Option<usize>,
    pub(crate) queue: usize,
    pub(crate) admission_timeout: Duration,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) max_waiting: Option<usize>,
    pub(crate) partitions: Vec<(String, Share)>,
    pub(crate) default_mode: PartitionMode,
    /// Whether the partition of those who belong to no other only says what it would do.
    pub(crate) default_observes: bool,
    pub(crate) discipline: Discipline,
    pub(crate) aging: Option<u32>,
    pub(crate) labels: Labels,
    pub(crate) rules: Rules,
    /// Whether rules are counted for all instances, and what becomes of them without the store unless they say so.
    pub(crate) is_shared: bool,
    pub(crate) when_gone: WhenGone,
    /// The store, where it comes from a configuration.
    #[cfg(feature = "config")]
    pub(crate) store: Option<StoreSettings>,
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) client_patience: Option<Duration>,
    pub(crate) max_concurrent_streams: Option<usize>,
    pub(crate) journal: usize,
    /// What looked like a mistake before it came here.
    pub(crate) notes: Vec<String>,
}

/// How often less important requests are passed over before it is their turn, unless told otherwise.
const AGING: u32 = 16;

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            limit: Fixed::default().into(),
            shadow: None,
            largest_limit: None,
            queue: 0,
            admission_timeout: Duration::from_secs(5),
            max_wait: None,
            wait_timeout: None,
            max_waiting: None,
            partitions: Vec::new(),
            default_mode: PartitionMode::Burst,
            default_observes: false,
            discipline: Discipline::Fair,
            aging: Some(AGING),
            labels: Labels::new(),
            rules: Rules::new(),
            is_shared: false,
            when_gone: WhenGone::Closed,
            #[cfg(feature = "config")]
            store: None,
            time_to_live: None,
            client_patience: None,
            max_concurrent_streams: None,
            journal: JOURNAL,
            notes: Vec::new(),
        }
    }
}
