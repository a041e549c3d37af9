//! Trunk reservation, as in telephone networks: slots that are held back for requests below the share of their partition, label or level
//! that can't wait for it.
//!
//! Percentages are guarantees, but the caller that comes most often takes what is free before the others come. A request below its share
//! that can wait gets the next freed slot; a request that is refused can't. So some of what comes free is held back from requests beyond
//! their share. A few slots protect much traffic, since each slot that is taken is replaced by the next slot that comes free.
//!
//! The size of a reservation is found from what such requests took lately. It is 1 to begin with, and grows by 1 with each request that is
//! refused because all of it is taken, but never beyond what was taken lately, nor beyond the bound. It shrinks to what was taken at once,
//! and what was neither taken nor missed for as long as a request holds its slot is gone. All of that follows from times alone: when the
//! reservation is looked at makes no difference. A reservation is one number for all partitions, labels or requests of a level together, so
//! names that strangers invent add nothing.

use std::time::Duration;

use crate::{Timestamp, words::nanos};

/// Returns how many of `limit` slots may be held back for labels, and for levels: a fiftieth, so that a flooded server uses 98 %
/// of them at least, or three where that is more, and never more than a quarter.
pub(super) fn most_slots(limit: usize) -> usize {
    (limit / 50).max(3).min(limit / 4).max(1)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reservation {
    /// Units held back.
    pub(super) count: usize,
    /// Units of these that were taken in this window, and in the one before.
    taken: usize,
    taken_before: usize,
    /// Units of these that were gone at once in this window, and in the one before.
    depth: usize,
    depth_before: usize,
    /// Whether a request missed a unit in this window.
    missed: bool,
    /// Half of the time that a request holds its slot, in nanoseconds.
    window: u64,
    /// When the window ends, so that the reservation may shrink by itself; `None` where nothing is held back.
    pub(super) ends: Option<Timestamp>,
}

impl Reservation {
    /// Notes that a request below its share was refused while nothing was left. `hold` is how long a request holds its
    /// slot.
    pub(super) fn reserve(&mut self, now: Timestamp, hold: Duration, most: usize) {
        if self.ends.is_none() {
            let window = (nanos(hold) / 2).max(1);
            let ends = Some(now.after(Duration::from_nanos(window)));
            *self = Self { count: most.min(1), window, ends, ..Self::default() };
        } else if self.count == 0 {
            self.count = most.min(1);
        } else if self.count < most.min(self.taken.saturating_add(self.taken_before)) {
            self.count += 1;
        }
        (self.missed, self.depth) = (true, self.depth.max(self.count));
    }

    /// Notes that a request below its share takes one of the `left` units.
    pub(super) fn take(&mut self, left: usize) {
        if left <= self.count {
            self.taken += 1;
            self.depth = self.depth.max(self.count + 1 - left.max(1));
        }
    }

    /// Shrinks the reservation to `most`.
    pub(super) fn trim(&mut self, most: usize) {
        self.count = self.count.min(most);
    }

    /// Shrinks the reservation by what was not needed lately.
    pub(super) fn decay(&mut self, now: Timestamp) {
        let Some(ends) = self.ends.filter(|&ends| ends <= now) else { return };
        let next = ends.after(Duration::from_nanos(self.window));
        if (self.taken == 0 && !self.missed) || next <= now {
            *self = Self::default();
            return;
        }
        self.count = self.count.min(self.depth.max(self.depth_before).max(1));
        (self.taken_before, self.depth_before) = (self.taken, self.depth);
        (self.taken, self.depth, self.missed) = (0, 0, false);
        self.ends = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at;

    const HOLD: Duration = Duration::from_millis(100);

    #[test]
    fn refusals_alone_reserve_one() {
        let mut it = Reservation::default();
        (0..1_000).for_each(|_| it.reserve(at(0), HOLD, 10));
        assert_eq!((it.count, it.ends), (1, Some(at(50))));
    }

    #[test]
    fn it_is_no_more_than_what_was_taken_lately_nor_than_the_bound() {
        for most in 0..6 {
            let mut it = Reservation::default();
            it.reserve(at(0), HOLD, most);
            for taken in 1..10 {
                it.take(1);
                it.reserve(at(0), HOLD, most);
                it.reserve(at(0), HOLD, most);
                assert!(it.count <= taken && it.count <= most, "{it:?}");
            }
            assert_eq!(it.count, most, "it grows as long as all of it is taken");
        }
    }

    #[test]
    fn it_shrinks_to_what_was_taken_at_once() {
        let mut it = Reservation::default();
        it.reserve(at(0), HOLD, 10);
        for _ in 0..9 {
            it.take(1);
            it.reserve(at(0), HOLD, 10);
        }
        assert_eq!(it.count, 9);
        for (time, left, count) in [(50, 9, 9), (100, 8, 9), (150, 8, 2), (200, 2, 2), (250, 2, 1)] {
            it.decay(at(time - 1));
            (0..5).for_each(|_| it.take(left));
            it.decay(at(time + 49));
            assert_eq!(it.count, count, "after {time}");
        }
    }

    #[test]
    fn it_is_gone_within_one_service_time_of_its_last_use_whenever_it_is_looked_at() {
        for used in (0..200).step_by(7) {
            for look in (1..400).step_by(3) {
                let mut it = Reservation::default();
                it.reserve(at(0), HOLD, 10);
                for time in (0..=used).step_by(25) {
                    it.decay(at(time));
                    it.take(1);
                }
                let last = used / 25 * 25;
                it.decay(at(last + look));
                assert!(look < 100 || it.count == 0, "{it:?} at {look} after the last use");
                assert!(look > 50 || it.count > 0, "{it:?} at {look} after the last use");
            }
        }
    }

    #[test]
    fn one_look_after_a_long_time_does_what_many_looks_do() {
        for last in 0..300 {
            let mut often = Reservation::default();
            often.reserve(at(0), HOLD, 10);
            let mut once = often;
            (1..=last).for_each(|time| often.decay(at(time)));
            once.decay(at(last));
            assert_eq!((often.count, often.ends), (once.count, once.ends), "at {last}");
        }
    }
}
