//! The answers of introspection, as types that the server writes and clients read.
//!
//! Names and order of the fields are those of `GET /admission/openapi.json`. A field that a client can do without has a default,
//! so that the answers of other versions are read as well.

mod capture;
mod history;
mod journal;
mod labels;
mod overview;
mod section;
mod verdict;
mod waiters;
mod words;

pub(super) use self::section::class_name;
pub use self::{
    capture::CaptureStatus,
    history::{HistoryFrame, HistoryPage, HistoryRefusal, HistoryRow},
    journal::{Before, JournalEntry, JournalPage},
    labels::{Label, LabelPage},
    overview::{Identity, Overview, Partition, PartitionSection, Partitions, Quantiles, Readiness, Shadow, Store},
    section::{BlockedBy, Rule, Section},
    verdict::{LimitMove, LimitState, Recent, Refused, Verdict},
    waiters::{Waiter, WaiterPage},
    words::{EntryKind, LabelSort},
};
