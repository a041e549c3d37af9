//! Slots that are held back for partitions below their share whose callers can't wait: for each its own, so that the partition
//! that comes first does not take what another one missed.
//!
//! How many in all follows from how much of the limit such partitions need: where requests that come at random need a part `p`
//! of the slots and others take the rest, a request that finds all of `k` slots taken is as rare as `p^k` (a birth-death chain, for
//! each limit). While there are not enough, a partition goes before one that was refused fewer times in a row.

use std::time::Duration;

use super::reservation::Reservation;
use crate::{Timestamp, ids::PartitionId};

/// One in twenty of such requests may find nothing left.
const MISSED: u64 = 50_000;
const WHOLE: u64 = 1_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct ForPartitions {
    /// Partitions that missed a slot lately. No more than there are in the settings.
    all: Vec<Missed>,
    /// Slots that are held back in all.
    pub(super) total: usize,
    /// Requests of such partitions in this window and in the one before, each as long as a request holds its slot.
    asked: usize,
    asked_before: usize,
    window: Duration,
    ends: Timestamp,
}

#[derive(Clone, Debug)]
struct Missed {
    partition: PartitionId,
    reservation: Reservation,
    /// Requests refused in a row. Requests that are served end the row with the window, and not before: a slot that is held back
    /// from a waiter must not become its own without a decision about waiters.
    in_a_row: u32,
    is_served: bool,
}

impl ForPartitions {
    /// Returns how many slots are held back from a request: all of them if it `is_beyond` its share, else those of partitions
    /// that were refused more often in a row than its own.
    #[inline]
    pub(super) fn held_back_from(&self, partition: PartitionId, is_beyond: bool) -> usize {
        if is_beyond || self.total == 0 { self.total } else { self.of_the_more_starved(partition) }
    }

    #[cold]
    fn of_the_more_starved(&self, partition: PartitionId) -> usize {
        let own = self.all.iter().find(|it| it.partition == partition).map_or(0, |it| it.in_a_row);
        self.all.iter().filter(|it| it.in_a_row > own).map(|it| it.reservation.count).sum()
    }

    /// Returns when any of them may shrink by itself; never, where nothing is held back.
    pub(super) fn next_decay(&self) -> Timestamp {
        self.all.iter().filter_map(|it| it.reservation.ends).min().unwrap_or(Timestamp::NEVER)
    }

    /// Notes that a request of a partition below its share was refused while nothing was left.
    pub(super) fn reserve(&mut self, now: Timestamp, hold: Duration, limit: usize, partition: PartitionId) {
        self.window = hold.max(Duration::from_nanos(1));
        self.pass(now);
        self.asked += 1;
        let most = most_slots(limit, self.asked.max(self.asked_before));
        let index = self.all.iter().position(|it| it.partition == partition).unwrap_or_else(|| {
            self.all.push(Missed { partition, reservation: Reservation::default(), in_a_row: 0, is_served: false });
            self.all.len() - 1
        });
        let (own, in_a_row) = (self.all[index].reservation.count, self.all[index].in_a_row.saturating_add(1));
        let mut room = most.saturating_sub(self.total - own);
        if own == 0 && room == 0 {
            let taken = self.all.iter_mut().filter(|it| it.reservation.count > 0 && it.in_a_row < in_a_row);
            if let Some(less) = taken.min_by_key(|it| it.in_a_row).filter(|it| it.partition != partition) {
                less.reservation.trim(less.reservation.count - 1);
                room += 1;
            }
        }
        let it = &mut self.all[index];
        it.in_a_row = in_a_row;
        it.reservation.reserve(now, hold, room);
        self.add_up();
    }

    /// Notes that a request of a partition below its share takes one of the `left` slots.
    pub(super) fn take(&mut self, left: usize, partition: PartitionId) {
        self.asked += 1;
        let total = self.total;
        if let Some(it) = self.all.iter_mut().find(|it| it.partition == partition) {
            it.is_served = true;
            it.reservation.take(left.saturating_sub(total - it.reservation.count));
        }
    }

    /// Shrinks all of them to what a limit allows.
    pub(super) fn trim(&mut self, limit: usize) {
        let mut most = most_slots(limit, self.asked.max(self.asked_before));
        for it in &mut self.all {
            it.reservation.trim(most);
            most -= it.reservation.count;
        }
        self.add_up();
    }

