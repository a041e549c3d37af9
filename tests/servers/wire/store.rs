//! A store that goes away after its first answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tower_admission::{
    AdmissionBuilder,
    store::{
        Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Keys, Lease, Leases, LockAnswer,
        LockRequest, Locked, MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError,
        StoreFuture,
    },
};

/// Counts rules in such a store.
pub(crate) fn gone(builder: AdmissionBuilder) -> AdmissionBuilder {
    let store = Leaves { store: MemoryStore::new(), asked: AtomicBool::new(false) };
    builder.shared(Leases::builder().build(Arc::new(store)), Keys::new("test").unwrap())
}

#[derive(Debug)]
struct Leaves {
    store: MemoryStore,
    asked: AtomicBool,
}

fn unavailable<T: Send + 'static>() -> StoreFuture<'static, T> {
    Box::pin(async { Err(StoreError::Unavailable) })
}

impl Store for Leaves {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        if self.asked.swap(true, Ordering::Relaxed) { unavailable() } else { self.store.acquire(request) }
    }

    fn renew<'a>(&'a self, _: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        unavailable()
    }

    fn release<'a>(&'a self, _: &'a [Lease]) -> StoreFuture<'a, Released> {
        unavailable()
    }

    fn reserve<'a>(&'a self, _: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        unavailable()
    }

    fn draw<'a>(&'a self, _: &'a Claim, _: u32) -> StoreFuture<'a, DrawOutcome> {
        unavailable()
    }

    fn lock<'a>(&'a self, _: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        unavailable()
    }

    fn extend<'a>(&'a self, _: &'a Locked) -> StoreFuture<'a, bool> {
        unavailable()
    }

    fn unlock<'a>(&'a self, _: &'a Locked) -> StoreFuture<'a, bool> {
        unavailable()
    }

    fn release_later(&self, debt: PendingRelease) {
        self.store.release_later(debt);
    }

    fn notices(&self) -> Notices {
        self.store.notices()
    }

    fn health(&self) -> Health {
        Health::Up
    }
}
