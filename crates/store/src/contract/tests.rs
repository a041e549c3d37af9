//! Controls: a store that breaks one promise is found by its check.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::*;
use crate::{
    Health, Key, LeaseDenied, Leases, MemoryStore, Notices, PendingRelease, RateMode, Released, Renewed, StoreFuture,
};

const MINUTE: Duration = Duration::from_secs(60);

/// What a store does wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wrong {
    Nothing,
    CountsRatesForADay,
    CountsRatesForAMinute,
    FreesOneCap,
    RenewsOneCap,
    LosesRates,
    KeepsWhatIsLeft,
    AsksToComeTooEarly,
    KeepsTheLowestBound,
}

/// A [`MemoryStore`] that is asked for something else.
#[derive(Debug)]
struct Misled {
    wrong: Wrong,
    store: MemoryStore,
    lowest: Mutex<HashMap<Key, u32>>,
}

impl Misled {
    fn store(wrong: Wrong) -> Arc<dyn Store> {
        Arc::new(Self { wrong, store: MemoryStore::new(), lowest: Mutex::default() })
    }

    fn claim(&self, claim: &Claim) -> Claim {
        let every = |period| Claim::rate(claim.key().clone(), claim.bound(), claim.counted().unwrap().1).every(period);
        match (self.wrong, claim.counted()) {
            (Wrong::CountsRatesForADay, Some((_, RateMode::Window))) => every(24 * 60 * MINUTE),
            (Wrong::CountsRatesForAMinute, Some((period, RateMode::Window))) => every(period.min(MINUTE)),
            (Wrong::KeepsTheLowestBound, None) => {
                let mut lowest = self.lowest.lock().unwrap();
                let lowest = lowest.entry(claim.key().clone()).or_insert(u32::MAX);
                *lowest = claim.bound().get().min(*lowest);
                Claim::cap(claim.key().clone(), number(*lowest))
            }
            _ => claim.clone(),
        }
    }

    /// A lease of the same holder with some of its caps.
    fn part(lease: &Lease, caps: impl Iterator<Item = Key>) -> Lease {
        let claims = Claims::new(caps.map(|key| Claim::cap(key, NonZeroU32::MIN)).collect()).unwrap();
        Lease::of(&Request::new(lease.token(), claims, lease.expiry()), Duration::ZERO)
    }
}

impl Store for Misled {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let claims = request.claims().as_slice().iter().map(|claim| self.claim(claim)).collect();
            let request = Request { claims: Claims::new(claims)?, ..request.clone() };
            let mut answer = self.store.acquire(&request).await?;
            if let (Wrong::AsksToComeTooEarly, Acquired::Full(full)) = (self.wrong, &mut answer) {
                let is_soon = full.retry_after < Duration::from_secs(1);
                full.retry_after /= if is_soon { 2 } else { 1 };
            }
            Ok(answer)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        Box::pin(async move {
            let last = |lease: &Lease| match lease.caps() {
                [.., last] if self.wrong == Wrong::RenewsOneCap => Self::part(lease, std::iter::once(last.clone())),
                _ => lease.clone(),
            };
            let mut renewed = self.store.renew(&leases.iter().map(last).collect::<Vec<_>>()).await?;
            if self.wrong == Wrong::KeepsWhatIsLeft {
                for lease in renewed.lost.iter().map(|&index| &leases[index]).filter(|lease| lease.caps().len() > 1) {
                    let claims = lease.caps().iter().map(|key| Claim::cap(key.clone(), number(9))).collect();
                    self.store.acquire(&Request::new(lease.token(), Claims::new(claims)?, LONG)).await?;
                }
            }
            if self.wrong == Wrong::LosesRates {
                renewed.lost.extend((0..leases.len()).filter(|&index| leases[index].caps().is_empty()));
            }
            Ok(renewed)
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let first = |lease: &Lease| match lease.caps() {
                [first, ..] if self.wrong == Wrong::FreesOneCap => Self::part(lease, std::iter::once(first.clone())),
                _ => lease.clone(),
            };
            self.store.release(&leases.iter().map(first).collect::<Vec<_>>()).await
        })
    }

    fn release_later(&self, pending: PendingRelease) {
        self.store.release_later(pending);
    }

    fn notices(&self) -> Notices {
        self.store.notices()
    }

    fn health(&self) -> Health {
        self.store.health()
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_breaks_one_promise_is_found_by_the_check_of_it() {
    check_leases(async || Misled::store(Wrong::Nothing)).await.unwrap();
    for (wrong, promise) in [
        (Wrong::CountsRatesForADay, "rates grant again after the time that they say"),
        (Wrong::CountsRatesForAMinute, "rates are counted in both modes"),
        (Wrong::FreesOneCap, "a lease comes back with all its caps"),
        (Wrong::RenewsOneCap, "a lease that lost one cap is lost, and frees the others"),
        (Wrong::KeepsWhatIsLeft, "a lease that lost one cap is lost, and frees the others"),
        (Wrong::AsksToComeTooEarly, "rates grant again after the time that they say"),
        (Wrong::LosesRates, "rates grant again after the time that they say"),
        (Wrong::KeepsTheLowestBound, "the lowest bound that was stated counts for all"),
    ] {
        let found = check_leases(async || Misled::store(wrong)).await.unwrap_err();
        assert_eq!(found.promise, promise, "{wrong:?}: {found}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_without_allotments_is_asked_for_each_request_also_with_local_shares() {
    let leases = Leases::builder().local_shares(true).build(Misled::store(Wrong::Nothing));
    let one = Claims::new(vec![Claim::cap(Keys::new("x").unwrap().cap("a", "label", "b"), NonZeroU32::MIN)]).unwrap();
    let held = leases.admit(&one).await.unwrap();
    assert!(matches!(leases.admit(&one).await, Err(LeaseDenied::Full { claim: 0, .. })));
    drop(held);
    assert!(leases.wait(&one).await.is_ok());
}
