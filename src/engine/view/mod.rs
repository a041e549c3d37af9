//! Views of an engine, which change nothing.

#[cfg(feature = "capture")]
mod capture;
#[cfg(feature = "introspect")]
mod history;
mod journal;
mod label;
mod label_metrics;
mod label_status;
mod limit;
#[cfg(feature = "introspect")]
mod partition;
mod snapshot;
mod text;
mod unmet;
mod verdict;
mod waiter;

#[cfg(feature = "capture")]
pub(crate) use self::capture::Description;
#[cfg(feature = "introspect")]
pub(crate) use self::{
    history::{HistorySample, Sampled, SampledName},
    label::LabelRow,
};
/// Whether a field says nothing, and is left out.
#[cfg(feature = "introspect")]
fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}

pub use self::{
    label::LabelSnapshot,
    label_status::{BlockedBy, LabelStatus},
    limit::{LimitMove, LimitSnapshot},
    snapshot::{PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot},
    verdict::{RecentSnapshot, RefusedSnapshot, VerdictSnapshot},
    waiter::WaiterSnapshot,
};
pub(crate) use self::{label_metrics::LabelMetricsView, unmet::Unmet};
