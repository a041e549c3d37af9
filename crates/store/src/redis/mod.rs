//! The store of many processes: Redis or Valkey.
//!
//! One multiplexed connection, one script per request. [`RedisClient`](client::RedisClient) owns the connection, the
//! time limit and the breaker; this file turns requests into scripts and the server's answers into ours.

#[cfg(test)]
mod answers_tests;
mod batches;
mod breaker;
mod builder;
mod client;
mod connection;
mod debts;
#[cfg(feature = "redis-cluster")]
mod moving;
mod reply;
mod script;

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

pub use self::builder::{AfterRestart, RedisBuilder};
use self::{
    builder::Settings,
    client::RedisClient,
    connection::Target,
    reply::{Reply, unexpected},
    script::Call,
};
use super::{
    Acquired, Allotment, AllotmentRequest, Claim, DrawOutcome, Full, Health, Key, Keys, Lease, LockAnswer, LockRequest,
    Locked, Notices, PendingRelease, Released, Renewed, Request, Store, StoreError, StoreFuture, api::Rule,
};

/// Counts in a Redis server, for all processes that use it with the same prefix.
///
/// Any Redis from 6.0 on, or Valkey. Set its `maxmemory-policy` to `noeviction`: a key that is thrown away is a cap
/// that is forgotten.
#[derive(Clone)]
pub struct RedisStore(Arc<RedisClient>);

impl RedisStore {
    /// Returns a store in the server at `url`, such as `redis://:password@host:6379/0`.
    pub fn builder(url: &str, keys: Keys) -> RedisBuilder {
        RedisBuilder::server(url, keys)
    }

    /// Returns a store in the cluster that the nodes at `urls` belong to.
    ///
    /// There, each node keeps [`AfterRestart::Quiet`] for itself, and not for locks: a node grants nothing while it has
    /// been up for less than that, and nothing of a cap that it took over from a failed node for as long.
    #[cfg(feature = "redis-cluster")]
    pub fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>, keys: Keys) -> RedisBuilder {
        RedisBuilder::cluster(urls, keys)
    }

    fn new(target: Target, keys: &Keys, settings: Settings) -> Self {
        Self(RedisClient::new(target, keys.prefix(), settings))
    }

    /// Returns the key whose absence says that the server lost its data: in a cluster, a cap itself.
    fn mark(&self, cap: Option<&Key>) -> String {
        match cap {
            Some(cap) if self.0.target.is_cluster() => cap.as_str().to_owned(),
            _ => format!("{}:mark", self.0.prefix),
        }
    }

    /// Returns how long nothing is granted after a restart: for one expiry at least, in which all holders come back.
    fn quiet(&self, expiry: Duration) -> u128 {
        let quiet = self.0.settings.quiet();
        if quiet.is_zero() { 0 } else { quiet.max(expiry).as_micros() }
    }

    fn ask<'a, T: 'a>(
        &'a self,
        call: Call,
        read: impl FnOnce(&Reply) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.0.call(&call, read).await })
    }

    /// Adds the mark to a call for a lock. The keys of a lock have no tag of a namespace, so in a cluster the mark is
    /// elsewhere.
    fn lock_mark(&self, call: Call) -> Call {
        if self.0.target.is_cluster() { call } else { call.key(self.mark(None)) }
    }

    /// Adds the keys of a lock. They begin with the prefix, as all keys do. The braces make the whole name of the lock
    /// the hash tag, so that all three are in the same slot as the lock.
    fn lock_keys(&self, call: Call, key: &Key) -> Call {
        let (prefix, key) = (&self.0.prefix, key.as_str());
        call.key(key).key(format!("{prefix}:{{{key}}}:queue")).key(format!("{prefix}:{{{key}}}:asked"))
    }
}

