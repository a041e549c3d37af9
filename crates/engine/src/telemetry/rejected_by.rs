//! Rejections by reason and by what was in the way, of each partition and of a few labels: counted only where a history is kept.

use super::event::BlockingBound;
use crate::{Reason, ids::PartitionId};

const REASONS: usize = Reason::ALL.len();
const BOUNDS: usize = BlockingBound::ALL.len();

/// Rejections by reason and by what was in the way. Counts wrap around: only those of a second are compared.
#[derive(Clone, Debug)]
struct Rejections([[u32; BOUNDS]; REASONS]);

/// The number of rejections with this reason because of this bound.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RejectedCount {
    pub reason: Reason,
    pub by: BlockingBound,
    pub count: u32,
}

impl Rejections {
    const NONE: Self = Self([[0; BOUNDS]; REASONS]);

    fn counts(&self) -> Vec<RejectedCount> {
        let rows = Reason::ALL.into_iter().zip(&self.0);
        let cells = rows.flat_map(|(reason, row)| {
            let cells = BlockingBound::ALL.into_iter().zip(row);
            cells.map(move |(by, &count)| RejectedCount { reason, by, count })
        });
        cells.filter(|it| it.count > 0).collect()
    }
}

/// The rejections of each partition, and of each label that is followed. Without a row, nothing is counted.
#[derive(Debug, Default)]
pub(super) struct RejectedBy {
    partitions: Vec<Rejections>,
    /// The first row is that of all labels that are not followed.
    labels: Vec<Rejections>,
}

impl RejectedBy {
    pub(super) const fn is_on(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Counts from now on, for this number of partitions.
    pub(super) fn begin(&mut self, partitions: usize) {
        if !self.is_on() {
            self.labels.push(Rejections::NONE);
        }
        self.grow(partitions);
    }

    /// Makes room for this number of partitions, if anything is counted.
    pub(super) fn grow(&mut self, partitions: usize) {
        if self.is_on() {
            self.partitions.resize(partitions, Rejections::NONE);
        }
    }

    /// Counts rejections, if anything is counted: a comparison for a rejected request where no history is kept.
    #[inline]
    pub(super) fn count(&mut self, partition: PartitionId, row: u8, reason: Reason, by: BlockingBound, count: u32) {
        if self.is_on() {
            self.count_in_rows(partition, row, reason, by, count);
        }
    }

    #[inline(never)]
    fn count_in_rows(&mut self, partition: PartitionId, row: u8, reason: Reason, by: BlockingBound, count: u32) {
        let rows = [self.partitions.get_mut(partition.index()), self.labels.get_mut(usize::from(row))];
        for rejections in rows.into_iter().flatten() {
            let cell = &mut rejections.0[reason.index()][by as usize];
            *cell = cell.wrapping_add(count);
        }
    }

    /// Counts from zero in the row of a label.
    pub(super) fn clear(&mut self, row: u8) {
        let row = usize::from(row);
        if self.labels.len() <= row {
            self.labels.resize(row + 1, Rejections::NONE);
        }
        self.labels[row] = Rejections::NONE;
    }

    pub(super) fn of_partition(&self, partition: PartitionId) -> Vec<RejectedCount> {
        self.partitions.get(partition.index()).map_or_else(Vec::new, Rejections::counts)
    }

    pub(super) fn of_row(&self, row: u8) -> Vec<RejectedCount> {
        self.labels.get(usize::from(row)).map_or_else(Vec::new, Rejections::counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_before_a_history_is_kept_and_each_pair_has_a_count_afterwards() {
        let mut rejected = RejectedBy::default();
        rejected.count(PartitionId::DEFAULT, 0, Reason::Limit, BlockingBound::Reserved, 3);
        rejected.grow(1);
        assert!(rejected.of_partition(PartitionId::DEFAULT).is_empty() && rejected.of_row(0).is_empty());
        rejected.begin(1);
        rejected.clear(2);
        for (reason, by, count) in [
            (Reason::Limit, BlockingBound::Reserved, 3),
            (Reason::Limit, BlockingBound::Limit, 4),
            (Reason::Rate, BlockingBound::MaxPerMinute, 5),
        ] {
            rejected.count(PartitionId::DEFAULT, 2, reason, by, count);
        }
        let found = rejected.of_row(2);
        assert_eq!(found, rejected.of_partition(PartitionId::DEFAULT));
        assert_eq!(
            found.iter().map(|it| (it.reason, it.by, it.count)).collect::<Vec<_>>(),
            [
                (Reason::Limit, BlockingBound::Reserved, 3),
                (Reason::Limit, BlockingBound::Limit, 4),
                (Reason::Rate, BlockingBound::MaxPerMinute, 5),
            ]
        );
        rejected.begin(1);
        assert_eq!(rejected.of_row(2), found, "beginning again changes nothing");
        rejected.clear(2);
        assert!(rejected.of_row(2).is_empty());
    }

    #[test]
    fn bounds_are_listed_once_in_the_order_of_their_numbers() {
        for (index, bound) in BlockingBound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, index);
        }
        assert_eq!(BlockingBound::WorkerSlots as usize + 1, BOUNDS);
    }
}
