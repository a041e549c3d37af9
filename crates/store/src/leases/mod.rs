//! Leases for requests: taken, renewed while the work runs, given back when it ends.

mod allotment;
#[cfg(test)]
mod allotment_tests;
mod asking;
mod builder;
mod driver;
mod lease_guard;
mod loss;
mod on_failure;
mod purse;
mod taking;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use self::{allotment::Shares, lease_guard::What, loss::Loss, on_failure::local_claims};
pub use self::{
    builder::LeasesBuilder,
    lease_guard::{LeaseGuard, LossSignal},
};
use super::{
    Acquired, Claim, Claims, Health, Key, Lease, MemoryStore, Request, Store, StoreError, Token,
    backoff::{Backoff, Seeds},
    poll_queue::PollQueues,
    task::{Task, lock},
};

/// Pauses between two questions of a request that waits for a cap.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Lease time of what is counted in this process alone: it is given back by being dropped.
const FOR_GOOD: Duration = Duration::from_secs(365 * 86_400);

/// Admits requests under limits that all users of the same store share.
///
/// A clone is the same. The first use starts two tasks on the current Tokio runtime: one renews leases, the other hears
/// what other processes free and want. They end with the last clone and the last [`LeaseGuard`].
#[derive(Clone)]
pub struct Leases(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    settings: LeasesBuilder,
    waits: PollQueues,
    refills: PollQueues,
    seeds: Seeds,
    /// Leases that the store granted to single requests.
    single: Mutex<HashMap<Token, Single>>,
    shares: Mutex<Shares>,
    /// Counters of this process, while the store is gone.
    local: MemoryStore,
    renews: Task,
    hears: Task,
}

struct Single {
    lease: Lease,
    /// Time when the store was last asked to renew the lease.
    asked_at: Instant,
    loss: Arc<Loss>,
}

/// Why a request was not admitted.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LeaseDenied {
    /// One of the request's claims can't be met.
    Full {
        /// Index of the claim.
        claim: usize,
        /// Time until it is worth coming back: exact for a rate, at the latest for a cap.
        retry_after: Duration,
    },
    /// Fail closed: the store gave no answer, and the rule admits no request then.
    Store(StoreError),
}

impl LeaseDenied {
    /// Returns the time until it is worth coming back, if that is known.
    #[doc(hidden)]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Full { retry_after, .. } | Self::Store(StoreError::Restarted { retry_after }) => Some(*retry_after),
            Self::Store(_) => None,
        }
    }
}

impl fmt::Display for LeaseDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { claim, .. } => write!(f, "the shared limit of claim {claim} is used up"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LeaseDenied {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Full { .. } => None,
            Self::Store(error) => Some(error),
        }
    }
}

impl Leases {
    /// Settings to be changed and built.
    pub const fn builder() -> LeasesBuilder {
        LeasesBuilder { expiry: Duration::from_secs(10), wait: Duration::from_secs(2), local_shares: false, seed: None }
    }

    /// Admits a request from capacity that this process holds already: at once, without the store.
    pub fn admit_from_here(&self, claims: &Claims) -> Option<LeaseGuard> {
        if !self.0.settings.local_shares {
            return None;
        }
        let units = self.0.shares().take(claims.as_slice(), Instant::now()).ok()?;
        Some(LeaseGuard::new(&self.0, What::Units(units)))
    }

    /// Admits a request now or not at all: asks the store where need be, for one of its timeouts at most.
    ///
    /// Cancel safe: a grant whose caller is gone is given back.
    ///
    /// # Errors
    ///
    /// [`LeaseDenied::Full`] if a claim can't be met, [`LeaseDenied::Store`] if the store is gone and one of the rules fails
    /// closed.
    pub async fn admit(&self, claims: &Claims) -> Result<LeaseGuard, LeaseDenied> {
        // With local shares, others hold what is free until they hear that it is wanted.
        let decided = self.try_admit(claims, self.0.settings.local_shares).await;
        if let Err(LeaseDenied::Full { claim, .. }) = decided
            && let Some(claim) = claims.as_slice().get(claim)
        {
            self.0.shares().wish(&claim.key, Instant::now());
        }
        decided
    }

