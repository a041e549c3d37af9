//! What can be set, and what holds unless it is.

pub(super) mod auto;
mod derived;
pub(super) mod labels;
pub(super) mod layer;
mod share;
#[cfg(feature = "files")]
mod store;
#[cfg(feature = "files")]
mod store_address;

use self::layer::AdmissionConfig;
#[cfg(feature = "files")]
pub use self::store::{OnStoreFailureConfig, StoreConfig, StoreUrl};
pub use self::{
    labels::{LabelConfig, Labels},
    share::{Share, percent},
};
pub use tower_admission_engine::settings::{Cap, ClassLimits, Rate, Rules};
use tower_admission_engine::{limit::Limit, rules::OnStoreFailure};

/// Settings of a handle, before they were looked at.
#[derive(Debug, Default)]
pub struct Settings {
    /// Settings that are the same in code and in files. The others of a file are below, as code has them.
    pub values: AdmissionConfig,
    /// Where it is not set, `two_point` learns it.
    pub limit: Option<Limit>,
    /// A limit that only says what it would do.
    pub shadow: Option<Limit>,
    /// What is guaranteed to groups of callers.
    pub shares: Vec<(String, Share)>,
    /// Rules for classes of work.
    pub rules: Rules,
    /// Whether rules are shared.
    pub sharing: ForAll,
    /// The highest limit that there can be, where that is known: a law doesn't tell.
    pub(crate) largest_limit: Option<usize>,
    /// What looked like a mistake before it came here.
    pub(crate) notes: Vec<String>,
}

impl Settings {
    /// Returns for how long back a capture remembers, if that is set, and in how many bytes.
    #[cfg(feature = "capture")]
    pub const fn capture(&self) -> (Option<std::time::Duration>, usize) {
        (self.values.capture_last, self.values.capture_max_bytes)
    }
}

/// Whether rules are counted for all instances, and where.
#[expect(clippy::exhaustive_structs, reason = "the facade has the version of this crate")]
#[derive(Debug, Default)]
pub struct ForAll {
    /// Rules are counted for all instances.
    pub is_shared: bool,
    /// What becomes of rules without the store, unless they say so.
    pub on_store_failure: OnStoreFailure,
    /// The store, where it comes from a configuration.
    #[cfg(feature = "files")]
    pub store: Option<StoreConfig>,
}
