//! A store made of rows that a database keeps.

#[cfg(all(test, feature = "contract"))]
mod tests;

use std::{
    fmt,
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::broadcast, time::timeout};

use super::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Key, Lease, LockAnswer, LockRequest, Locked,
    Notice, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError, StoreFuture, StoreTime, give_back,
    memory::{NOTICES, State, micros},
};

/// Most leases of one step: a step locks all of their rows.
const AT_ONCE: usize = 64;

/// How long an answer takes at most, unless set.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// What is made of rows in one step: they are at the places of their keys, and empty where there is none.
pub type Step<'a> = &'a mut (dyn FnMut(StoreTime, &mut [String]) + Send);

/// Rows of text that change together: what a database offers, and all that [`RowStore`] needs of it.
///
/// `examples/own_store.rs` keeps them in a folder.
pub trait Rows: fmt::Debug + Send + Sync + 'static {
    /// Reads the rows at `keys`, calls `step` with them, and writes what it made of them; an empty row may be deleted.
    ///
    /// All of this is atomic to other changes of any of the rows, such as in a transaction that locks them in the order of `keys`.
    /// A transaction that is optimistic calls `step` again with what it read again: only the last call counts. The time is the
    /// same for all processes, and does not go back: the time of the database.
    ///
    /// When the time limit is over the future is dropped. What was not committed by then must not be written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] if it is not known whether the rows were written, any other error if they were not.
    fn change<'a>(&'a self, keys: &'a [Key], step: Step<'a>) -> StoreFuture<'a, ()>;
}

/// A [`Store`] of [`Rows`]: leases, rates, allotments and locks, as those of a [`MemoryStore`](super::MemoryStore), which all
/// processes share that share the rows.
///
/// Rows hold text in JSON, which grows with the leases of a key. Notices of what is freed reach the same process only: waiters of other
/// processes ask again and again, as they do beside any store. There is no breaker, and a database that loses its rows is not
/// recognised: leases that it forgot are lost, as they are by a Redis without persistence that is not told to be quiet after a
/// restart.
#[derive(Clone, Debug)]
pub struct RowStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rows: Box<dyn Rows>,
    time_limit: Duration,
    failures: AtomicU32,
    notices: broadcast::Sender<Notice>,
}

impl RowStore {
    /// Returns a store of these rows, whose answers take a second at most.
    pub fn new(rows: impl Rows) -> Self {
        Self::with_time_limit(rows, TIME_LIMIT)
    }

    /// Returns a store of these rows, whose answers take so long at most; no more than a minute.
    pub fn with_time_limit(rows: impl Rows, time_limit: Duration) -> Self {
        let (rows, notices) = (Box::new(rows), broadcast::Sender::new(NOTICES));
        let time_limit = time_limit.min(Duration::from_secs(60));
        Self(Arc::new(Inner { rows, time_limit, failures: AtomicU32::new(0), notices }))
    }

    /// One step at one moment of the rows.
    async fn step<T: Send>(
        &self,
        keys: &[Key],
        mut step: impl FnMut(&mut State, u64) -> T + Send,
    ) -> Result<T, StoreError> {
        if keys.is_empty() {
            // A lease that holds nothing, because only rates were claimed.
            return Ok(step(&mut State::default(), 0));
        }
        let mut made = Err(StoreError::Refused("NO STEP".to_owned()));
        let mut change = |now: StoreTime, rows: &mut [String]| {
            made = State::read(keys, rows).and_then(|mut state| {
                let now = micros(now);
                let made = (step(&mut state, now), std::mem::take(&mut state.notices));
                state.write(keys, rows, now).map(|()| made)
            });
        };
        let after = self.0.time_limit;
        let changed = timeout(after, self.0.rows.change(keys, &mut change)).await;
        let made = changed.unwrap_or(Err(StoreError::TimedOut { after })).and(made);
        match &made {
            Err(error) if error.is_gone() => drop(self.0.failures.fetch_add(1, Ordering::Relaxed)),
            _ => self.0.failures.store(0, Ordering::Relaxed),
        }
        let (made, notices) = made?;
        for notice in notices {
            // Without a listener, no notice is needed.
            let _ = self.0.notices.send(notice);
        }
        Ok(made)
    }
}

/// Returns the keys of all caps of these leases, in order, none of them twice.
fn caps(leases: &[Lease]) -> Vec<Key> {
    let mut keys: Vec<_> = leases.iter().flat_map(Lease::caps).cloned().collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Store for RowStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let mut keys: Vec<_> = request.claims().as_slice().iter().map(|claim| claim.key().clone()).collect();
            keys.sort_unstable();
            self.step(&keys, |state, now| state.acquire(request, now)).await
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        Box::pin(async move {
            let mut all = Renewed::default();
            for (round, some) in leases.chunks(AT_ONCE).enumerate() {
                let (first, last) = (round * AT_ONCE, round * AT_ONCE + some.len());
                match self.step(&caps(some), |state, now| state.renew(some, now)).await {
                    Ok(renewed) => {
                        all.lost.extend(renewed.lost.into_iter().map(|index| first + index));
                        all.at = renewed.at;
                    }
                    Err(error) if last == leases.len() && all.unknown.len() == first => return Err(error),
                    Err(_) => all.unknown.extend(first..last),
                }
            }
            Ok(all)
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let mut all = Released::default();
            for some in leases.chunks(AT_ONCE) {
                let released = self.step(&caps(some), |state, now| state.release(some, now)).await?;
                all = Released { held: all.held + released.held, at: released.at };
            }
            Ok(all)
        })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        Box::pin(async move { self.step(from_ref(&request.key), |state, now| state.reserve(request, now)).await })
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        Box::pin(async move { self.step(from_ref(rate.key()), |state, now| state.draw(rate, most, now)).await? })
    }

    fn has_allotments(&self) -> bool {
        true
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        Box::pin(async move { self.step(from_ref(&request.lock.key), |state, now| state.lock(request, now)).await })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.step(from_ref(&lock.key), |state, now| state.extend(lock, now)).await })
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.step(from_ref(&lock.key), |state, now| state.unlock(lock, now)).await })
    }

    fn release_later(&self, debt: PendingRelease) {
        // What can't be given back expires, and without a runtime all of it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let this = self.clone();
            runtime.spawn(async move { give_back(&this, &debt).await });
        }
    }

    fn notices(&self) -> Notices {
        Notices::new(self.0.notices.subscribe())
    }

    fn health(&self) -> Health {
        match self.0.failures.load(Ordering::Relaxed) {
            0 => Health::Up,
            failures => Health::Failing { failures },
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.0.time_limit)
    }
}