    /// Shrinks each by what was not needed lately, and forgets those that are gone.
    pub(super) fn decay(&mut self, now: Timestamp) {
        self.pass(now);
        for it in &mut self.all {
            if it.is_served && it.reservation.ends.is_some_and(|ends| ends <= now) {
                (it.in_a_row, it.is_served) = (0, false);
            }
            it.reservation.decay(now);
        }
        self.all.retain(|it| it.reservation.ends.is_some());
        self.add_up();
    }

    fn add_up(&mut self) {
        self.total = self.all.iter().map(|it| it.reservation.count).sum();
    }

    fn pass(&mut self, now: Timestamp) {
        if now >= self.ends {
            self.asked_before = if now < self.ends.after(self.window) { self.asked } else { 0 };
            (self.asked, self.ends) = (0, now.after(self.window));
        }
    }
}

/// Returns how many of `limit` slots may be held back where `asked` requests below their shares ask while a slot is held: a
/// quarter at most.
fn most_slots(limit: usize, asked: usize) -> usize {
    let most = (limit / 4).max(1);
    let whole = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
    let needed = u64::try_from(asked).unwrap_or(u64::MAX).saturating_mul(WHOLE) / whole;
    let (mut slots, mut missed) = (0, WHOLE);
    while missed > MISSED && slots < most {
        missed = missed * needed.min(WHOLE) / WHOLE;
        slots += 1;
    }
    slots.max(3).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_millis(100);

    fn partition(number: usize) -> PartitionId {
        PartitionId::from_index(number).unwrap()
    }

    #[test]
    fn as_many_are_held_back_as_the_requests_need_with_no_step_between_limits() {
        let half = [8, 20, 40, 49, 50, 51, 100, 1_000].map(|limit| most_slots(limit, limit / 2));
        assert_eq!(half, [2, 5, 5, 5, 5, 5, 5, 5]);
        assert_eq!([0, 5, 20, 50, 80, 100, 1_000].map(|asked| most_slots(100, asked)), [3, 3, 3, 5, 14, 25, 25]);
        assert_eq!([1, 2, 4, 12, 13].map(|limit| most_slots(limit, limit)), [1, 1, 1, 3, 3]);
        for limit in 1..2_000 {
            let now_and_next = [limit, limit + 1].map(|it| most_slots(it, it * 3 / 5));
            assert!(now_and_next[0].abs_diff(now_and_next[1]) <= 1, "no step at {limit}: {now_and_next:?}");
        }
    }

    #[test]
    fn each_partition_has_its_own_and_the_more_starved_goes_first() {
        let mut all = ForPartitions::default();
        for number in 1..4 {
            all.reserve(Timestamp::ZERO, HOLD, 100, partition(number));
        }
        assert_eq!((all.total, all.held_back_from(partition(0), true)), (3, 3));
        assert_eq!(all.held_back_from(partition(1), false), 0, "all three missed one");
        all.reserve(Timestamp::ZERO, HOLD, 100, partition(3));
        assert_eq!(all.held_back_from(partition(1), false), 1, "the third missed two");
        assert_eq!(all.held_back_from(partition(9), false), 3);
        all.take(3, partition(3));
        assert_eq!(all.held_back_from(partition(1), false), 1, "until its window ends");
        all.decay(Timestamp::ZERO.after(HOLD / 2));
        assert_eq!((all.held_back_from(partition(3), false), all.held_back_from(partition(1), false)), (2, 0));
    }

    #[test]
    fn where_there_are_too_few_the_more_starved_takes_them_from_the_others() {
        let mut all = ForPartitions::default();
        all.reserve(Timestamp::ZERO, HOLD, 4, partition(1));
        all.reserve(Timestamp::ZERO, HOLD, 4, partition(2));
        assert_eq!((all.total, all.held_back_from(partition(2), false)), (1, 0), "as starved as the first");
        all.reserve(Timestamp::ZERO, HOLD, 4, partition(2));
        assert_eq!((all.total, all.held_back_from(partition(1), false)), (1, 1));
        all.decay(Timestamp::ZERO.after(HOLD * 2));
        assert_eq!((all.total, all.next_decay()), (0, Timestamp::NEVER));
    }
}
