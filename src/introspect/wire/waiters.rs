//! The waiters of a label.

use serde::{Deserialize, Serialize};

use super::BlockedBy;
use crate::engine::WaiterSnapshot;

/// A page of the waiters of a label.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct WaiterPage {
    /// The namespace of the label; empty if it has none.
    #[serde(default)]
    pub namespace: String,
    /// The label.
    #[serde(default)]
    pub label: String,
    /// The number of waiters of the label.
    pub total: usize,
    /// The number of waiters before this page.
    #[serde(default)]
    pub offset: usize,
    /// The greatest number of waiters of a page.
    #[serde(default)]
    pub limit: usize,
    /// The offset of the next page; `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The waiters, in the order of arrival.
    pub waiters: Vec<Waiter>,
}

/// A waiter; see [`WaiterSnapshot`](crate::snapshot::WaiterSnapshot).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Waiter {
    pub place: usize,
    pub stage: String,
    pub class: String,
    #[serde(default)]
    pub partition: String,
    #[serde(default)]
    pub criticality: String,
    pub run: Option<String>,
    pub waited_seconds: f64,
    #[serde(default)]
    pub ends_in_seconds: Option<f64>,
    pub estimated_wait_seconds: Option<f64>,
    pub blocked_by: Option<BlockedBy>,
}

impl From<WaiterSnapshot> for Waiter {
    fn from(waiter: WaiterSnapshot) -> Self {
        Self {
            place: waiter.place,
            stage: waiter.stage.to_owned(),
            class: waiter.class,
            partition: waiter.partition,
            criticality: waiter.criticality.to_owned(),
            run: waiter.run,
            waited_seconds: waiter.waited_seconds,
            ends_in_seconds: waiter.ends_in_seconds,
            estimated_wait_seconds: waiter.estimated_wait_seconds,
            blocked_by: waiter.blocked_by.as_ref().map(BlockedBy::from),
        }
    }
}
