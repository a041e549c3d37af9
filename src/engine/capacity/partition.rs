//! One partition: its share of the limit, who runs and waits in it, and what happened to them.

#[cfg(feature = "introspect")]
use crate::engine::recent::Recent;
use crate::engine::{
    drain::Stall,
    histogram::Histogram,
    plan::{PartitionMode, PartitionPlan},
    shares::{WHOLE, ceil_share},
};
use crate::rejection::Reason;

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) plan: PartitionPlan,
    /// Taken out of the settings: what comes for it goes to the default partition, and what it has drains.
    pub(crate) retired: bool,
    /// What it is guaranteed of the present limit.
    pub(crate) share: usize,
    /// Below this it is owed the next freed slot: the share, but never less than 1 for a part above zero, so that
    /// partitions take turns where the limit is smaller than their number.
    pub(crate) owed: usize,
    /// Never runs more than this.
    pub(crate) cap: usize,
    /// Runs up to this many whatever the limit says.
    pub(crate) overcommit: usize,
    pub(crate) running: usize,
    /// How many run besides, because its decisions don't bind.
    pub(crate) outside: usize,
    /// Since when none of its slots came free.
    pub(crate) stall: Stall,
    pub(crate) counts: Counts,
    #[cfg(feature = "introspect")]
    pub(crate) recent: Recent,
}

/// What happened in a partition since the handle was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Requests that came.
    pub(crate) arrived: u64,
    /// Requests that ran, and those among them that had to wait.
    pub(crate) admitted: u64,
    pub(crate) queued: u64,
    /// Requests that ran although they would have waited or been rejected, because decisions did not bind.
    pub(crate) would_queue: u64,
    pub(crate) would_reject: [u64; Reason::ALL.len()],
    pub(crate) cancelled_waiting: u64,
    pub(crate) rejected: [u64; Reason::ALL.len()],
    pub(crate) successes: u64,
    pub(crate) overloads: u64,
    /// Among the successes, those whose trailers told of an overload.
    pub(crate) late_overloads: u64,
    pub(crate) cancelled: u64,
    pub(crate) ignored: u64,
    pub(crate) rtt: Histogram,
    pub(crate) wait: Histogram,
}

impl Partition {
    pub(crate) fn new(plan: PartitionPlan) -> Self {
        Self {
            plan,
            retired: false,
            share: 0,
            owed: 0,
            cap: usize::MAX,
            overcommit: 0,
            running: 0,
            outside: 0,
            stall: Stall::default(),
            counts: Counts::default(),
            #[cfg(feature = "introspect")]
            recent: Recent::default(),
        }
    }

    /// Takes its part of a new limit.
    pub(crate) fn resize(&mut self, limit: usize, share: usize) {
        self.share = share;
        self.owed = share.max(usize::from(self.plan.part > 0));
        (self.cap, self.overcommit) = (usize::MAX, 0);
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

    /// Whether there is something to say about it.
    pub(crate) const fn is_shown(&self) -> bool {
        !self.retired || self.running + self.outside > 0
    }

    /// Its share of so many places in line.
    pub(crate) fn share_of(&self, places: usize) -> usize {
        // Nobody has trillions of places; beyond that, rounding first is exact enough.
        match places.checked_mul(self.plan.part as usize) {
            Some(product) => product / WHOLE as usize,
            None => places / WHOLE as usize * self.plan.part as usize,
        }
    }
}
