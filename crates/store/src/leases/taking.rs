//! Admitting from local shares, which are made larger where they don't suffice.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::{LeaseDenied, LeaseGuard, Leases, allotment::Missing, lease_guard::What};
use crate::{Claim, Claims, StoreError, poll_queue::Place, side_by_side::side_by_side};

impl Leases {
    /// Like `take_from_shares`, until then. Where the store answered meanwhile it is not gone: it has too few units.
    pub(super) async fn ask_for_shares(
        &self,
        claims: &Claims,
        waits: bool,
        until: Option<Instant>,
    ) -> Result<LeaseGuard, LeaseDenied> {
        let Some(until) = until else { return self.take_from_shares(claims, waits).await };
        let before = self.0.shares().missing(claims.as_slice(), Instant::now());
        if let Ok(decided) = timeout_at(until, self.take_from_shares(claims, waits)).await {
            return decided;
        }
        match self.0.shares().take(claims.as_slice(), Instant::now()) {
            Ok(units) => Ok(LeaseGuard::new(&self.0, What::Units(units))),
            Err(now) if before.iter().any(|it| it.claim == now.claim && it.answers == now.answers) => {
                Err(LeaseDenied::Store(StoreError::TimedOut { after: self.0.store.time_limit().unwrap_or_default() }))
            }
            Err(now) => Err(full(now)),
        }
    }

    /// Admits from the allotments of this process, which are made larger where they don't suffice: all of those at
    /// once.
    async fn take_from_shares(&self, claims: &Claims, waits: bool) -> Result<LeaseGuard, LeaseDenied> {
        let (mut rounds, mut refilled) = (0, vec![false; claims.as_slice().len()]);
        loop {
            let missing = {
                let (mut shares, now) = (self.0.shares(), Instant::now());
                match shares.take(claims.as_slice(), now) {
                    Ok(units) => return Ok(LeaseGuard::new(&self.0, What::Units(units))),
                    Err(_) => shares.missing(claims.as_slice(), now),
                }
            };
            // The store has just been asked for this claim and has none; or others take units faster than they come,
            // which the line is for.
            let in_vain = missing.iter().find(|missing| refilled[missing.claim]);
            if let Some(&missing) = in_vain.or_else(|| missing.first().filter(|_| rounds > 2 * refilled.len())) {
                return Err(full(missing));
            }
            rounds += 1;
            let refill = |&missing: &Missing| async move { (missing.claim, self.refill(claims, missing, waits).await) };
            let mut refills = side_by_side(missing.len(), missing.iter().map(refill)).await;
            refills.sort_by_key(|(claim, _)| *claim);
            for (claim, decides) in refills {
                refilled[claim] |= decides?;
            }
        }
    }

    /// Asks for more of what a claim can't be met from, unless other requests do so already. Returns whether the answer
    /// decides: not if another request of this process asked and there is enough, or if a renewal overtook the question.
    async fn refill(&self, claims: &Claims, missing: Missing, waits: bool) -> Result<bool, LeaseDenied> {
        let Some(claim) = claims.as_slice().get(missing.claim) else { return Err(full(missing)) };
        let place = self.0.refills.stand(&claim.key).await;
        if let Some(error) = place.failure() {
            return Err(LeaseDenied::Store(error));
        }
        let still = self.0.shares().missing(std::slice::from_ref(claim), Instant::now());
        match still.first() {
            None => Ok(false),
            // Another request asked while this one stood in line, and there is not enough for all.
            Some(now) if now.answers > missing.answers + 1 => Err(full(Missing { claim: missing.claim, ..*now })),
            Some(_) => self.ask_in_line(claim, place, waits).await,
        }
    }

    /// Asks for more of a claim, as the first in line. The question outlives its caller where it takes time: what the store
    /// gives is there for the next one in line, which would else ask anew.
    async fn ask_in_line(&self, claim: &Claim, place: Place, waits: bool) -> Result<bool, LeaseDenied> {
        let (inner, claim) = (Arc::clone(&self.0), claim.clone());
        let question = async move {
            let answer = inner.refill(&claim, place.standing(), waits).await;
            if let Err(error) = &answer {
                place.fail(error);
            }
            // The place is kept until the caller looks, if there still is one: it is the first to take.
            (answer, place)
        };
        let asked = match (tokio::runtime::Handle::try_current(), self.0.store.time_limit()) {
            (Ok(runtime), Some(_)) => runtime.spawn(question).await.ok(),
            _ => Some(question.await),
        };
        asked.map_or(Err(StoreError::Unavailable), |(answer, _place)| answer).map_err(LeaseDenied::Store)
    }
}

const fn full(missing: Missing) -> LeaseDenied {
    LeaseDenied::Full { claim: missing.claim, retry_after: missing.retry_after }
}
