//! The store as an instance sees it: a client at the other end of the network.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{broadcast, oneshot},
    time::{Instant, timeout},
};
use tower_admission::store::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Health, Lease, LockAnswer, LockRequest, Locked,
    MemoryStore, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError, StoreFuture,
};

use super::{
    network::{Delivery, Network, Parcel, Question, at_once},
    plan,
};
use crate::random::Stream;

/// Failures in a row after which requests are not sent any more, but for a probe now and then.
const BREAKS: u32 = 5;
const PROBES_EVERY: u64 = 60;

/// The client of an instance. A clone is the same.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

struct Inner {
    network: Arc<Network>,
    number: usize,
    conditions: plan::Network,
    /// When the runtime of the instance was started, on its clock and on that of the world.
    base: Instant,
    started: u64,
    notices: broadcast::Sender<tower_admission::store::Notice>,
    state: Mutex<State>,
}

struct State {
    rng: Stream,
    is_healed: bool,
    failures: u32,
    probes: u32,
    down_since: u64,
    probe_at: u64,
    /// Answers that did not come.
    pub(super) missed: u64,
}

impl Link {
    /// Makes a client. Has to be called in the runtime of the instance.
    pub(super) fn connect(network: &Arc<Network>, conditions: &plan::Network, started: u64, seed: u64) -> Self {
        let notices = broadcast::Sender::new(1_024);
        let number = network.connect(notices.clone());
        let rng = Stream::new(seed, 105, number as u64);
        let state = State { rng, is_healed: false, failures: 0, probes: 0, down_since: 0, probe_at: 0, missed: 0 };
        Self(Arc::new(Inner {
            network: Arc::clone(network),
            number,
            conditions: conditions.clone(),
            base: Instant::now(),
            started,
            notices,
            state: Mutex::new(state),
        }))
    }

    pub(super) fn number(&self) -> usize {
        self.0.number
    }

    /// From now on no message is lost or repeated.
    pub(super) fn heal(&self) {
        self.state().is_healed = true;
    }

    /// Returns how many answers did not come in time so far.
    pub(super) fn missed(&self) -> u64 {
        self.state().missed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        let since = Instant::now().saturating_duration_since(self.0.base);
        self.0.started + u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Sends a question through the network, which may lose or repeat it.
    fn send(&self, question: &Question) {
        let now = self.now();
        let (there, back, again) = {
            let mut state = self.state();
            let of = &self.0.conditions;
            let lost = if state.is_healed { 0 } else { of.lost };
            let repeated = if state.is_healed { 0 } else { of.repeated };
            let rng = &mut state.rng;
            // As many draws whatever comes of them.
            let mut one = || (!rng.happens(lost), of.delay + rng.below(of.jitter + 1));
            let (there, back, again) = (one(), one(), one());
            let again = (rng.happens(repeated), again.1);
            (there.0.then_some(there.1), back.0.then_some(back.1), again.0.then_some(again.1))
        };
        let parcel = |back| Parcel { question: Arc::clone(question), link: self.0.number, back };
        if let Some(there) = there {
            self.0.network.send(now + there, parcel(back));
            if let Some(again) = again {
                self.0.network.send(now + there + again, parcel(None));
            }
        }
    }

    /// Asks, and waits for the answer for as long as the time limit allows. `unclaimed` is given an answer that comes when
    /// it is not waited for any more.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&MemoryStore) -> Result<T, StoreError> + Send + Sync + 'static,
        unclaimed: fn(&Self, T),
    ) -> Result<T, StoreError> {
        let (sender, answer) = oneshot::channel();
        let (sender, link) = (Arc::new(Mutex::new(Some(sender))), self.clone());
        let question: Question = Arc::new(move |store| -> Delivery {
            let (answer, sender, link) = (question(store), Arc::clone(&sender), link.clone());
            Box::new(move || {
                let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(Err(Ok(late))) = sender.map(|sender| sender.send(answer)) {
                    unclaimed(&link, late);
                }
            })
        });
        self.send(&question);
        drop(question);
        let after = Duration::from_millis(self.0.conditions.time_limit);
        let answer = match timeout(after, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(StoreError::TimedOut { after }),
        };
        self.note(answer.as_ref().err().is_some_and(StoreError::is_gone));
        answer
    }

    fn note(&self, is_failure: bool) {
        let now = self.now();
        let mut state = self.state();
        if !is_failure {
            (state.failures, state.probes) = (0, 0);
            return;
        }
        state.missed += 1;
        state.failures = state.failures.saturating_add(1);
        if state.failures == BREAKS {
            (state.down_since, state.probe_at) = (now, now + PROBES_EVERY);
        } else if state.failures > BREAKS {
            state.probes += 1;
        }
    }

    /// Whether a request may be sent: not while the store is gone, but for a probe now and then.
    fn may_ask(&self) -> Result<(), StoreError> {
        let now = self.now();
        let mut state = self.state();
        if state.failures < BREAKS {
            return Ok(());
        }
        if now < state.probe_at {
            state.missed += 1;
            return Err(StoreError::BreakerOpen);
        }
        state.probe_at = now + PROBES_EVERY;
        Ok(())
    }

    /// Gives a lease back that no request waits for any more.
    fn return_lease(&self, acquired: Acquired) {
        if let Acquired::Granted(lease) = acquired {
            self.release_later(PendingRelease::Lease(lease));
        }
    }
}

fn nothing<T>(_: &Link, _: T) {}

impl Store for Link {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        let request = request.clone();
        Box::pin(async move {
            self.may_ask()?;
            self.ask(move |store| at_once(store.acquire(&request)), Self::return_lease).await
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        let leases = leases.to_vec();
        Box::pin(async move { self.ask(move |store| at_once(store.renew(&leases)), nothing).await })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        let leases = leases.to_vec();
        Box::pin(async move { self.ask(move |store| at_once(store.release(&leases)), nothing).await })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        let request = request.clone();
        Box::pin(async move { self.ask(move |store| at_once(store.reserve(&request)), nothing).await })
    }

    fn draw<'a>(&'a self, rate: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        let rate = rate.clone();
        Box::pin(async move {
            self.may_ask()?;
            self.ask(move |store| at_once(store.draw(&rate, most)), nothing).await
        })
    }

    fn has_allotments(&self) -> bool {
        true
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        let request = request.clone();
        Box::pin(async move { self.ask(move |store| at_once(store.lock(&request)), nothing).await })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let lock = lock.clone();
        Box::pin(async move { self.ask(move |store| at_once(store.extend(&lock)), nothing).await })
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let lock = lock.clone();
        Box::pin(async move { self.ask(move |store| at_once(store.unlock(&lock)), nothing).await })
    }

    fn release_later(&self, pending: PendingRelease) {
        let question: Question = Arc::new(move |store| -> Delivery {
            store.release_later(pending.clone());
            Box::new(|| ())
        });
        self.send(&question);
    }

    fn notices(&self) -> Notices {
        Notices::new(self.0.notices.subscribe())
    }

    fn health(&self) -> Health {
        let now = self.now();
        let state = self.state();
        match state.failures {
            0 => Health::Up,
            failures @ 1..BREAKS => Health::Failing { failures },
            _ => {
                let since = Duration::from_millis(now.saturating_sub(state.down_since));
                Health::Down { since, probes: state.probes }
            }
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.0.conditions.time_limit))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("number", &self.0.number).finish_non_exhaustive()
    }
}
