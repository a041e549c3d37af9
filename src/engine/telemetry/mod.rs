//! What is told afterwards.

pub(crate) mod histogram;
pub(crate) mod journal;
pub(crate) mod label_metrics;
#[cfg(feature = "introspect")]
pub(crate) mod recent;
pub(crate) mod unmet;

use self::{journal::Journal, label_metrics::AllSeries, unmet::Met};

/// Everything that is counted or noted.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) series: AllSeries,
    pub(crate) met: Met,
    /// How often the settings were changed.
    pub(crate) reloads: u64,
    pub(crate) journal: Journal,
}