    /// Admits a request as soon as its claims can be met, waiting for at most the wait budget.
    ///
    /// However many requests wait for one key, one of them asks the store: with pauses that grow, and at once when
    /// capacity is freed in this process or notice comes from another. Cancel safe.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit), after the wait. An error of the store ends the wait at once.
    pub async fn wait(&self, claims: &Claims) -> Result<LeaseGuard, LeaseDenied> {
        let deadline = Instant::now() + self.0.settings.wait;
        let mut refused = LeaseDenied::Full { claim: 0, retry_after: Duration::ZERO };
        // A request that finds others waiting stands behind them.
        let mut missing = claims.as_slice().iter().find(|claim| self.0.waits.standing(&claim.key) > 0);
        if missing.is_none() {
            match self.try_admit(claims, true).await {
                Err(LeaseDenied::Full { claim, retry_after }) => {
                    missing = claims.as_slice().get(claim);
                    refused = LeaseDenied::Full { claim, retry_after };
                }
                decided => return decided,
            }
        }
        let Some(Claim { key, .. }) = missing else { return Err(refused) };
        let Ok(place) = timeout_at(deadline, self.0.waits.stand(key)).await else { return Err(refused) };
        if let Some(error) = place.failure() {
            return self.or_without_store(claims, Err(LeaseDenied::Store(error))).await;
        }
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, self.0.seeds.next());
        loop {
            match self.try_admit(claims, true).await {
                Err(full @ LeaseDenied::Full { .. }) => refused = full,
                decided => {
                    if let Err(LeaseDenied::Store(error)) = &decided {
                        place.fail(error);
                    }
                    return decided;
                }
            }
            let pause = (Instant::now() + pauses.wait()).min(deadline);
            // Rung or not, it is time to look again.
            let _ = timeout_at(pause, place.freed()).await;
            if Instant::now() >= deadline {
                drop(place);
                self.0.withdraw(key);
                return Err(refused);
            }
        }
    }

    /// Whether the store answers.
    pub fn health(&self) -> Health {
        self.0.store.health()
    }

    /// Returns how many requests of this process wait for the cap or rate at `key`.
    pub fn waiting(&self, key: &Key) -> usize {
        self.0.waits.standing(key)
    }

    /// Returns how many units of the cap at `key` this process holds in its local share, and how many of them are in
    /// use.
    pub fn local_share(&self, key: &Key) -> (u32, u32) {
        self.0.shares().of(key)
    }

    /// Returns how many leases and units were lost while their work ran.
    pub fn lost(&self) -> u64 {
        self.0.shares().lost
    }

    async fn try_admit(&self, claims: &Claims, waits: bool) -> Result<LeaseGuard, LeaseDenied> {
        let decided = self.decide(claims, waits, self.until()).await;
        self.or_without_store(claims, decided).await
    }

    /// Returns when the time limit of a question that is asked now is over, for all its rounds together.
    fn until(&self) -> Option<Instant> {
        self.0.store.time_limit().map(|limit| Instant::now() + limit)
    }

    /// Asks the store where need be.
    async fn decide(&self, claims: &Claims, waits: bool, until: Option<Instant>) -> Result<LeaseGuard, LeaseDenied> {
        self.0.wake_tasks();
        if self.0.settings.local_shares {
            self.ask_for_shares(claims, waits, until).await
        } else {
            self.ask_store(claims, waits).await
        }
    }

    async fn ask_store(&self, claims: &Claims, waits: bool) -> Result<LeaseGuard, LeaseDenied> {
        let token = self.0.seeds.token().map_err(LeaseDenied::Store)?;
        let mut request = Request::new(token, claims.clone(), self.0.settings.expiry);
        if waits {
            request = request.waiting();
        }
        let asked_at = Instant::now();
        match self.0.store.acquire(&request).await.map_err(LeaseDenied::Store)? {
            Acquired::Granted(lease) => {
                let loss = Arc::<Loss>::default();
                if !lease.caps.is_empty() {
                    let single = Single { lease, asked_at, loss: Arc::clone(&loss) };
                    self.0.single().insert(token, single);
                }
                Ok(LeaseGuard::new(&self.0, What::Single { token, loss }))
            }
            Acquired::Full(full) => Err(LeaseDenied::Full { claim: full.claim, retry_after: full.retry_after }),
        }
    }

    /// Lets the rules decide where the store is gone. A late answer alone doesn't say so, since others may come.
    async fn or_without_store(
        &self,
        claims: &Claims,
        decided: Result<LeaseGuard, LeaseDenied>,
    ) -> Result<LeaseGuard, LeaseDenied> {
        match decided {
            Err(LeaseDenied::Store(error)) if error.is_gone() => {
                let is_late = matches!(error, StoreError::TimedOut { .. });
                if is_late && !matches!(self.health(), Health::Down { .. }) {
                    return Err(LeaseDenied::Store(error));
                }
                self.without_store(claims, error).await
            }
            decided => decided,
        }
    }

    /// Returns what the rules say for the time while the store is gone.
    async fn without_store(&self, claims: &Claims, error: StoreError) -> Result<LeaseGuard, LeaseDenied> {
        let Some(local) = local_claims(claims) else { return Err(LeaseDenied::Store(error)) };
        if local.is_empty() {
            return Ok(LeaseGuard::new(&self.0, What::Nothing));
        }
        let local = Claims::new(local).map_err(LeaseDenied::Store)?;
        let token = self.0.seeds.token().map_err(LeaseDenied::Store)?;
        let request = Request::new(token, local.clone(), FOR_GOOD);
        match self.0.local.acquire(&request).await.map_err(LeaseDenied::Store)? {
            Acquired::Granted(lease) => Ok(LeaseGuard::new(&self.0, What::Local(lease))),
            Acquired::Full(full) => {
                // The index among all claims, since claims that fail open were left out.
                let key = local.as_slice().get(full.claim).map(|claim| &claim.key);
                let claim = claims.as_slice().iter().position(|claim| Some(&claim.key) == key).unwrap_or(0);
                Err(LeaseDenied::Full { claim, retry_after: full.retry_after })
            }
        }
    }
}

impl Inner {
    fn shares(&self) -> MutexGuard<'_, Shares> {
        lock(&self.shares)
    }

    fn single(&self) -> MutexGuard<'_, HashMap<Token, Single>> {
        lock(&self.single)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases")
            .field("store", &self.0.store)
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}
