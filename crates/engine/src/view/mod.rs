//! Views of an engine, which change nothing.

mod capture;
mod headline;
mod health;
mod history;
mod incident;
mod journal;
mod label;
mod label_metrics;
mod label_status;
mod limit;
mod snapshot;
#[doc(hidden)]
pub mod text;
mod unmet;
mod waiter;

pub use self::{
    capture::{Description, WorkerDescription},
    health::{HealthSnapshot, RecentSnapshot, RejectedSnapshot},
    history::{HistorySample, Sampled, SampledName},
    incident::Foremost,
    label::{LabelRow, LabelSnapshot},
    label_metrics::LabelMetricsView,
    label_status::{BlockedBy, LabelStatus},
    limit::{LimitMove, LimitSnapshot},
    snapshot::{PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot},
    unmet::Unmet,
    waiter::WaiterSnapshot,
};

/// Whether a field says nothing, and is left out.
#[cfg(feature = "serde")]
fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}
