//! A store that answers, fails or is gone, as it is told.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Rules, Ticket, WhenFull,
    limit::Fixed,
    store::{
        Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Keys, Lease, Leases, LockAnswer,
        LockRequest, Locked, MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError,
        StoreFuture,
    },
};

/// What the store does.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "tests name all moods")]
pub enum Mood {
    /// It answers.
    Up,
    /// It answers, and lets anyone extend a lock.
    Careless,
    /// It answers, and renews leases once.
    RenewsOnce,
    /// It answers, and says of leases that they are renewed, and they are not.
    RenewsNothing,
    /// It answers with errors.
    Failing,
    /// It is back, and grants nothing until then.
    Quiet(Instant),
    /// It answers, and may throw away what it counts.
    Evicting,
    /// It is not asked, since then.
    Down(Instant),
}

/// A [`MemoryStore`] behind a mood, at a given distance.
#[derive(Clone)]
pub struct Moody(Arc<Inner>);

struct Inner {
    mood: Mutex<Mood>,
    store: MemoryStore,
    /// The time limit of a question, and how long the question with this number takes.
    far: Option<(Duration, RoundTrip)>,
    began: Instant,
    /// Questions so far, by second.
    asked: Mutex<Vec<u64>>,
}

type RoundTrip = Box<dyn Fn(u64) -> Duration + Send + Sync>;

impl Default for Moody {
    fn default() -> Self {
        Self::new()
    }
}

impl Moody {
    /// A store that answers.
    #[must_use]
    pub fn new() -> Self {
        Self::at(None)
    }

    /// A store that answers after a round trip, by the number of the question. Its health is `Up` all the time.
    #[must_use]
    pub fn far(limit: Duration, takes: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Self {
        Self::at(Some((limit, Box::new(takes))))
    }

    fn at(far: Option<(Duration, RoundTrip)>) -> Self {
        let (mood, store) = (Mutex::new(Mood::Up), MemoryStore::new());
        Self(Arc::new(Inner { mood, store, far, began: Instant::now(), asked: Mutex::default() }))
    }

    /// From now on it does that.
    pub fn is(&self, mood: Mood) {
        *self.0.mood.lock().unwrap() = mood;
    }

    fn mood(&self) -> Mood {
        *self.0.mood.lock().unwrap()
    }

    /// How many questions came in each second so far.
    #[must_use]
    pub fn asked(&self) -> Vec<u64> {
        self.0.asked.lock().unwrap().clone()
    }

    fn count(&self) -> u64 {
        let second = usize::try_from(self.0.began.elapsed().as_secs()).unwrap();
        let mut asked = self.0.asked.lock().unwrap();
        if asked.len() <= second {
            asked.resize(second + 1, 0);
        }
        asked[second] += 1;
        asked.iter().sum()
    }

    fn answer<'a, T: Send + 'a>(&'a self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let number = self.count();
        let Some((limit, takes)) = &self.0.far else { return answer };
        let half = takes(number) / 2;
        Box::pin(async move {
            let trip = async {
                sleep(half).await;
                let answer = answer.await;
                sleep(half).await;
                answer
            };
            timeout(*limit, trip).await.unwrap_or(Err(StoreError::TimedOut { after: *limit }))
        })
    }

    /// A handle that lets nine of a label run, counted in this store.
    pub fn handle(&self) -> AdmissionBuilder {
        let nine = ClassLimits::new().max_in_flight(Cap::from(9).when_full(WhenFull::Reject));
        self.shared_by(Admission::builder().limit(Fixed::new(100)).rules(Rules::new().default_limits(nine)))
    }

    /// The same for a handle with rules of its own.
    pub fn shared_by(&self, builder: AdmissionBuilder) -> AdmissionBuilder {
        builder.shared(Leases::builder().build(Arc::new(self.clone())), Keys::new("test").unwrap())
    }
}

/// A request that has to ask the store.
#[must_use]
pub fn ticket() -> Ticket<'static> {
    Ticket::new().label("orders")
}

impl Store for Moody {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        match self.mood() {
            Mood::Up | Mood::Careless | Mood::RenewsOnce | Mood::RenewsNothing | Mood::Evicting => {
                self.answer(self.0.store.acquire(request))
            }
            Mood::Quiet(until) => {
                Box::pin(async move { Err(StoreError::Restarted { retry_after: until - Instant::now() }) })
            }
            Mood::Failing => Box::pin(async { Err(StoreError::Unavailable) }),
            Mood::Down(_) => Box::pin(async { Err(StoreError::BreakerOpen) }),
        }
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        match self.mood() {
            Mood::RenewsOnce => self.is(Mood::RenewsNothing),
            Mood::RenewsNothing => return Box::pin(async { Ok(Renewed::default()) }),
            _ => {}
        }
        self.answer(self.0.store.renew(leases))
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        self.answer(self.0.store.release(leases))
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        self.answer(self.0.store.reserve(request))
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        self.answer(self.0.store.draw(rate, most))
    }

    fn has_allotments(&self) -> bool {
        self.0.store.has_allotments()
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        self.0.store.lock(request)
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        match self.mood() {
            Mood::Careless => Box::pin(async { Ok(true) }),
            _ => self.0.store.extend(lock),
        }
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        self.0.store.unlock(lock)
    }

    fn release_later(&self, debt: PendingRelease) {
        self.0.store.release_later(debt);
    }

    fn notices(&self) -> Notices {
        self.0.store.notices()
    }

    fn health(&self) -> Health {
        match self.mood() {
            Mood::Up | Mood::Careless | Mood::RenewsOnce | Mood::RenewsNothing => Health::Up,
            Mood::Quiet(until) => Health::Quiet { remaining: until - Instant::now() },
            Mood::Evicting => Health::Evicting,
            Mood::Failing => Health::Failing { failures: 1 },
            Mood::Down(since) => Health::Down { since: since.elapsed(), probes: 0 },
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        self.0.far.as_ref().map(|(limit, _)| *limit)
    }
}

impl fmt::Debug for Moody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moody").field("mood", &self.mood()).finish_non_exhaustive()
    }
}
