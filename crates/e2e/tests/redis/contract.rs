//! What a store promises, held against both of them.

use std::time::Duration;

use tower_admission::store::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Lease, LockAnswer, LockRequest, Locked,
    MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreFuture, Token, contract,
};

use super::support::{acquire, cap, claims, number, server::Server, shared};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_store_in_memory_keeps_what_a_store_promises() {
    contract::check(async || shared(MemoryStore::new())).await.unwrap();
}

#[tokio::test]
async fn redis_keeps_what_a_store_promises() {
    let server = Server::start().await;
    contract::check(async || {
        server.ask(&["FLUSHALL"]).await.unwrap();
        shared(server.store())
    })
    .await
    .unwrap();
}

/// A store that is good but for one thing: it lets anyone extend a lock.
#[derive(Debug)]
struct Careless(MemoryStore);

impl Store for Careless {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        self.0.acquire(request)
    }
    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        self.0.renew(leases)
    }
    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        self.0.release(leases)
    }
    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        self.0.reserve(request)
    }
    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        self.0.draw(rate, most)
    }
    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        self.0.lock(request)
    }
    fn extend<'a>(&'a self, _: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async { Ok(true) })
    }
    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        self.0.unlock(lock)
    }
    fn release_later(&self, pending: PendingRelease) {
        self.0.release_later(pending);
    }
    fn notices(&self) -> Notices {
        self.0.notices()
    }
    fn health(&self) -> Health {
        self.0.health()
    }
}

#[tokio::test]
async fn control_a_broken_promise_is_found() {
    let broken = contract::check(async || shared(Careless(MemoryStore::new()))).await.unwrap_err();
    assert_eq!(broken.promise, "a lock is held by one, and freed by its holder alone");
}

/// How our own stores grow an allotment, which a store is free to do in another way.
#[tokio::test]
async fn allotments_grow_by_half_of_what_is_free() {
    let server = Server::start().await;
    for store in [shared(MemoryStore::new()), shared(server.store())] {
        let ten = claims([cap("ten", 10)]);
        let key = ten.as_slice()[0].key().clone();
        let mut block = AllotmentRequest::new(Token::random().unwrap(), key, number(10), LONG);
        let _lease = acquire(&*store, &ten, LONG).await.unwrap();
        block.want = 10;
        for expected in [4, 6, 7, 8, 9, 9] {
            let units = store.reserve(&block).await.unwrap().units;
            assert_eq!(units, expected, "half of what is free");
            (block.sequence, block.had) = (block.sequence + 1, units);
        }
    }
}
