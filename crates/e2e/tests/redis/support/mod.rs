//! What all tests share: servers of their own, bounded waits, and an independent witness of who runs.

pub(crate) mod ledger;
pub(crate) mod proxy;
pub(crate) mod server;

use std::{num::NonZeroU32, time::Duration};

pub(crate) use admission_testkit::{PATIENCE, bounded, eventually_async as eventually, ms, shared};
use tower_admission::store::{
    Acquired, Claim, Claims, Keys, Lease, LeaseDenied, LeaseGuard, Leases, RateMode, Request, Store, Token,
};

/// Whether to repeat as often as the documentation says.
pub(crate) fn soak() -> bool {
    std::env::var_os("SOAK").is_some()
}

/// How often a fault is repeated.
pub(crate) fn repeats() -> usize {
    if soak() { 20 } else { 2 }
}

pub(crate) fn keys() -> Keys {
    Keys::new("test").unwrap()
}

pub(crate) fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// A cap on a label of one namespace.
pub(crate) fn cap(name: &str, bound: u32) -> Claim {
    Claim::cap(keys().cap("acme", "label", name), number(bound))
}

pub(crate) fn rate(name: &str, maximum: u32, mode: RateMode) -> Claim {
    Claim::rate(keys().rate("acme", "label", name), number(maximum), mode)
}

pub(crate) fn claims<const N: usize>(claims: [Claim; N]) -> Claims {
    Claims::new(claims.into()).unwrap()
}

pub(crate) fn request(claims: &Claims, expiry: Duration) -> Request {
    Request::new(Token::random().unwrap(), claims.clone(), expiry)
}

/// Asks once; `Err` says which claim is full and when to come back.
pub(crate) async fn acquire(store: &dyn Store, claims: &Claims, expiry: Duration) -> Result<Lease, (usize, Duration)> {
    match store.acquire(&request(claims, expiry)).await.unwrap() {
        Acquired::Granted(lease) => Ok(lease),
        Acquired::Full(full) => Err((full.claim, full.retry_after)),
        other => panic!("{other:?}"),
    }
}

/// Admits as many as come in, `most` at the most.
pub(crate) async fn admitted(leases: &Leases, claim: Claim, most: usize) -> Result<Vec<LeaseGuard>, LeaseDenied> {
    let claims = claims([claim]);
    let mut held = Vec::new();
    while held.len() < most {
        match leases.admit(&claims).await {
            Ok(one) => held.push(one),
            Err(LeaseDenied::Full { claim: 0, .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}
