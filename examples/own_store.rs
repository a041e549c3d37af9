//! A store of one's own, written against the public API alone, and held to what a store promises.
//!
//! It counts in a map; a table of a database would do as well. What matters is that one step decides all claims of a request,
//! by the clock of the store. It lends no allotments and has no locks, which `Leases` without local shares don't need.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::broadcast, time::Instant};
use tower_admission::store::{
    Acquired, Answer, Claim, Full, Health, Key, Lease, Notice, Notices, PendingRelease, RateMode, Released, Renewed,
    Request, Store, Token, contract,
};

#[derive(Debug, Default)]
struct State {
    /// Until when the units of each cap are held.
    held: HashMap<Key, HashMap<Token, Duration>>,
    /// The lowest bound that was stated for a cap, and until when that counts.
    bounds: HashMap<Key, (u32, Duration)>,
    /// When the next unit of a rate is due.
    due: HashMap<Key, Duration>,
}

impl State {
    /// How long it takes until there is a unit of a claim, which is then taken for `token`, if there is one.
    fn wait_for(&mut self, claim: &Claim, take: Option<Token>, expiry: Duration, now: Duration) -> Duration {
        let Some((period, mode)) = claim.counted() else { return self.wait_for_cap(claim, take, expiry, now) };
        // Both kinds of rate are a credit in time, of which each unit costs a step; a window has it at its beginning.
        let (step, due) = (period / claim.bound().get(), self.due.entry(claim.key().clone()).or_default());
        let (from, ahead) = match mode {
            RateMode::Smooth { burst } => (now, step * burst.get()),
            _ => (period * (now.as_nanos() / period.as_nanos()) as u32, period),
        };
        let next = from.max(*due) + step;
        if take.is_some() {
            *due = next;
        }
        let over = from + ahead;
        match mode {
            _ if next <= over => Duration::ZERO,
            RateMode::Smooth { .. } => next - over,
            _ => over - now,
        }
    }

    fn wait_for_cap(&mut self, claim: &Claim, take: Option<Token>, expiry: Duration, now: Duration) -> Duration {
        let holders = self.held.entry(claim.key().clone()).or_default();
        holders.retain(|_, until| *until > now);
        let own = (claim.bound().get(), now + expiry);
        let stated = self.bounds.entry(claim.key().clone()).or_insert(own);
        if holders.is_empty() || stated.1 <= now || own.0 <= stated.0 {
            *stated = own;
        }
        let first = holders.values().min().filter(|_| holders.len() >= stated.0 as usize).map(|first| *first - now);
        holders.extend(take.map(|token| (token, now + expiry)));
        first.unwrap_or_default()
    }
}

#[derive(Debug)]
struct MapStore(Mutex<State>, Instant, broadcast::Sender<Notice>);

impl MapStore {
    fn new() -> Self {
        Self(Mutex::default(), Instant::now(), broadcast::Sender::new(64))
    }

    fn step(&self) -> (MutexGuard<'_, State>, Duration) {
        (self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), self.1.elapsed())
    }

    fn give_back(&self, leases: &[Lease]) -> Released {
        let (mut state, now) = self.step();
        let mut free = |lease: &Lease, cap: &Key| {
            let until = state.held.get_mut(cap).and_then(|holders| holders.remove(&lease.token()));
            let _ = self.2.send(Notice::Freed(cap.as_str().into()));
            until.is_some_and(|until| until > now)
        };
        let mut released = Released::default();
        for lease in leases {
            released.held += usize::from(lease.caps().iter().filter(|cap| free(lease, cap)).count() > 0);
        }
        released
    }
}

impl Store for MapStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Acquired> {
        Box::pin(async move {
            let ((mut state, now), claims) = (self.step(), request.claims().as_slice());
            for (index, claim) in claims.iter().enumerate() {
                let after = state.wait_for(claim, None, request.expiry(), now);
                if after > Duration::ZERO {
                    if request.waits() {
                        let _ = self.2.send(Notice::Wanted(claim.key().as_str().into()));
                    }
                    return Ok(Acquired::Full(Full::new(index, after, now)));
                }
            }
            for claim in claims {
                state.wait_for(claim, Some(request.token()), request.expiry(), now);
            }
            Ok(Acquired::Granted(Lease::of(request, now)))
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Renewed> {
        Box::pin(async move {
            let ((mut state, now), mut renewed) = (self.step(), Renewed::default());
            for (index, lease) in leases.iter().enumerate() {
                let mut holds = |cap| {
                    let until = state.held.get_mut(cap).and_then(|holders| holders.get_mut(&lease.token()));
                    until.filter(|until| **until > now).map(|until| *until = now + lease.expiry()).is_some()
                };
                renewed.lost.extend((!lease.caps().iter().all(&mut holds)).then_some(index));
            }
            Ok(renewed)
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Released> {
        Box::pin(async move { Ok(self.give_back(leases)) })
    }

    fn settle(&self, pending: PendingRelease) {
        if let PendingRelease::Lease(lease) = pending {
            self.give_back(&[lease]);
        }
    }

    fn notices(&self) -> Notices {
        Notices::new(self.2.subscribe())
    }

    fn health(&self) -> Health {
        Health::Up
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), contract::Broken> {
    contract::check_leases(async || Arc::new(MapStore::new()) as Arc<dyn Store>).await?;
    println!("the store keeps what a store of leases promises");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn it_keeps_what_a_store_promises() {
    contract::check_leases(async || Arc::new(MapStore::new()) as Arc<dyn Store>).await.unwrap();
}
