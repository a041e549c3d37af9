//! Settings of leases, one method each.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Inner, Leases, allotment::Shares};
use crate::{MemoryStore, Store, backoff::Seeds, poll_queue::PollQueues, task::Task};

/// Settings of [`Leases`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LeasesBuilder {
    pub(super) expiry: Duration,
    pub(super) wait: Duration,
    pub(super) local_shares: bool,
    pub(super) seed: Option<u64>,
}

impl LeasesBuilder {
    /// How long a lease lives without a renewal; 10 s unless set, 100 ms at least.
    ///
    /// The leases of a process that dies come back after this time; a process that is stopped for longer loses them.
    pub const fn expiry(mut self, expiry: Duration) -> Self {
        self.expiry = if expiry.as_millis() < 100 { Duration::from_millis(100) } else { expiry };
        self
    }

    /// How long [`Leases::wait`] waits; 2 s unless set.
    pub const fn wait_budget(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whether this process holds allotments and admits from them without a round trip; off unless set.
    ///
    /// The caps hold all the same. Units that one process holds and does not use are missing elsewhere, until another
    /// process waits for them or the next renewal. So this is for caps that are much larger than the number of
    /// processes. A store without allotments is asked for each request all the same.
    pub const fn local_shares(mut self, local_shares: bool) -> Self {
        self.local_shares = local_shares;
        self
    }

    /// Makes all jitter and all tokens repeatable, for tests and simulations.
    ///
    /// Two users of one store never have the same seed: the tokens of one would be those of the other.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns leases from `store`.
    pub fn build(mut self, store: Arc<dyn Store>) -> Leases {
        self.local_shares &= store.has_allotments();
        Leases(Arc::new(Inner {
            waits: PollQueues::default(),
            refills: PollQueues::default(),
            seeds: Seeds::new(self.seed),
            single: Mutex::default(),
            shares: Mutex::new(Shares::new(self.expiry)),
            local: MemoryStore::new(),
            renews: Task::default(),
            hears: Task::default(),
            store,
            settings: self,
        }))
    }
}
