//! The status of partitions.

use super::LabelStatus;
use crate::{Engine, Timestamp, ids::LabelId, tokens::Ask};

impl Engine {
    /// Returns the status of each partition that is shown, in their order: the worse of what is in the way of its next
    /// request, and of what became of most requests of the last seconds.
    pub fn partition_statuses(&self, now: Timestamp) -> Vec<LabelStatus> {
        let shown = self.capacity.partitions().filter(|(_, it)| it.is_shown());
        let statuses = shown.map(|(number, _)| {
            let recent = self.telemetry.last_seconds(now, number, false).mostly_rejected();
            let recent = recent.map_or(LabelStatus::Accepting, LabelStatus::from);
            let next = if self.lifecycle.is_draining() {
                LabelStatus::Unavailable
            } else if self.may_run(&Ask::of(number), LabelId::DEFAULT) || self.lets_all_through(number) {
                LabelStatus::Accepting
            } else {
                LabelStatus::Saturated
            };
            next.max(recent)
        });
        statuses.collect()
    }
}
