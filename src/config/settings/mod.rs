//! What can be set, and what holds unless it is.

pub(super) mod derived;
pub(super) mod labels;
pub(super) mod layer;
mod share;
#[cfg(feature = "config")]
mod store;
#[cfg(feature = "config")]
mod store_address;

use self::layer::AdmissionConfig;
#[cfg(feature = "config")]
pub use self::store::{OnStoreFailureConfig, StoreConfig, StoreUrl};
pub use self::{
    labels::{LabelConfig, Labels},
    share::{Share, percent},
};
pub use crate::engine::settings::{Cap, ClassLimits, Rate, Rules};
use crate::engine::{
    limit::{Fixed, Limit, TwoPoint},
    rules::OnStoreFailure,
};

/// Settings of a handle, before they were looked at.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Settings that are the same in code and in files. The others of a file are below, as code has them.
    pub(crate) values: AdmissionConfig,
    /// Where it is not set, it is learned if the patience of the callers is known, and else fixed.
    pub(crate) limit: Option<Limit>,
    /// A limit that only says what it would do.
    pub(crate) shadow: Option<Limit>,
    /// What is guaranteed to groups of callers.
    pub(crate) shares: Vec<(String, Share)>,
    pub(crate) rules: Rules,
    pub(crate) sharing: ForAll,
    /// The highest limit that there can be, where that is known: a law doesn't tell.
    pub(crate) largest_limit: Option<usize>,
    /// What looked like a mistake before it came here.
    pub(crate) notes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            values: AdmissionConfig::default(),
            limit: None,
            shadow: None,
            shares: Vec::new(),
            rules: Rules::new(),
            sharing: ForAll::default(),
            largest_limit: None,
            notes: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns for how long back a capture remembers, and in how many bytes, if there is to be one.
    #[cfg(feature = "capture")]
    pub(crate) fn capture(&self) -> Option<(std::time::Duration, usize)> {
        self.values.capture_last.map(|last| (last, self.values.capture_max_bytes))
    }

    /// Returns the limit that holds where none is set.
    pub(crate) fn limit_unless_set(&self) -> Limit {
        if self.values.patience.is_some() { TwoPoint::new().into() } else { Fixed::default().into() }
    }
}

/// Whether rules are counted for all instances, and where.
#[derive(Debug, Default)]
pub(crate) struct ForAll {
    pub(crate) is_shared: bool,
    /// What becomes of rules without the store, unless they say so.
    pub(crate) on_store_failure: OnStoreFailure,
    /// The store, where it comes from a configuration.
    #[cfg(feature = "config")]
    pub(crate) store: Option<StoreConfig>,
}
