//! Settings of leases, one method each.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Inner, Leases, allotment::Shares};
use crate::store::{MemoryStore, Store, backoff::Seeds, poll_queue::PollQueues};

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
    /// After how long the store takes back what is not renewed; 10 s unless set, 100 ms at least.
    ///
    /// A process that dies gives its leases back after this time; one that is stopped for longer loses them.
    pub const fn expiry(mut self, expiry: Duration) -> Self {
        self.expiry = if expiry.as_millis() < 100 { Duration::from_millis(100) } else { expiry };
        self
    }

    /// How long [`Leases::wait`] waits; 2 s unless set.
    pub const fn wait_budget(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Whether this process holds blocks of capacity and admits from them without a round trip; off unless set.
    ///
    /// The caps hold all the same. What one process holds and does not use is missing elsewhere, until somebody
    /// waits for it or the next renewal: for caps that are much larger than the number of processes.
    pub const fn local_shares(mut self, local_shares: bool) -> Self {
        self.local_shares = local_shares;
        self
    }

    /// Makes all jitter repeatable, for tests.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Leases from `store`.
    pub fn build(self, store: Arc<dyn Store>) -> Leases {
        Leases(Arc::new(Inner {
            waits: PollQueues::default(),
            refills: PollQueues::default(),
            seeds: Seeds::new(self.seed),
            single: Mutex::default(),
            shares: Mutex::new(Shares::new(self.expiry)),
            local: MemoryStore::new(),
            driver: Mutex::default(),
            store,
            settings: self,
        }))
    }
}
