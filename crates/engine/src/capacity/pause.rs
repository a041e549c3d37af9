//! Pauses: all slots are held back for a while.

use std::time::Duration;

use super::Capacity;
use crate::{Timestamp, ids::PartitionId};

impl Capacity {
    /// Has no request start under the limit before then; [`NEVER`](Timestamp::NEVER) ends a pause.
    pub(crate) const fn pause(&mut self, until: Timestamp) {
        self.paused_until = until;
    }

    /// Whether no request may start under the limit.
    pub(super) const fn is_paused(&self) -> bool {
        self.paused_until.as_nanos() != Timestamp::NEVER.as_nanos()
    }

    /// Returns for how long no request of a partition may start. One that has slots of its own goes on in a pause.
    pub(crate) fn pause_left(&self, now: Timestamp, partition: PartitionId) -> Duration {
        let holds = self.is_paused() && self.partitions[partition.index()].overcommit == 0;
        if holds { self.paused_until.since(now) } else { Duration::ZERO }
    }
}
