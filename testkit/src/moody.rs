//! A store that answers, fails or is gone, as it is told.

use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use tower_admission::{
    Admission, AdmissionBuilder, Cap, ClassLimits, Rules, Ticket, WhenFull,
    limit::Fixed,
    store::{
        Acquired, Allotment, AllotmentRequest, Answer, Claim, DrawOutcome, Health, Keys, Lease, Leases, LockAnswer,
        LockRequest, Locked, MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError,
    },
};

/// What the store does.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "tests name all moods")]
pub enum Mood {
    /// It answers.
    Up,
    /// It answers with errors.
    Failing,
    /// It is not asked, since then.
    Down(Instant),
}

/// A [`MemoryStore`] behind a mood.
#[derive(Clone, Debug)]
pub struct Moody(Arc<(Mutex<Mood>, MemoryStore)>);

impl Default for Moody {
    fn default() -> Self {
        Self::new()
    }
}

impl Moody {
    /// A store that answers.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new((Mutex::new(Mood::Up), MemoryStore::new())))
    }

    /// From now on it does that.
    pub fn is(&self, mood: Mood) {
        *self.0.0.lock().unwrap() = mood;
    }

    fn mood(&self) -> Mood {
        *self.0.0.lock().unwrap()
    }

    /// A handle that lets nine of a label run, counted in this store.
    pub fn handle(&self) -> AdmissionBuilder {
        let nine = ClassLimits::new().max_in_flight(Cap::from(9).when_full(WhenFull::Reject));
        let leases = Leases::builder().build(Arc::new(self.clone()));
        let builder = Admission::builder().limit(Fixed::new(100)).rules(Rules::new().default_limits(nine));
        builder.shared(leases, Keys::new("test").unwrap())
    }
}

/// A request that has to ask the store.
#[must_use]
pub fn ticket() -> Ticket<'static> {
    Ticket::new().label("orders")
}

impl Store for Moody {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Acquired> {
        match self.mood() {
            Mood::Up => self.0.1.acquire(request),
            Mood::Failing => Box::pin(async { Err(StoreError::Unavailable) }),
            Mood::Down(_) => Box::pin(async { Err(StoreError::BreakerOpen) }),
        }
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Renewed> {
        self.0.1.renew(leases)
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Released> {
        self.0.1.release(leases)
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> Answer<'a, Allotment> {
        self.0.1.reserve(request)
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> Answer<'a, DrawOutcome> {
        self.0.1.draw(rate, most)
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> Answer<'a, LockAnswer> {
        self.0.1.lock(request)
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        self.0.1.extend(lock)
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        self.0.1.unlock(lock)
    }

    fn settle(&self, debt: PendingRelease) {
        self.0.1.settle(debt);
    }

    fn notices(&self) -> Notices {
        self.0.1.notices()
    }

    fn health(&self) -> Health {
        match self.mood() {
            Mood::Up => Health::Up,
            Mood::Failing => Health::Failing { failures: 1 },
            Mood::Down(since) => Health::Down { since: since.elapsed(), probes: 0 },
        }
    }
}
