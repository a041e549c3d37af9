//! What can be seen of an engine.

#[cfg(feature = "introspect")]
mod capture;
mod label;
mod label_status;
mod snapshot;
mod waiter;

#[cfg(feature = "introspect")]
pub(crate) use self::label::LabelRow;
pub use self::{
    label::LabelSnapshot,
    label_status::{Blocked, LabelStatus},
    snapshot::{PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot},
    waiter::WaiterSnapshot,
};
