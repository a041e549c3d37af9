//! The store of many processes: Redis or Valkey.
//!
//! One multiplexed connection, one script per request. [`Line`](line::Line) owns the connection, the time limit and
//! the breaker; this file turns what is asked into scripts and their answers into ours.

mod builder;
mod keeper;
mod line;
mod link;
mod reply;
mod script;

use std::{fmt, sync::Arc, time::Duration};

pub use self::builder::{AfterRestart, RedisBuilder};
use self::{builder::Settings, line::Line, link::Target, reply::unexpected, script::Call};
use super::{
    Acquired, Answer, Block, BlockRequest, Claim, Debt, Drawn, Full, Health, Key, Keys, Lease, LockAnswer, LockRequest,
    Locked, Notices, RateMode, Released, Renewed, Request, Store, StoreError, claim::Rule,
};

/// How many leases are renewed or released by one script: it must not keep others waiting.
const BATCH: usize = 128;

/// Counts in a Redis server, for all processes that use it with the same prefix.
///
/// Any Redis from 6.0 on, or Valkey. Set its `maxmemory-policy` to `noeviction`: a key that is thrown away is a cap
/// that is forgotten.
#[derive(Clone)]
pub struct RedisStore(Arc<Line>);

impl RedisStore {
    /// A store in the server at `url`, such as `redis://:password@host:6379/0`.
    pub fn builder(url: &str, keys: Keys) -> RedisBuilder {
        RedisBuilder::server(url, keys)
    }

