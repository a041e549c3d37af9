//! What those see who record every step of the engine, or repeat it.

use crate::engine::{Engine, Key, waiters::Stage};
use crate::rejection::Reason;

impl Engine {
    /// Whether nothing has happened yet that a decision could depend on.
    pub(crate) fn is_fresh(&self) -> bool {
        let unused = |it: &crate::engine::Partition| {
            let counts = &it.counts;
            it.running == 0 && counts.admitted + counts.cancelled_waiting + counts.rejected.iter().sum::<u64>() == 0
        };
        let known = self.quotas.labels.ids().any(|id| self.quotas.labels.is_named(id));
        self.capacity.partitions.iter().all(unused)
            && self.queue.waiting.len() == 0
            && !known
            && !self.lifecycle.is_draining()
            && self.telemetry.reloads == 0
    }

    /// How many have not been told yet that their wait has ended.
    pub(crate) fn untold(&self) -> usize {
        self.notices.len()
    }

    /// Those of them after the first `known`: the number of the place, and why if there is no slot. Without those who have
    /// asked already and know it.
    pub(crate) fn told_since(&self, known: usize) -> impl Iterator<Item = (Key, Option<Reason>)> {
        self.notices.iter().skip(known).filter_map(|&key| {
            let reason = match self.queue.waiting.find(key)?.stage {
                Stage::Refused(refusal) => Some(refusal.reason),
                Stage::Gate | Stage::Line | Stage::Granted { .. } => None,
            };
            Some((key, reason))
        })
    }

    /// The present limit.
    pub(crate) const fn limit(&self) -> usize {
        self.capacity.limit
    }

    pub(crate) const fn mode(&self) -> crate::engine::plan::Mode {
        self.lifecycle.mode()
    }
}
