//! What lending its slots costs a partition, and what it gets for that.
//!
//! A partition that asks for no more than its share is not refused for want of a slot: where others use what it lent, its
//! request waits in the *room for guarantees* for one of the next slots that come free. A server of its own that had the share
//! alone would have served the request at once, and would be done with it earlier by that wait. Since the request keeps its
//! place for so much longer here, more of the requests that follow would find all places taken than there.
//!
//! So the waits are added up. Each half of a service time of such waits pays for one request beyond the share, which waits for a
//! slot of its own partition. A whole service time would make up for the mean of what is lost, as the time of slots is
//! conserved; half of one also makes up for what is forgotten and for the first requests of a burst, whose waits are not over
//! yet. Where all partitions ask for more than their shares nothing is lent, no such wait comes about, and nothing is added: a
//! place to wait would only serve each of their requests later.

use std::time::Duration;

use super::Capacity;
use crate::{
    Timestamp,
    ids::PartitionId,
    nanos,
    plan::PartitionMode,
    tokens::{Ask, Claim},
};

/// Half of the credit is forgotten after this many times the time that a slot is held.
const MEMORY: u64 = 8;

/// The credit of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    /// Time that requests within the share waited for lent slots, less what was spent, in nanoseconds.
    waited: u64,
    /// Time when half of it is forgotten.
    ends: Timestamp,
}

impl Credit {
    /// Notes that a request within the share got a slot after a wait. The credit is never worth more requests than the share.
    fn earn(&mut self, now: Timestamp, wait: Duration, hold: Duration, share: usize) {
        if now >= self.ends {
            let window = Duration::from_nanos(nanos(hold).saturating_mul(MEMORY));
            self.waited = if now < self.ends.after(window) { self.waited / 2 } else { 0 };
            self.ends = now.after(window);
        }
        let most = price(hold).saturating_mul(u64::try_from(share).unwrap_or(u64::MAX));
        self.waited = self.waited.saturating_add(nanos(wait)).min(most);
    }

    /// Whether it pays for a request beyond the share.
    pub(super) fn pays(&self, hold: Duration) -> bool {
        self.waited >= price(hold)
    }

    /// Pays for a request beyond the share.
    fn spend(&mut self, hold: Duration) {
        self.waited = self.waited.saturating_sub(price(hold));
    }
}

fn price(hold: Duration) -> u64 {
    (nanos(hold) / 2).max(1)
}

impl Capacity {
    /// Returns what a further request of a partition may count on in the room for guarantees while `waiting` wait, if there is a
    /// place for it. No request can count on a slot that a pause holds back.
    pub(crate) fn claim(&self, partition: PartitionId, waiting: usize, hold: Duration) -> Option<Claim> {
        let it = &self.partitions[partition.index()];
        let inside = it.running + waiting + Ask::COST;
        if it.plan.mode == PartitionMode::Overcommit || self.is_paused() {
            return None;
        }
        if inside <= it.owed {
            return Some(Claim::Share);
        }
        let is_calm = it.running <= it.owed && inside <= it.owed + most_beyond(it.owed);
        (is_calm && it.credit.pays(hold)).then_some(Claim::Beyond)
    }

    /// Notes that a request of a partition within its share got a slot after a wait.
    pub(crate) fn waited(&mut self, now: Timestamp, partition: PartitionId, wait: Duration, hold: Duration) {
        let it = &mut self.partitions[partition.index()];
        it.credit.earn(now, wait, hold, it.owed);
    }

    /// Notes that a request of a partition waits in the room beyond its share.
    pub(crate) fn pay(&mut self, partition: PartitionId, hold: Duration) {
        self.partitions[partition.index()].credit.spend(hold);
    }
}

/// Returns how many requests beyond its share a partition may have inside, so that a row of refusals after a burst is short:
/// the square root of the share, which is what requests that come at random differ by.
const fn most_beyond(share: usize) -> usize {
    match share.checked_sub(1) {
        Some(less) => less.isqrt() + 1,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at;

    const HOLD: Duration = Duration::from_millis(100);

    #[test]
    fn half_of_a_service_time_of_waits_pays_for_a_request() {
        let mut credit = Credit::default();
        assert!(!credit.pays(HOLD));
        for wait in [30, 19] {
            credit.earn(at(0), Duration::from_millis(wait), HOLD, 10);
            assert!(!credit.pays(HOLD));
        }
        credit.earn(at(1), Duration::from_millis(1), HOLD, 10);
        assert!(credit.pays(HOLD));
        credit.spend(HOLD);
        assert!(!credit.pays(HOLD));
    }

    #[test]
    fn it_is_worth_no_more_requests_than_the_share_and_is_forgotten() {
        for share in [1, 3, 50] {
            let mut credit = Credit::default();
            (0..1_000).for_each(|_| credit.earn(at(0), HOLD, HOLD, share));
            let mut bought = 0;
            while credit.pays(HOLD) {
                credit.spend(HOLD);
                bought += 1;
            }
            assert_eq!(bought, share);
        }
        let mut credit = Credit::default();
        credit.earn(at(0), HOLD, HOLD, 10);
        credit.earn(at(1_599), Duration::ZERO, HOLD, 10);
        assert!(credit.pays(HOLD), "half of it is left");
        credit.earn(at(10_000), Duration::ZERO, HOLD, 10);
        assert!(!credit.pays(HOLD), "all of it is forgotten");
    }

    #[test]
    fn the_bound_is_the_square_root_rounded_up() {
        assert_eq!([0, 1, 2, 4, 5, 9, 10, 100, 101].map(most_beyond), [0, 1, 2, 2, 3, 3, 4, 10, 11]);
    }
}
