//! The store of a single process: the default, and the oracle that the other one is compared with.

mod counters;
#[cfg(test)]
mod counters_tests;
mod fair;
mod locks;
#[cfg(feature = "rows")]
mod row;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{sync::broadcast, time::Instant};

use self::{
    counters::{Cap, RateState},
    locks::Lock,
};
use super::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Key, Lease, LockAnswer, LockRequest, Locked,
    Notice, Notices, PendingRelease, Released, Renewed, Request, Store, StoreFuture, StoreTime, task::lock,
};
use crate::clock::{Clock, Shielded};

/// Most notices on their way to a listener that doesn't read them.
pub(super) const NOTICES: usize = 1_024;

/// Counts in the memory of this process.
///
/// Never fails and never waits. Time is Tokio's, or that of a [`Clock`].
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
enum Time {
    /// Tokio's, since this moment.
    Tokio(Instant),
    Custom(Box<Shielded>),
}

#[derive(Debug)]
struct Inner {
    time: Time,
    state: Mutex<State>,
    notices: broadcast::Sender<Notice>,
}

/// What is counted and held.
#[derive(Debug, Default)]
pub(super) struct State {
    caps: HashMap<Key, Cap>,
    rates: HashMap<Key, RateState>,
    locks: HashMap<Key, Lock>,
    /// Steps since what is over was thrown away.
    steps: u32,
    /// What came up in a step, to be sent once it is over.
    pub(super) notices: Vec<Notice>,
}

impl MemoryStore {
    /// Returns an empty store in Tokio's time.
    pub fn new() -> Self {
        Self::in_time(Time::Tokio(Instant::now()))
    }

    /// Returns an empty store in the time of `clock`.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        Self::in_time(Time::Custom(Box::new(Shielded::new(clock))))
    }

    fn in_time(time: Time) -> Self {
        let notices = broadcast::Sender::new(NOTICES);
        Self(Arc::new(Inner { time, state: Mutex::default(), notices }))
    }

    /// One step at one moment, in whole microseconds as in the other store.
    fn step<T>(&self, step: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = match &self.0.time {
            Time::Tokio(start) => micros(start.elapsed()),
            Time::Custom(clock) => clock.nanos() / 1_000,
        };
        let (result, notices) = {
            let mut state = lock(&self.0.state);
            (step(&mut state, now), std::mem::take(&mut state.notices))
        };
        for notice in notices {
            // Without a listener, no notice is needed.
            let _ = self.0.notices.send(notice);
        }
        result
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        Box::pin(async move { Ok(self.step(|state, now| state.acquire(request, now))) })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        Box::pin(async move { Ok(self.step(|state, now| state.renew(leases, now))) })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        Box::pin(async move { Ok(self.step(|state, now| state.release(leases, now))) })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        Box::pin(async move { Ok(self.step(|state, now| state.reserve(request, now))) })
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        Box::pin(async move { self.step(|state, now| state.draw(rate, most, now)) })
    }

    fn has_allotments(&self) -> bool {
        true
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        Box::pin(async move { Ok(self.step(|state, now| state.lock(request, now))) })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.step(|state, now| state.extend(lock, now))) })
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.step(|state, now| state.unlock(lock, now))) })
    }

    fn release_later(&self, debt: PendingRelease) {
        self.step(|state, now| match debt {
            PendingRelease::Lease(lease) => drop(state.release(&[lease], now)),
            PendingRelease::Allotment(request) => drop(state.reserve(&request, now)),
            PendingRelease::Lock(lock) => drop(state.unlock(&lock, now)),
        });
    }

    fn notices(&self) -> Notices {
        Notices::new(self.0.notices.subscribe())
    }

    fn health(&self) -> Health {
        Health::Up
    }
}

const fn at(micros: u64) -> StoreTime {
    StoreTime::from_micros(micros)
}

pub(super) fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
