//! The store of a single process: the default, and the oracle that the other one is compared with.

mod counters;
#[cfg(test)]
mod counters_tests;
mod fair;
mod locks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use self::{counters::Counters, locks::Locks};
use super::{
    Acquired, Allotment, AllotmentRequest, Answer, Claim, DrawOutcome, Health, Lease, LockAnswer, LockRequest, Locked,
    Notice, Notices, PendingRelease, Released, Renewed, Request, Store, StoreTime,
};
use crate::clock::{Clock, TimeSource};

/// Most notices on their way to a listener that doesn't read them.
pub(super) const NOTICES: usize = 1_024;

/// Counts in the memory of this process.
///
/// Never fails and never waits. Time is Tokio's, or that of a [`Clock`].
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    time: TimeSource,
    state: Mutex<State>,
    notices: broadcast::Sender<Notice>,
}

#[derive(Debug, Default)]
struct State {
    counters: Counters,
    locks: Locks,
    /// Notices to send once the lock is released.
    notices: Vec<Notice>,
}

impl MemoryStore {
    /// Returns an empty store in Tokio's time.
    pub fn new() -> Self {
        Self::in_time(TimeSource::tokio())
    }

    /// Returns an empty store in the time of `clock`.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        Self::in_time(TimeSource::custom(clock))
    }

    fn in_time(time: TimeSource) -> Self {
        let notices = broadcast::Sender::new(NOTICES);
        Self(Arc::new(Inner { time, state: Mutex::default(), notices }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step at one moment, in whole microseconds as in the other store.
    fn step<T>(&self, step: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = self.0.time.now().as_nanos() / 1_000;
        let (result, notices) = {
            let mut state = self.state();
            let result = step(&mut state, now);
            (result, std::mem::take(&mut state.notices))
        };
        for notice in notices {
            // Without a listener, no notice is needed.
            let _ = self.0.notices.send(notice);
        }
        result
    }

    fn give_back(&self, leases: &[Lease]) -> Released {
        self.step(|state, now| {
            let held = leases.iter().filter(|lease| state.counters.release(lease, now, &mut state.notices)).count();
            Released { held, at: at(now) }
        })
    }

    fn change(&self, request: &AllotmentRequest) -> Allotment {
        self.step(|state, now| state.counters.reserve(request, now, &mut state.notices))
    }

    fn free(&self, lock: &Locked) -> bool {
        self.step(|state, now| state.locks.unlock(lock, now, &mut state.notices))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Acquired> {
        Box::pin(async move {
            Ok(self.step(|state, now| match state.counters.acquire(request, now, &mut state.notices) {
                Ok(()) => Acquired::Granted(Lease::of(request, at(now))),
                Err(full) => Acquired::Full(full),
            }))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Renewed> {
        Box::pin(async move {
            Ok(self.step(|state, now| {
                let lost = leases.iter().enumerate().filter(|(_, lease)| !state.counters.renew(lease, now));
                Renewed { lost: lost.map(|(index, _)| index).collect(), at: at(now), ..Renewed::default() }
            }))
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Released> {
        Box::pin(async move { Ok(self.give_back(leases)) })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> Answer<'a, Allotment> {
        Box::pin(async move { Ok(self.change(request)) })
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> Answer<'a, DrawOutcome> {
        Box::pin(async move { self.step(|state, now| state.counters.draw(rate, most, now)) })
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> Answer<'a, LockAnswer> {
        Box::pin(async move { Ok(self.step(|state, now| state.locks.lock(request, now))) })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.step(|state, now| state.locks.extend(lock, now))) })
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.free(lock)) })
    }

    fn settle(&self, debt: PendingRelease) {
        match debt {
            PendingRelease::Lease(lease) => {
                self.give_back(&[lease]);
            }
            PendingRelease::Allotment(request) => {
                self.change(&request);
            }
            PendingRelease::Lock(lock) => {
                self.free(&lock);
            }
        }
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
