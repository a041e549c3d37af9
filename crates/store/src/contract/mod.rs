//! What a [`Store`] promises, as checks: the stores of this crate are held to them, and so can one of your own.
//!
//! ```
//! use std::sync::Arc;
//!
//! # mod tower_admission { pub use tower_admission_store as store; }
//! use tower_admission::store::{MemoryStore, contract};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), contract::Broken> {
//! contract::check(async || Arc::new(MemoryStore::new()) as _).await
//! # }
//! ```

mod caps;
mod locks;
mod rates;
#[cfg(test)]
mod tests;

use std::{fmt, future::Future, num::NonZeroU32, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Acquired, Claim, Claims, Keys, Lease, Request, Store, StoreError, Token};

/// Long enough for no check to see its end by chance.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(60);

/// Time in which what is promised without a time has to happen.
const MOST_WAIT: Duration = Duration::from_secs(20);

/// A promise that a store does not keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The promise, in words.
    pub promise: &'static str,
    /// What was found instead.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store does not keep that {}: {}", self.promise, self.found)
    }
}

impl std::error::Error for Broken {}

/// Checks what a store promises of leases and rates, as [`check`] does: all that [`Leases`](super::Leases) without local
/// shares need.
///
/// # Errors
///
/// The first promise that is not kept; an error of the store is one.
pub async fn check_leases(fresh: impl AsyncFn() -> Arc<dyn Store>) -> Result<(), Broken> {
    kept("a cap holds, and what is released can be had again", caps::hold(&*fresh().await)).await?;
    kept("a cap holds, however many ask at once", caps::at_once(fresh().await)).await?;
    kept("all claims are granted or none is charged", caps::all_or_none(&*fresh().await)).await?;
    kept("a lease comes back with all its caps", caps::comes_back_whole(&*fresh().await)).await?;
    kept("a lease that lost one cap is lost, and frees the others", caps::lost_in_part(&*fresh().await)).await?;
    kept("what is not renewed is taken back, and its holder learns it", caps::expire(&*fresh().await)).await?;
    kept("what is renewed stays", caps::renewed(&*fresh().await)).await?;
    kept("many leases are renewed and released at once", caps::many(&*fresh().await)).await?;
    kept("the lowest bound that was stated counts for all", caps::lowest_bound(&*fresh().await)).await?;
    kept("what is given back is told to those who wait", caps::notices(&*fresh().await)).await?;
    kept("rates are counted in both modes", rates::modes(&*fresh().await)).await?;
    kept("rates grant again after the time that they say", rates::again(&*fresh().await)).await
}

/// Checks all that a store promises, each on a store of its own, which `fresh` returns empty.
///
/// Takes some seconds, in which leases expire: in Tokio's time, so virtual where that is. Cancel safe.
///
/// # Errors
///
/// The first promise that is not kept; an error of the store is one.
pub async fn check(fresh: impl AsyncFn() -> Arc<dyn Store>) -> Result<(), Broken> {
    check_leases(&fresh).await?;
    kept("allotments share a cap with leases", caps::allotments(&*fresh().await)).await?;
    kept("an allotment expires as a whole", caps::allotment_expires(&*fresh().await)).await?;
    kept("units of a rate are drawn in advance", rates::drawn(&*fresh().await)).await?;
    kept("a lock is held by one, and freed by its holder alone", locks::held_by_one(&*fresh().await)).await?;
    kept("a lock expires", locks::expire(&*fresh().await)).await?;
    kept("the queue of a lock keeps its order, and forgets those that leave", locks::queue(&*fresh().await)).await
}

/// What was found instead.
#[derive(Debug)]
struct Found(String);

impl From<StoreError> for Found {
    fn from(error: StoreError) -> Self {
        Self(format!("{error} ({})", error.as_str()))
    }
}

type Kept = Result<(), Found>;

async fn kept(promise: &'static str, check: impl Future<Output = Kept>) -> Result<(), Broken> {
    check.await.map_err(|Found(found)| Broken { promise, found })
}

/// Finds what is not so.
fn is(so: bool, found: impl FnOnce() -> String) -> Kept {
    if so { Ok(()) } else { Err(Found(found())) }
}

/// Waits until something is so.
async fn becomes(what: &str, mut so: impl AsyncFnMut() -> Result<bool, Found>) -> Kept {
    let until = Instant::now() + MOST_WAIT;
    while Instant::now() < until {
        if so().await? {
            return Ok(());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Err(Found(format!("{what}: not within {MOST_WAIT:?}")))
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(number - 1)
}

fn keys() -> Result<Keys, Found> {
    Ok(Keys::new("contract")?)
}

fn cap(name: &str, bound: u32) -> Result<Claim, Found> {
    Ok(Claim::cap(keys()?.cap("acme", "label", name), number(bound)))
}

fn claims<const N: usize>(claims: [Claim; N]) -> Result<Claims, Found> {
    Ok(Claims::new(claims.into())?)
}

/// Asks once; `Err` says which claim is full and when to come back.
async fn acquire(
    store: &dyn Store,
    claims: &Claims,
    expiry: Duration,
) -> Result<Result<Lease, (usize, Duration)>, Found> {
    match store.acquire(&Request::new(Token::random()?, claims.clone(), expiry)).await? {
        Acquired::Granted(lease) => Ok(Ok(lease)),
        Acquired::Full(full) => Ok(Err((full.claim, full.retry_after))),
    }
}

/// Asks for what has to be granted.
async fn granted(store: &dyn Store, claims: &Claims, expiry: Duration) -> Result<Lease, Found> {
    acquire(store, claims, expiry).await?.map_err(|full| Found(format!("{claims:?} is refused: {full:?}")))
}

/// Asks for what must not be granted.
async fn full(store: &dyn Store, claims: &Claims) -> Result<(usize, Duration), Found> {
    let granted = |lease| Found(format!("{claims:?} is granted: {lease:?}"));
    acquire(store, claims, LONG).await?.err().ok_or(()).map_err(|()| granted("a lease beyond the bound"))
}
