//! The admission lock: one holder at a time per organisation, for a check-then-act of the caller's.
//!
//! Counting runs and then starting one races with other callers that do the same. Where the count is not a cap of this crate, the lock
//! makes the two one step. A caller holds it as briefly as that takes, and it is not renewed unless asked.

mod guard;
mod wait_stats;

use std::{
    fmt,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

pub use self::{
    guard::LockGuard,
    wait_stats::{WaitCounts, WaitSeries},
};
use self::{guard::QueuedCaller, wait_stats::Waits};
use super::{
    Keys, LockAnswer, LockRequest, Locked, Notices, Store, StoreError, StoreFuture, Token,
    backoff::{Backoff, Seeds},
    poll_queue::PollQueues,
    task::Task,
};
use tower_admission_engine::Histogram;

/// How a caller that finds the lock taken comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockRetry {
    /// Each caller by itself after the same pause. Callers that came together come back together.
    Fixed(Duration),
    /// One caller per process and organisation, after pauses that double from `first` to `longest` and are cut by up
    /// to a half at random; at once when notice comes that the lock is free.
    Jittered {
        /// The first pause.
        first: Duration,
        /// The longest pause.
        longest: Duration,
    },
    /// As jittered, and in the order in which the processes came.
    Queue {
        /// The pause of the caller that is next.
        first: Duration,
        /// The longest pause, of callers far behind.
        longest: Duration,
    },
}

impl Default for LockRetry {
    fn default() -> Self {
        Self::Jittered { first: Duration::from_millis(5), longest: Duration::from_millis(100) }
    }
}

/// Why the lock was not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockFailure {
    /// Other callers held the lock for the whole wait.
    Busy,
    /// The store gave no answer. Not retried: all callers in line are told at once.
    Store(StoreError),
}

/// The lock could not be taken: 503, try again later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LockError {
    failure: LockFailure,
    waited: Duration,
}

impl LockError {
    /// Returns why the lock was not taken.
    pub const fn failure(&self) -> &LockFailure {
        &self.failure
    }

    /// Returns how long the caller waited.
    pub const fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("concurrency gate unavailable")
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            LockFailure::Busy => None,
            LockFailure::Store(error) => Some(error),
        }
    }
}

/// The caller that wants the lock, and the series that counts its wait.
#[derive(Clone, Copy, Debug)]
pub struct LockCaller<'a> {
    organisation: &'a str,
    class: &'a str,
    endpoint: &'a str,
    max_wait: Duration,
}

impl<'a> LockCaller<'a> {
    /// Returns a caller of `organisation`, whose lock it is.
    pub const fn new(organisation: &'a str) -> Self {
        Self { organisation, class: "default", endpoint: "default", max_wait: Duration::MAX }
    }

    /// Names the class of tenants and the endpoint under which the wait is counted: names of your own, since the first
    /// 63 pairs are told apart and all others are counted as `other`. Of each name, 256 bytes count.
    #[must_use]
    pub const fn counted_as(mut self, class: &'a str, endpoint: &'a str) -> Self {
        self.class = class;
        self.endpoint = endpoint;
        self
    }

    /// Waits for `max_wait` at most, if that is less than the budget of the lock: until a deadline, say.
    #[must_use]
    pub const fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }
}

/// One lock per organisation, among all processes that use the same store. A clone is the same.
#[derive(Clone)]
pub struct AdmissionLock(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    keys: Keys,
    settings: LockBuilder,
    lines: PollQueues,
    seeds: Seeds,
    waits: Waits,
    listener: Task,
}

/// Settings of an [`AdmissionLock`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LockBuilder {
    expiry: Duration,
    wait: Duration,
    retry: LockRetry,
    seed: Option<u64>,
}

impl LockBuilder {
    /// How long a holder that died keeps the lock; 10 s unless set. A holder that takes longer has lost it.
    pub const fn expiry(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self
    }

    /// How long to wait for the lock; 2 s unless set.
    pub const fn wait_budget(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How a caller comes back when the lock is taken; [`LockRetry::Jittered`] unless set.
    pub const fn retry(mut self, retry: LockRetry) -> Self {
        self.retry = retry;
        self
    }

    /// Makes all jitter repeatable, for tests.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the locks in `store`.
    pub fn build(self, store: Arc<dyn Store>, keys: Keys) -> AdmissionLock {
        AdmissionLock(Arc::new(Inner {
            store,
            keys,
            lines: PollQueues::default(),
            seeds: Seeds::new(self.seed),
            waits: Waits::default(),
            listener: Task::default(),
            settings: self,
        }))
    }
}

impl AdmissionLock {
    /// Settings to be changed and built.
    pub fn builder() -> LockBuilder {
        let (expiry, wait) = (Duration::from_secs(10), Duration::from_secs(2));
        LockBuilder { expiry, wait, retry: LockRetry::default(), seed: None }
    }

