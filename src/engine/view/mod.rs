//! Views of an engine, which change nothing.

#[cfg(feature = "introspect")]
mod capture;
mod journal;
mod label;
mod label_status;
#[cfg(feature = "introspect")]
mod partition;
mod series;
mod snapshot;
mod unmet;
mod waiter;

#[cfg(feature = "introspect")]
pub(crate) use self::label::LabelRow;
pub use self::{
    label::LabelSnapshot,
    label_status::{BlockedBy, LabelStatus},
    snapshot::{PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot},
    waiter::WaiterSnapshot,
};
pub(crate) use self::{series::LabelSeries, unmet::Unmet};
