//! For which requests slots are held back, and from which; how many is up to [`Reservation`].
//!
//! They are held back for partitions. Where no request can wait, there is no line in which labels could take turns, and none from which a
//! more important request could push out a less important one. There, slots are also held back for labels below their fair share (the limit
//! over the labels that are active), and for levels of importance. A request that is beyond the share of its own leaves them alone.
//!
//! A reservation begins with a request that found nothing left. While slots are free, nothing is reserved: a request that is refused
//! because of a reservation adds nothing to any.

use std::time::Duration;

use super::{
    for_partitions::ForPartitions,
    reservation::{Reservation, most_slots},
};
use crate::{
    Timestamp,
    ids::{Level, PartitionId},
};

/// All reservations.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// The slots that are held back for partitions.
    pub(super) partitions: ForPartitions,
    labels: Reservation,
    levels: [Reservation; Level::COUNT],
    /// Time when any of them may shrink by itself; never, where nothing is held back.
    pub(super) next_decay: Timestamp,
}

impl Reservations {
    pub(super) fn none() -> Self {
        Self { next_decay: Timestamp::NEVER, ..Self::default() }
    }

    /// Returns how many slots are held back for requests more important than `level`.
    fn above(&self, level: Level) -> usize {
        self.levels[..level.index()].iter().map(|it| it.count).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Reservation> {
        std::iter::once(&self.labels).chain(&self.levels)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Reservation> {
        std::iter::once(&mut self.labels).chain(&mut self.levels)
    }

    fn find_next_decay(&mut self) {
        let next = self.all().filter_map(|it| it.ends).min().unwrap_or(Timestamp::NEVER);
        self.next_decay = next.min(self.partitions.next_decay());
    }

    /// Returns how many slots are held back for labels, and for requests more important than `level`.
    pub(super) fn slots_for_labels(&self) -> usize {
        self.labels.count
    }

    pub(super) fn slots_above(&self, level: Level, limit: usize) -> usize {
        self.above(level).min(most_slots(limit))
    }

    /// Reserves a slot for the partition, label and level that the request is `below` the share of.
    pub(super) fn reserve_slot(&mut self, now: Timestamp, hold: Duration, limit: usize, below: Below) {
        if !below.is_any() {
            return;
        }
        let most = most_slots(limit);
        if let Some(partition) = below.partition {
            self.partitions.reserve(now, hold, limit, partition);
        }
        if below.label {
            self.labels.reserve(now, hold, most);
        }
        if let Some(level) = below.level {
            self.levels[level.index()].reserve(now, hold, most);
        }
        self.find_next_decay();
    }

    /// Notes on which reservations a request draws that takes one of the `left` slots. With its partition, if that runs less
    /// than it is owed.
    pub(super) fn draw_on_slots(&mut self, left: usize, owed: Option<PartitionId>, is_label_below: bool, level: Level) {
        if let Some(partition) = owed {
            self.partitions.take(left, partition);
        }
        if is_label_below {
            self.labels.take(left);
        }
        let above = self.above(level);
        self.levels[level.index()].take(left.saturating_sub(above));
    }

    /// Shrinks each reservation by what was not needed lately.
    pub(super) fn decay(&mut self, now: Timestamp) {
        self.all_mut().for_each(|it| it.decay(now));
        self.partitions.decay(now);
        self.find_next_decay();
    }

    /// Shrinks all reservations to what this limit allows.
    pub(super) fn trim(&mut self, limit: usize) {
        let most = most_slots(limit);
        self.all_mut().for_each(|it| it.trim(most));
        self.partitions.trim(limit);
        self.find_next_decay();
    }
}

/// The shares that a request rejected for want of a slot is below.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Below {
    pub(super) partition: Option<PartitionId>,
    pub(super) label: bool,
    pub(super) level: Option<Level>,
}

impl Below {
    pub(crate) const fn is_any(&self) -> bool {
        self.partition.is_some() || self.label || self.level.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reservations {
        /// Asserts that no more is held back than the limit allows, and that nothing is for ever.
        pub(in crate::capacity) fn check_all(&self, limit: usize) {
            let next = self.all().filter_map(|it| it.ends).min().unwrap_or(Timestamp::NEVER);
            assert_eq!(self.next_decay, next.min(self.partitions.next_decay()), "the next decay is known");
            assert!(self.all().map(|it| it.count).all(|count| count <= most_slots(limit)), "{self:?}");
            assert!(self.partitions.total <= (limit / 4).max(1), "{self:?}");
            assert!(self.all().all(|it| it.count == 0 || it.ends.is_some()), "{self:?}");
        }

        /// Whether anything is held back where no request can wait.
        pub(in crate::capacity) fn are_for_labels_or_levels(&self) -> bool {
            self.labels.count + self.levels.iter().map(|it| it.count).sum::<usize>() > 0
        }
    }
}
