//! What holds for slots, computed anew: slow, and for tests alone.

use std::time::Duration;

use super::{Capacity, Partition};
use crate::ids::{Level, PartitionId};

impl Capacity {
    /// Asserts what holds after every verb. `all_wait` where requests may wait, so that nothing is held back for
    /// labels.
    pub(crate) fn check(&self, all_wait: bool) {
        let sum = |count: fn(&Partition) -> usize| self.partitions.iter().map(count).sum::<usize>();
        assert_eq!(self.running, sum(|it| it.running), "running requests are conserved");
        assert_eq!(self.over_limit, sum(|it| it.over_limit), "requests over the limit are conserved");
        assert_eq!(self.running, self.levels.iter().sum::<usize>(), "running requests have a level");
        assert!(self.limit >= 1, "the limit is never below 1");
        self.reserved.check_all(self.limit);
        assert_eq!(self.withheld, sum(Partition::idle_withheld), "what is not lent is counted");
        assert!(!all_wait || !self.reserved.are_for_labels_or_levels(), "held back for labels that can wait");
    }

    /// Returns the numbers of all partitions.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = PartitionId> + Clone + use<> {
        (0..self.partitions.len()).map_while(PartitionId::from_index)
    }

    /// Whether a partition has paid for a request beyond its share.
    pub(crate) fn pays(&self, partition: PartitionId, hold: Duration) -> bool {
        self.partitions[partition.index()].credit.pays(hold)
    }

    /// Returns how many requests of each level run.
    pub(crate) const fn levels(&self) -> [usize; Level::COUNT] {
        self.levels
    }

    /// Whether a partition runs no more requests than it may whatever the limit says.
    pub(crate) fn is_within_overcommit(&self, partition: PartitionId) -> bool {
        let it = &self.partitions[partition.index()];
        it.running <= it.overcommit
    }
}