fn is_held(reply: &Reply) -> Result<bool, StoreError> {
    Ok(reply.number::<u8>(1)? == 1)
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let claims = request.claims.as_slice();
            let cap = claims.iter().find(|claim| claim.is_cap());
            // In a cluster, a request without a cap can't exceed anything that was forgotten.
            let quiet = if cap.is_none() && self.0.target.is_cluster() { 0 } else { self.quiet(request.expiry) };
            let mut call = Call::new(&script::ACQUIRE)
                .leaving(PendingRelease::Lease(Lease::of(request, Duration::ZERO)))
                .key(self.mark(cap.or_else(|| claims.first()).map(Claim::key)))
                .arg(request.token.hex())
                .arg(request.expiry.as_micros())
                .arg(quiet)
                .arg(u8::from(request.waits))
                .arg(&self.0.channel);
            for claim in claims {
                call = match claim.rule {
                    Rule::Cap { bound } => call.key(claim.key.as_str()).arg("cap").arg(bound),
                    Rule::Rate { .. } => rate(call, claim)?,
                };
            }
            let read = |reply: &Reply| match (reply.word()?, reply.at()?) {
                (b"granted", at) => Ok(Acquired::Granted(Lease::of(request, at))),
                (b"full", at) => {
                    Ok(Acquired::Full(Full { claim: reply.number(2)?, retry_after: reply.micros(3)?, at }))
                }
                _ => Err(unexpected()),
            };
            self.0.call(&call, read).await
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Renewed> {
        Box::pin(self.renew_each(leases))
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let mut paid = self.release_each(leases.iter().enumerate().collect()).await;
            paid.unpaid.pop().map_or(Ok(paid.released), |(_, error)| Err(error))
        })
    }

    fn reserve<'a>(&'a self, request: &'a AllotmentRequest) -> StoreFuture<'a, Allotment> {
        let call = Call::new(&script::HOLD)
            .upkeep(request.want <= request.had)
            .key(self.mark(Some(&request.key)))
            .key(request.key.as_str())
            .arg(request.token.hex())
            .arg(request.expiry.as_micros())
            .arg(self.quiet(request.expiry))
            .arg(u8::from(request.waits))
            .arg(&self.0.channel)
            .arg(request.bound)
            .arg(request.used)
            .arg(request.want)
            .arg(request.had)
            .arg(request.sequence)
            .arg(request.need);
        self.ask(call, |reply| match reply.word()? {
            b"block" => Ok(Allotment {
                units: reply.number(2)?,
                wanted: reply.number::<u8>(3)? == 1,
                retry_after: reply.micros(4)?,
                target: reply.number(5)?,
                at: reply.at()?,
            }),
            _ => Err(unexpected()),
        })
    }

    fn draw<'a>(&'a self, claim: &'a Claim, most: u32) -> StoreFuture<'a, DrawOutcome> {
        Box::pin(async move {
            let quiet = if self.0.target.is_cluster() { 0 } else { self.quiet(Duration::ZERO) };
            let call = Call::new(&script::DRAW).key(self.mark(Some(&claim.key))).arg(quiet);
            let read = |reply: &Reply| match reply.word()? {
                b"drawn" => Ok(DrawOutcome { units: reply.number(2)?, after: reply.micros(3)?, at: reply.at()? }),
                _ => Err(unexpected()),
            };
            self.0.call(&rate(call, claim)?.arg(most), read).await
        })
    }

    fn has_allotments(&self) -> bool {
        true
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> StoreFuture<'a, LockAnswer> {
        let lock = &request.lock;
        let call = self
            .lock_mark(self.lock_keys(Call::new(&script::LOCK), &lock.key))
            .leaving(PendingRelease::Lock(lock.clone()))
            .arg(lock.token.hex())
            .arg(lock.expiry.as_micros())
            .arg(self.quiet(lock.expiry))
            .arg(u8::from(request.queue))
            .arg(u8::from(request.waits));
        self.ask(call, |reply| match reply.word()? {
            b"taken" => Ok(LockAnswer::Taken),
            b"busy" => Ok(LockAnswer::Busy { ahead: reply.number(2)? }),
            _ => Err(unexpected()),
        })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let call = self.lock_mark(Call::new(&script::EXTEND).upkeep(true).key(lock.key.as_str()));
        self.ask(call.arg(lock.token.hex()).arg(lock.expiry.as_micros()).arg(self.quiet(lock.expiry)), is_held)
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> StoreFuture<'a, bool> {
        let call = self.lock_keys(Call::new(&script::UNLOCK).upkeep(true), &lock.key);
        self.ask(call.arg(lock.token.hex()).arg(&self.0.channel), is_held)
    }

    fn release_later(&self, debt: PendingRelease) {
        self.0.release_later(debt);
    }

    fn notices(&self) -> Notices {
        Notices::new(self.0.notices.subscribe())
    }

    fn health(&self) -> Health {
        self.0.breaker().health(Instant::now())
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.0.settings.timeout)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the address: it may hold a password.
        f.debug_struct("RedisStore")
            .field("prefix", &self.0.prefix)
            .field("settings", &self.0.settings)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

fn rate(call: Call, claim: &Claim) -> Result<Call, StoreError> {
    let Rule::Rate { maximum, period, mode } = claim.rule else {
        return Err(StoreError::Configuration(format!("{:?} is a cap, not a rate", claim.key)));
    };
    let (kind, burst) = mode.burst().map_or(("bucket", 0), |burst| ("smooth", burst.get()));
    Ok(call.key(claim.key.as_str()).arg(kind).arg(maximum).arg(period.as_micros()).arg(burst))
}