    /// A store in the cluster that the nodes at `urls` belong to.
    ///
    /// There, waiters get no notices from other processes, and [`AfterRestart::Quiet`] is kept per namespace, not for
    /// locks.
    #[cfg(feature = "redis-cluster")]
    pub fn cluster<'a>(urls: impl IntoIterator<Item = &'a str>, keys: Keys) -> RedisBuilder {
        RedisBuilder::cluster(urls, keys)
    }

    fn new(target: Target, keys: &Keys, settings: Settings) -> Self {
        Self(Line::new(target, keys.prefix(), settings))
    }

    fn channel(&self) -> &str {
        // A cluster would tell all its nodes.
        if self.0.is_cluster() { "" } else { self.0.channel() }
    }

    /// The key whose absence says that the server lost its data.
    fn mark(&self, tag: Option<&str>) -> String {
        match tag {
            Some(tag) if self.0.is_cluster() => format!("{}:{{{tag}}}:mark", self.0.prefix()),
            _ => format!("{}:mark", self.0.prefix()),
        }
    }

    fn quiet(&self) -> u128 {
        match self.0.settings().after_restart {
            AfterRestart::Quiet(quiet) => quiet.as_micros(),
            AfterRestart::Grant => 0,
        }
    }

    async fn try_acquire(&self, request: &Request) -> Result<Acquired, StoreError> {
        let first = &request.claims.as_slice()[0].key;
        let mut call = Call::new(&script::ACQUIRE)
            .key(self.mark(first.tag()))
            .arg(request.token.hex())
            .arg(request.expiry.as_micros())
            .arg(self.quiet())
            .arg(u8::from(request.waits))
            .arg(self.channel());
        for claim in request.claims.as_slice() {
            call = match claim.rule {
                Rule::Cap { bound } => cap_keys(call, &claim.key).arg("cap").arg(bound),
                Rule::Rate { .. } => rate(call, claim)?,
            };
        }
        let reply = self.0.call(&call).await?;
        let at = reply.at()?;
        match reply.word()? {
            b"granted" => Ok(Acquired::Granted(Lease::of(request, at))),
            b"full" => Ok(Acquired::Full(Full { claim: reply.number(2)?, retry_after: reply.micros(3)?, at })),
            _ => Err(unexpected()),
        }
    }

    async fn try_renew(&self, leases: &[(usize, &Lease)], renewed: &mut Renewed) -> Result<(), StoreError> {
        let tag = leases.first().and_then(|(_, lease)| tag(lease));
        let mut call = Call::new(&script::RENEW).key(self.mark(tag)).arg(self.quiet());
        for (_, lease) in leases {
            call = call.arg(lease.token.hex()).arg(lease.expiry.as_micros()).arg(lease.caps.len());
            call = lease.caps.iter().fold(call, cap_keys);
        }
        let reply = self.0.call(&call).await?;
        for index in reply.numbers(1)? {
            let (index, _) = leases.get(index).ok_or_else(unexpected)?;
            renewed.lost.push(*index);
        }
        renewed.at = reply.at()?;
        Ok(())
    }

    async fn try_release(&self, leases: &[(usize, &Lease)]) -> Result<Released, StoreError> {
        let mut call = Call::new(&script::RELEASE).arg(self.channel());
        for (_, lease) in leases {
            call = call.arg(lease.token.hex()).arg(lease.caps.len());
            call = lease.caps.iter().fold(call, cap_keys);
        }
        let reply = self.0.call(&call).await?;
        Ok(Released { held: reply.number(1)?, at: reply.at()? })
    }

    async fn try_hold(&self, request: &BlockRequest) -> Result<Block, StoreError> {
        let call = Call::new(&script::HOLD).key(self.mark(request.key.tag()));
        let call = cap_keys(call, &request.key)
            .arg(request.token.hex())
            .arg(request.expiry.as_micros())
            .arg(self.quiet())
            .arg(u8::from(request.waits))
            .arg(self.channel())
            .arg(request.bound)
            .arg(request.used)
            .arg(request.want)
            .arg(request.had)
            .arg(request.sequence);
        let reply = self.0.call(&call).await?;
        match reply.word()? {
            b"block" => Ok(Block {
                units: reply.number(2)?,
                wanted: reply.number::<u8>(3)? == 1,
                retry_after: reply.micros(4)?,
                at: reply.at()?,
            }),
            _ => Err(unexpected()),
        }
    }

    async fn try_lock(&self, request: &LockRequest) -> Result<LockAnswer, StoreError> {
        let lock = &request.lock;
        let call = self.lock_mark(lock_keys(Call::new(&script::LOCK), &lock.key));
        let call = call
            .arg(lock.token.hex())
            .arg(lock.expiry.as_micros())
            .arg(self.quiet())
            .arg(u8::from(request.queue))
            .arg(u8::from(request.waits));
        let reply = self.0.call(&call).await?;
        match reply.word()? {
            b"taken" => Ok(LockAnswer::Taken),
            b"busy" => Ok(LockAnswer::Busy { ahead: reply.number(2)? }),
            _ => Err(unexpected()),
        }
    }

    /// The keys of a lock have no tag of a namespace, so in a cluster the mark is elsewhere.
    fn lock_mark(&self, call: Call) -> Call {
        if self.0.is_cluster() { call } else { call.key(self.mark(None)) }
    }

    async fn is_held(&self, call: Call) -> Result<bool, StoreError> {
        Ok(self.0.call(&call).await?.number::<u8>(1)? == 1)
    }

    fn unlocking(&self, lock: &Locked) -> Call {
        lock_keys(Call::new(&script::UNLOCK), &lock.key).arg(lock.token.hex()).arg(self.channel())
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: &'a Request) -> Answer<'a, Acquired> {
        Box::pin(async move {
            let owed = self.0.owe(Debt::Lease(Lease::of(request, Duration::ZERO)));
            owed.unless_clear(self.try_acquire(request).await)
        })
    }

    fn renew<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Renewed> {
        Box::pin(async move {
            let mut renewed = Renewed::default();
            for batch in batches(leases) {
                self.try_renew(&batch, &mut renewed).await?;
            }
            renewed.lost.sort_unstable();
            Ok(renewed)
        })
    }

    fn release<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, Released> {
        Box::pin(async move {
            let mut all = Released::default();
            for batch in batches(leases) {
                let released = self.try_release(&batch).await?;
                (all.held, all.at) = (all.held + released.held, released.at);
            }
            Ok(all)
        })
    }

    fn hold<'a>(&'a self, request: &'a BlockRequest) -> Answer<'a, Block> {
        Box::pin(self.try_hold(request))
    }

    fn draw<'a>(&'a self, claim: &'a Claim, most: u32) -> Answer<'a, Drawn> {
        Box::pin(async move {
            let call = Call::new(&script::DRAW).key(self.mark(claim.key.tag())).arg(self.quiet());
            let reply = self.0.call(&rate(call, claim)?.arg(most)).await?;
            match reply.word()? {
                b"drawn" => Ok(Drawn { units: reply.number(2)?, after: reply.micros(3)?, at: reply.at()? }),
                _ => Err(unexpected()),
            }
        })
    }

    fn lock<'a>(&'a self, request: &'a LockRequest) -> Answer<'a, LockAnswer> {
        Box::pin(async move {
            let owed = self.0.owe(Debt::Lock(request.lock.clone()));
            owed.unless_clear(self.try_lock(request).await)
        })
    }

    fn extend<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        let call = self.lock_mark(Call::new(&script::EXTEND).key(lock.key.as_str()));
        Box::pin(self.is_held(call.arg(lock.token.hex()).arg(lock.expiry.as_micros()).arg(self.quiet())))
    }

    fn unlock<'a>(&'a self, lock: &'a Locked) -> Answer<'a, bool> {
        Box::pin(self.is_held(self.unlocking(lock)))
    }

    fn settle(&self, debt: Debt) {
        self.0.settle(debt);
    }

    fn notices(&self) -> Notices {
        Notices::new(self.0.listen())
    }

    fn health(&self) -> Health {
        self.0.health()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the address: it may hold a password.
        f.debug_struct("RedisStore")
            .field("prefix", &self.0.prefix())
            .field("settings", self.0.settings())
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

fn cap_keys(call: Call, key: &Key) -> Call {
    call.key(key.as_str()).key(format!("{}:blocks", key.as_str()))
}

/// The braces make the whole name of the lock the hash tag, so that all three are in the same slot as the lock.
fn lock_keys(call: Call, key: &Key) -> Call {
    let key = key.as_str();
    call.key(key).key(format!("{{{key}}}:queue")).key(format!("{{{key}}}:asked"))
}

fn rate(call: Call, claim: &Claim) -> Result<Call, StoreError> {
    let Rule::Rate { maximum, period, mode } = claim.rule else {
        return Err(StoreError::Configuration(format!("{:?} is a cap, not a rate", claim.key)));
    };
    let (kind, burst) = match mode {
        RateMode::Bucket => ("bucket", 0),
        RateMode::Smooth { burst } => ("smooth", burst.get()),
    };
    Ok(call.key(claim.key.as_str()).arg(kind).arg(maximum).arg(period.as_micros()).arg(burst))
}

fn tag(lease: &Lease) -> Option<&str> {
    lease.caps.first().and_then(Key::tag)
}

/// Leases that one script may handle: of one namespace, and not too many. Those without caps hold nothing.
fn batches(leases: &[Lease]) -> Vec<Vec<(usize, &Lease)>> {
    let mut sorted: Vec<_> = leases.iter().enumerate().filter(|(_, lease)| !lease.caps.is_empty()).collect();
    sorted.sort_by_key(|(_, lease)| tag(lease));
    sorted
        .chunk_by(|(_, one), (_, other)| tag(one) == tag(other))
        .flat_map(|of| of.chunks(BATCH))
        .map(<[_]>::to_vec)
        .collect()
}