    /// Takes the lock of the caller's organisation.
    ///
    /// Cancel safe: a lock whose caller is gone is freed.
    ///
    /// # Errors
    ///
    /// [`LockFailure::Busy`] after the wait budget or what the caller sets, [`LockFailure::Store`] at once.
    pub async fn acquire(&self, caller: LockCaller<'_>) -> Result<LockGuard, LockError> {
        let began = Instant::now();
        let deadline = began + self.0.settings.wait.min(caller.max_wait);
        let key = self.0.keys.admission(caller.organisation);
        let taken = match Token::random().map(|token| Locked::new(key, token, self.0.settings.expiry)) {
            Ok(lock) => timeout_at(deadline, self.take(lock)).await.unwrap_or(Err(LockFailure::Busy)),
            Err(error) => Err(LockFailure::Store(error)),
        };
        let waited = began.elapsed();
        self.0.waits.record(caller.class, caller.endpoint, waited, taken.as_ref().err());
        match taken {
            Ok((lock, asked_at)) => Ok(LockGuard::new(Arc::clone(&self.0), lock, asked_at)),
            Err(failure) => Err(LockError { failure, waited }),
        }
    }

    /// Returns how long callers waited, by class and endpoint.
    /// [`AdmissionBuilder::lock_metrics`](https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.lock_metrics)
    /// publishes the same.
    pub fn waits(&self) -> Vec<WaitSeries> {
        self.times().into_iter().map(|(series, _)| series).collect()
    }

    /// Like `waits`, with all times, to be published.
    #[doc(hidden)]
    pub fn times(&self) -> Vec<(WaitSeries, Histogram)> {
        self.0.waits.times()
    }

    /// Returns how many requests for locks were sent to the store.
    pub fn requests(&self) -> u64 {
        self.0.waits.requests.load(Ordering::Relaxed)
    }

    async fn take(&self, lock: Locked) -> Result<(Locked, Instant), LockFailure> {
        let (first, longest, queue) = match self.0.settings.retry {
            LockRetry::Fixed(pause) => return self.take_alone(lock, pause).await,
            LockRetry::Jittered { first, longest } => (first, longest, false),
            LockRetry::Queue { first, longest } => (first, longest, true),
        };
        self.0.listener.start(|| hear(Arc::downgrade(&self.0), self.0.store.notices()));
        let place = self.0.lines.stand(&lock.key).await;
        if let Some(error) = place.failure() {
            return Err(LockFailure::Store(error));
        }
        let mut pauses = Backoff::new(first, longest, self.0.seeds.next());
        let request = LockRequest { lock: lock.clone(), queue, waits: true };
        let mut queued = QueuedCaller::new(&self.0.store, &request);
        loop {
            let asked_at = Instant::now();
            match self.ask(&request).await.inspect_err(|error| place.fail(error)).map_err(LockFailure::Store)? {
                LockAnswer::Taken => {
                    queued.leave();
                    return Ok((lock, asked_at));
                }
                LockAnswer::Busy { ahead } => {
                    let pause = if ahead > 1 {
                        // Far behind, there is no hurry.
                        let far = first.saturating_mul(ahead).min(longest);
                        Backoff::new(far, far, self.0.seeds.next()).wait()
                    } else {
                        pauses.wait()
                    };
                    // Rung or not, it is time to look again.
                    let _ = timeout_at(Instant::now() + pause, place.freed()).await;
                }
            }
        }
    }

    /// Without a line and without jitter.
    async fn take_alone(&self, lock: Locked, pause: Duration) -> Result<(Locked, Instant), LockFailure> {
        let request = LockRequest { lock: lock.clone(), queue: false, waits: false };
        loop {
            let asked_at = Instant::now();
            if self.ask(&request).await.map_err(LockFailure::Store)? == LockAnswer::Taken {
                return Ok((lock, asked_at));
            }
            sleep(pause).await;
        }
    }

    fn ask<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        self.0.waits.requests.fetch_add(1, Ordering::Relaxed);
        self.0.store.lock(request)
    }
}

async fn hear(inner: Weak<Inner>, mut notices: Notices) {
    while let Some(notice) = notices.next().await {
        let Some(inner) = inner.upgrade() else { return };
        inner.lines.hear(&notice);
    }
}

impl fmt::Debug for AdmissionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionLock").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
