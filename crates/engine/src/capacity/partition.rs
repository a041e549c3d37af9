//! One partition: its share of the limit, and what runs in it.

use std::cmp::Ordering;

use super::room::Credit;
use crate::shares::{WHOLE, ceil_share};
use crate::{
    plan::{PartitionMode, PartitionPlan},
    stall::Stall,
};

#[derive(Debug)]
pub(crate) struct Partition {
    pub(super) plan: PartitionPlan,
    /// Whether it was taken out of the settings: its new requests go to the default partition, and its running ones
    /// drain.
    pub(super) retired: bool,
    /// Guaranteed slots of the present limit.
    pub(super) share: usize,
    /// Slots below which the partition is owed the next freed one: the share, but never less than 1 for a part above
    /// zero, so that partitions take turns where the limit is smaller than their number.
    pub(super) owed: usize,
    /// Most requests that it ever runs.
    pub(super) cap: usize,
    /// Requests that it may run whatever the limit says.
    pub(super) overcommit: usize,
    /// Slots of its share that others never use.
    pub(super) withheld: usize,
    pub(super) running: usize,
    /// Slots of requests whose callers left before the answer.
    pub(super) abandoned: usize,
    /// What the waits for slots that it lent are worth.
    pub(super) credit: Credit,
    /// Requests that run besides, because its decisions don't bind.
    pub(super) over_limit: usize,
    /// Time since one of its slots came free.
    pub(super) stall: Stall,
}

impl Partition {
    pub(super) fn new(plan: PartitionPlan) -> Self {
        Self {
            plan,
            retired: false,
            share: 0,
            owed: 0,
            cap: usize::MAX,
            overcommit: 0,
            withheld: 0,
            running: 0,
            abandoned: 0,
            credit: Credit::default(),
            over_limit: 0,
            stall: Stall::default(),
        }
    }

    /// Compiled where it is asked, so that only what is used of it is looked up.
    #[inline(always)]
    pub(super) const fn view(&self) -> PartitionView<'_> {
        let &Self { ref plan, retired, share, owed, cap, running, over_limit, stall, .. } = self;
        PartitionView { plan, is_in_force: !retired, share, owed, cap, running, over_limit, stall }
    }

    /// Takes its part of a new limit.
    pub(super) fn resize(&mut self, limit: usize, share: usize) {
        self.share = share;
        self.owed = share.max(usize::from(self.plan.part > 0));
        (self.cap, self.overcommit) = (usize::MAX, 0);
        self.withheld = fraction(self.owed, self.plan.withheld);
        match self.plan.mode {
            PartitionMode::Burst => {}
            PartitionMode::HardCap => self.cap = self.owed,
            PartitionMode::Overcommit => {
                self.share = ceil_share(limit, self.plan.part);
                self.owed = self.share;
                self.overcommit = self.share;
            }
        }
    }

    /// Whether it may use slots that others lend. They come back when requests end. When abandoned work ends is not known, so
    /// a partition of whose share such work takes more than half has its share and no more. One that was removed has none, and only what
    /// waits there still comes.
    #[inline]
    pub(super) const fn may_borrow(&self) -> bool {
        let half = self.owed / 2;
        self.retired || self.abandoned <= if half == 0 { 1 } else { half }
    }

    /// Returns how many slots are free and not lent to others.
    #[inline]
    pub(super) const fn idle_withheld(&self) -> usize {
        self.withheld.saturating_sub(self.running)
    }
}

/// What others may know of a partition, by value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionView<'a> {
    pub(crate) plan: &'a PartitionPlan,
    /// Whether it is named by the settings, rather than draining after a reload that took it out of them.
    pub(crate) is_in_force: bool,
    pub(crate) share: usize,
    owed: usize,
    pub(crate) cap: usize,
    pub(crate) running: usize,
    pub(crate) over_limit: usize,
    pub(crate) stall: Stall,
}

impl PartitionView<'_> {
    /// Whether it runs less than it is owed, so that the next freed slot is for it.
    pub(crate) const fn is_owed(self) -> bool {
        self.running < self.owed
    }

    /// Whether it runs as many requests as its hard cap allows.
    pub(crate) fn is_at_hard_cap(self) -> bool {
        self.plan.mode == PartitionMode::HardCap && self.running >= self.cap
    }

    /// Whether there is something to say about the partition.
    pub(crate) const fn is_shown(self) -> bool {
        self.is_in_force || self.running + self.over_limit > 0
    }

    /// Compares how much of their shares two partitions use.
    pub(crate) fn compare_use(self, other: Self) -> Ordering {
        (self.running as u128 * other.owed as u128).cmp(&(other.running as u128 * self.owed as u128))
    }

    /// Returns its share of `places` in line.
    pub(crate) fn share_of(self, places: usize) -> usize {
        fraction(places, self.plan.part)
    }
}

/// Returns a part of a count, in parts per million, rounded down.
fn fraction(count: usize, part: u32) -> usize {
    // No line has trillions of places; beyond that, rounding first is exact enough.
    match count.checked_mul(part as usize) {
        Some(product) => product / WHOLE as usize,
        None => count / WHOLE as usize * part as usize,
    }
}
