//! Limits that several processes share: leases, rates and locks in a store.
//!
//! A cap that only one process knows is the cap times the number of processes. A [`Store`] counts for all of them:
//!
//! - [`Store::acquire`] decides all caps and rates of a request together, all or nothing, by the time of the store.
//!   What it grants is a [`Lease`]: it has an unguessable [`Token`] and an expiry, is renewed while the work runs, and
//!   is taken back when its holder dies.
//! - [`Store::reserve`] lends a process an allotment of a cap, from which it admits without a round trip.
//! - [`Store::lock`] is the primitive for a check-then-act of one's own.
//!
//! [`MemoryStore`] is the default and needs no server. `RedisStore` (feature `redis`) shares with other processes, and so does
//! `RowStore` (feature `rows`) by a database of yours, of which it needs one method. The same tests hold all of them to the same
//! behaviour (feature `contract`).
//!
//! Most users want what is built on them: [`Leases`] and [`AdmissionLock`]. [What is promised, what is not, and what it
//! costs](https://docs.rs/tower-admission/latest/tower_admission/docs/shared_limits/).

mod api;
mod backoff;
mod clock;
#[cfg(test)]
mod clock_tests;
#[cfg(feature = "contract")]
pub mod contract;
#[cfg(test)]
mod diary_tests;
#[cfg(test)]
#[path = "../../engine/src/kept_tests.rs"]
mod kept_tests;
mod leases;
mod lock;
mod memory;
mod poll_queue;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "rows")]
mod rows;
mod side_by_side;
mod task;

use std::{fmt, future::Future, pin::Pin, time::Duration};

#[cfg(feature = "redis")]
pub use self::redis::{AfterRestart, RedisBuilder, RedisStore};
#[cfg(feature = "rows")]
pub use self::rows::{RowStore, Rows, Step};
pub use self::{
    api::{
        Acquired, Allotment, AllotmentRequest, Claim, Claims, DrawOutcome, Full, Health, Key, Keys, Lease, LockAnswer,
        LockRequest, Locked, Notice, Notices, PendingRelease, Released, Renewed, Request, StoreError, StoreTime, Token,
    },
    clock::Clock,
    leases::{LeaseDenied, LeaseGuard, Leases, LeasesBuilder},
    lock::{
        AdmissionLock, LockBuilder, LockCaller, LockError, LockFailure, LockGuard, LockRetry, WaitCounts, WaitSeries,
    },
    memory::MemoryStore,
};
#[doc(hidden)]
pub use self::{clock::Shielded, leases::LossSignal};
#[doc(inline)]
pub use tower_admission_engine::{OnStoreFailure, rules::RateMode};

/// A future in a box: [`Store`] can be used as `dyn Store`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an answer of a store comes as.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Counts for all processes that use it. With the feature `contract`, `store::contract` checks a store of your own.
///
/// Every method is cancel safe: a grant whose caller is gone is given back, at the latest when it expires. No answer
/// takes longer than the timeout of the store.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no store of shared limits",
    note = "a store is `MemoryStore`, `RedisStore` or `RowStore`, in an `Arc`, or a type of your own that implements `Store`"
)]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Decides all claims of one request together: grants all of them or charges none.
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired>;

    /// Renews leases for another expiry, and returns which of them are lost. Lost leases hold nothing any more.
    ///
    /// An error says that none of the leases could be asked for; where some could, [`Renewed::unknown`] has the others.
    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed>;

    /// Gives the caps of leases back; what was charged on rates stays charged. Leases of others are never touched,
    /// since a token is compared.
    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released>;

    /// Changes the allotment of a cap that a process holds, or renews it.
    ///
    /// Like [`draw`](Self::draw), asked for by a process with local shares alone, and where the store
    /// [has allotments](Self::has_allotments).
    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        let _ = request;
        lacks("allotments")
    }

    /// Charges up to `most` units of a rate at once.
    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        let _ = (rate, most);
        lacks("allotments")
    }

    /// Whether it can change allotments and draw from rates. A store that can't is asked for each request, also with local
    /// shares.
    fn has_allotments(&self) -> bool {
        false
    }

    /// Takes a lock if it is free: sets it if absent, with an expiry and a token.
    ///
    /// Without this and the next two, a store can't be used with an [`AdmissionLock`].
    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        let _ = request;
        lacks("locks")
    }

    /// Lets a lock live for another expiry if `token` holds it; returns whether it did.
    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let _ = lock;
        lacks("locks")
    }

    /// Frees a lock if `token` holds it; returns whether it did.
    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let _ = lock;
        lacks("locks")
    }

    /// Gives something back without waiting for it: for `Drop`. What can't be sent relies on its expiry.
    fn release_later(&self, pending: PendingRelease);

    /// Returns notices of what is freed and what is wanted, from all processes, where there are waiters. Some may be
    /// missing: notices are hints to look.
    fn notices(&self) -> Notices;

    /// Whether the store answers. [`OnStoreFailure`] goes by it where an answer is late: a store that is `Up` is not gone.
    fn health(&self) -> Health;

    /// Returns how long an answer takes at most; `None` if it takes no time. A request that needs several answers has
    /// no more time for all of them.
    fn time_limit(&self) -> Option<Duration> {
        None
    }
}

/// Gives something back, and waits for that.
#[cfg(any(feature = "redis", feature = "rows"))]
async fn give_back(store: &dyn Store, debt: &PendingRelease) -> Result<(), StoreError> {
    match debt {
        PendingRelease::Lease(lease) => store.release(std::slice::from_ref(lease)).await.map(drop),
        PendingRelease::Allotment(request) => store.reserve(request).await.map(drop),
        PendingRelease::Lock(lock) => store.unlock(lock).await.map(drop),
    }
}

/// The answer of a store that can't do this at all.
fn lacks<T: Send + 'static>(what: &'static str) -> StoreFuture<'static, T> {
    Box::pin(async move { Err(StoreError::Configuration(format!("it has no {what}"))) })
}
