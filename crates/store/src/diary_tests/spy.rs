//! A store that writes down what it is asked for, and that can be gone.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Lease, LockAnswer, LockRequest, Locked,
    MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError, StoreFuture,
};

/// Time that each answer takes.
const TRIP: Duration = Duration::from_micros(1_500);

#[derive(Debug)]
pub(super) struct Spy {
    /// The present store; and those before it, of which nothing is left but notices.
    stores: Mutex<Vec<MemoryStore>>,
    began: Instant,
    is_gone: AtomicBool,
    diary: Mutex<String>,
}

impl Spy {
    pub(super) fn new() -> Arc<Self> {
        let (store, began) = (MemoryStore::new(), Instant::now());
        Arc::new(Self {
            stores: Mutex::new(vec![store]),
            began,
            is_gone: AtomicBool::new(false),
            diary: Mutex::default(),
        })
    }

    pub(super) fn store(self: &Arc<Self>) -> Arc<dyn Store> {
        Arc::clone(self) as Arc<dyn Store>
    }

    /// Lets the store go, or come back.
    pub(super) fn go(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::SeqCst);
        self.note(if is_gone { "the store is gone" } else { "the store is back" });
    }

    /// Lets the store lose all that it counted.
    pub(super) fn forget(&self) {
        self.stores.lock().unwrap().push(MemoryStore::new());
        self.note("the store lost its data");
    }

    fn present(&self) -> MemoryStore {
        self.stores.lock().unwrap().last().unwrap().clone()
    }

    pub(super) fn note(&self, what: &str) {
        let at = self.began.elapsed().as_micros();
        writeln!(self.diary.lock().unwrap(), "{:8.3} {what}", at as f64 / 1e3).unwrap();
    }

    pub(super) fn diary(&self) -> String {
        self.diary.lock().unwrap().clone()
    }

    /// Asks the store: half of the time goes by before it answers.
    async fn ask<T>(&self, what: String, answer: impl AsyncFnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        sleep(TRIP).await;
        if self.is_gone.load(Ordering::SeqCst) {
            self.note(&format!("{what}: gone"));
            return Err(StoreError::Unavailable);
        }
        let answer = answer().await;
        sleep(TRIP).await;
        answer
    }
}

fn of_allotment(it: &AllotmentRequest) -> String {
    let AllotmentRequest { bound, used, need, want, had, sequence, waits, .. } = it;
    let waits = if *waits { ", waits" } else { "" };
    format!("allotment {sequence} of {bound}: used {used}, needs {need}, wants {want}, had {had}{waits}")
}

impl Store for Spy {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        let what = format!("acquire {}{}", request.claims.as_slice().len(), if request.waits { ", waits" } else { "" });
        Box::pin(async move {
            let answer = self.ask(what.clone(), async || self.present().acquire(request).await).await?;
            match &answer {
                Acquired::Granted(lease) => self.note(&format!("{what}: granted for {:?}", lease.expiry)),
                Acquired::Full(full) => self.note(&format!("{what}: {full:?}")),
            }
            Ok(answer)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        let what = format!("renew {}", leases.len());
        Box::pin(async move {
            let answer = self.ask(what.clone(), async || self.present().renew(leases).await).await?;
            self.note(&format!("{what}: lost {:?}, unknown {:?}", answer.lost, answer.unknown));
            Ok(answer)
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        Box::pin(async move { self.present().release(leases).await })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        let what = of_allotment(request);
        Box::pin(async move {
            let answer = self.ask(what.clone(), async || self.present().reserve(request).await).await?;
            let Allotment { units, wanted, target, retry_after, .. } = answer;
            let wanted = if wanted { format!(", wanted down to {target}") } else { String::new() };
            self.note(&format!("{what}: {units} units{wanted}, first over in {retry_after:?}"));
            Ok(answer)
        })
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        let what = format!("draw {most}");
        Box::pin(async move {
            let answer = self.ask(what.clone(), async || self.present().draw(rate, most).await).await?;
            self.note(&format!("{what}: {} units, {:?}", answer.units, answer.after));
            Ok(answer)
        })
    }

    fn has_allotments(&self) -> bool {
        true
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        Box::pin(async move {
            let answer = self.ask("lock".to_owned(), async || self.present().lock(request).await).await?;
            self.note(&format!("lock: {answer:?}"));
            Ok(answer)
        })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.ask("extend".to_owned(), async || self.present().extend(lock).await).await })
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.ask("unlock".to_owned(), async || self.present().unlock(lock).await).await })
    }

    fn release_later(&self, debt: PendingRelease) {
        let what = match &debt {
            PendingRelease::Lease(lease) => format!("a lease of {}", lease.caps.len()),
            PendingRelease::Allotment(request) => of_allotment(request),
            PendingRelease::Lock(_) => "a lock".to_owned(),
        };
        self.note(&format!("gives back {what}"));
        if !self.is_gone.load(Ordering::SeqCst) {
            self.present().release_later(debt);
        }
    }

    fn notices(&self) -> Notices {
        self.stores.lock().unwrap()[0].notices()
    }

    fn health(&self) -> Health {
        Health::Up
    }
}
