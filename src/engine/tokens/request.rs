//! InForce request something is about.

use crate::{
    engine::ids::{JobId, LabelId},
    time::Timestamp,
};

/// InForce request a decision is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestRef {
    pub(crate) partition: u16,
    pub(crate) label: LabelId,
    pub(crate) job: JobId,
    /// When its wait began, if it has waited.
    pub(crate) since: Timestamp,
}

impl RequestRef {
    /// A request that has just come, and of whose job nothing needs to be known.
    pub(crate) const fn new(now: Timestamp, partition: u16, label: LabelId) -> Self {
        Self { partition, label, job: JobId::NONE, since: now }
    }
}
