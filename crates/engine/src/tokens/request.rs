//! The request that an event is about.

use crate::{
    Timestamp,
    ids::{LabelId, PartitionId, RunId},
};

/// The request that a decision is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestRef {
    pub(crate) partition: PartitionId,
    pub(crate) label: LabelId,
    pub(crate) run: RunId,
    /// Time when its wait began, if it has waited.
    pub(crate) since: Timestamp,
}

impl RequestRef {
    /// Returns a request that has just come, and whose run is of no interest.
    pub(crate) const fn new(now: Timestamp, partition: PartitionId, label: LabelId) -> Self {
        Self { partition, label, run: RunId::NONE, since: now }
    }
}
