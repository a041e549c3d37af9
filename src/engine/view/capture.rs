//! What a recorder of every step of the engine sees, or a replay of the steps.

use crate::{
    engine::{
        Engine,
        ids::{Key, PartitionId},
        plan::Mode,
        tokens::Stage,
    },
    rejection::Reason,
};

impl Engine {
    /// Whether nothing has happened yet that a decision could depend on.
    pub(crate) fn is_fresh(&self) -> bool {
        let unused = |(number, it): (PartitionId, &crate::engine::capacity::Partition)| {
            let counts = self.telemetry.counts(number);
            it.running() == 0 && counts.admitted + counts.cancelled_waiting + counts.rejected.iter().sum::<u64>() == 0
        };
        let known = self.quotas.ids().any(|id| self.quotas.is_named(id));
        let is_new = !self.lifecycle.is_draining() && self.telemetry.reloads() == 0;
        self.capacity.partitions().all(unused) && self.queue.entries() == 0 && !known && is_new
    }

    /// Returns how many waiters have not been told yet that their wait has ended.
    pub(crate) fn pending_notices(&self) -> usize {
        self.notices.len()
    }

    /// Returns the waits that ended after the first `known`: the number of the place, and why if there is no slot.
    /// Waiters that have asked already, and so know it, are left out.
    pub(crate) fn ended_since(&self, known: usize) -> impl Iterator<Item = (Key, Option<Reason>)> {
        self.notices.iter().skip(known).filter_map(|&key| {
            let reason = match self.queue.find(key)?.stage {
                Stage::Refused(refusal) => Some(refusal.reason),
                Stage::Gate | Stage::Line | Stage::Granted { .. } => None,
            };
            Some((key, reason))
        })
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.lifecycle.mode()
    }
}
