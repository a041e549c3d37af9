//! The status of partitions.

use super::LabelStatus;
use crate::{
    engine::{Engine, ids::LabelId, telemetry::Fares, tokens::Ask},
    time::Timestamp,
};

impl Engine {
    /// Returns the status of each partition that is shown, in their order: the worse of what is in the way of its next
    /// request, and of what became of most requests of the last seconds.
    pub(crate) fn partition_statuses(&self, now: Timestamp) -> Vec<LabelStatus> {
        let shown = self.capacity.partitions().filter(|(_, it)| it.is_shown());
        let statuses = shown.map(|(number, _)| {
            let recent = match self.telemetry.recently(now, number) {
                None => LabelStatus::Accepting,
                Some(Fares::Saturated) => LabelStatus::Saturated,
                Some(Fares::Throttled) => LabelStatus::Throttled,
                Some(Fares::Unavailable) => LabelStatus::Unavailable,
            };
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
