//! The answers of introspection, as types that the server writes and clients read: snapshots, and what the service adds.
//!
//! Names of the fields are those of `GET /admission/openapi.json`. A field that a client can do without has a default, so that the
//! answers of other versions are read as well.

mod history;
mod journal;
mod labels;
mod overview;
mod section;

pub(super) use self::section::class_name;
pub use self::{
    history::{HistoryFrame, HistoryPage, HistoryRejection, HistoryRow},
    journal::JournalPage,
    labels::{Label, LabelPage, WaiterPage},
    overview::{Identity, Overview, Partition, PartitionSection, Partitions, Readiness},
    section::Section,
};
