//! What a store answers.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use tokio::sync::broadcast;

use super::{Key, Token};

/// A moment on the clock of the store: time since an origin of its own.
pub type StoreTime = Duration;

/// The answer to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Acquired {
    /// All of it, until the lease expires.
    Granted(Lease),
    /// Nothing: one of the claims can't be met now.
    Full(Full),
}

/// What was granted: units of caps, held under a token.
#[derive(Clone, Debug)]
pub struct Lease {
    pub(crate) token: Token,
    pub(crate) caps: Arc<[Key]>,
    pub(crate) expiry: Duration,
    pub(crate) granted_at: StoreTime,
}

impl Lease {
    /// Returns the lease of a request that a store grants.
    pub fn of(request: &super::Request, granted_at: StoreTime) -> Self {
        let caps =
            request.claims.as_slice().iter().filter(|claim| claim.is_cap()).map(|claim| claim.key.clone()).collect();
        Self { token: request.token, caps, expiry: request.expiry, granted_at }
    }

    /// Returns the token that proves it.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Returns the caps of which the lease holds a unit. Empty if only rates were claimed: then there is nothing to
    /// give back.
    pub fn caps(&self) -> &[Key] {
        &self.caps
    }

    /// Time when the lease was granted.
    pub const fn granted_at(&self) -> StoreTime {
        self.granted_at
    }

    /// Time to live after the lease was granted or renewed.
    pub const fn expiry(&self) -> Duration {
        self.expiry
    }
}

/// The claim that could not be met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Full {
    /// Index of the claim.
    pub claim: usize,
    /// A rate: time until it grants again, exactly. A cap: time until its first lease expires, at the latest.
    pub retry_after: Duration,
    /// Time of the answer.
    pub at: StoreTime,
}

impl Full {
    /// Returns the answer that the claim with this index can't be met for so long.
    pub const fn new(claim: usize, retry_after: Duration, at: StoreTime) -> Self {
        Self { claim, retry_after, at }
    }
}

/// What became of leases that were to be renewed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Renewed {
    /// Indices of the leases that are lost.
    pub lost: Vec<usize>,
    /// Indices of the leases for which the store could not be asked this time.
    pub unknown: Vec<usize>,
    /// Time when the leases were renewed.
    pub at: StoreTime,
}

/// What became of leases that were given back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// Leases that were still held.
    pub held: usize,
    /// Time when they were released.
    pub at: StoreTime,
}

/// A change to the allotment of a cap that a process holds under a token.
///
/// The request states the size of the allotment, not a difference, and requests are numbered: a request that is
/// repeated, lost or late does no harm.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AllotmentRequest {
    /// The holder.
    pub token: Token,
    /// The cap.
    pub key: Key,
    /// The bound of the cap.
    pub bound: NonZeroU32,
    /// Units in use: they are not taken away.
    pub used: u32,
    /// Units that could be in use now: those in use, and one for each waiting request.
    pub need: u32,
    /// Units that the allotment shall have; 0 gives it back.
    pub want: u32,
    /// Units that the store granted last and that this does not return: as many are restored after the store lost its
    /// data, and may come into use before the answer.
    pub had: u32,
    /// Larger than in any request before.
    pub sequence: u64,
    /// Time after which the allotment is taken back unless renewed.
    pub expiry: Duration,
    /// Whether requests stand in line for more units.
    pub waits: bool,
}

impl AllotmentRequest {
    /// Returns the first request of a holder: for one unit of the cap at `key`, none of it in use.
    pub const fn new(token: Token, key: Key, bound: NonZeroU32, expiry: Duration) -> Self {
        Self { token, key, bound, used: 0, need: 1, want: 1, had: 0, sequence: 1, expiry, waits: false }
    }
}

/// How large an allotment is now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Allotment {
    /// Units of the allotment.
    pub units: u32,
    /// Whether other processes wait for this cap, or more is held of it than its bound, which was lowered: units that are
    /// not used should be returned.
    pub wanted: bool,
    /// Units to which the allotment should come down as they come free, although requests of its process wait for them:
    /// its part of the cap, by what each process needs. The bound unless units are wanted.
    pub target: u32,
    /// Time until the first lease or allotment of the cap expires; for a process that got nothing.
    pub retry_after: Duration,
    /// Time of the answer.
    pub at: StoreTime,
}

impl Allotment {
    /// Returns an allotment of `units`, of which none is wanted elsewhere.
    pub const fn new(units: u32, at: StoreTime) -> Self {
        Self { units, wanted: false, target: u32::MAX, retry_after: Duration::ZERO, at }
    }
}

/// Units that were charged on a rate in advance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DrawOutcome {
    /// Units; possibly none.
    pub units: u32,
    /// Without units: time until there are some. Else: time for which they may be used.
    pub after: Duration,
    /// Time of the answer.
    pub at: StoreTime,
}

impl DrawOutcome {
    /// Returns units for use within `after`; or none, and that there are some after that.
    pub const fn new(units: u32, after: Duration, at: StoreTime) -> Self {
        Self { units, after, at }
    }
}

/// A try to take a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockRequest {
    /// The lock and the caller that wants it.
    pub lock: Locked,
    /// Whether to stand in the queue of the lock if it is not free, and to take it only when first.
    pub queue: bool,
    /// Whether to ask for a notice when the lock is freed.
    pub waits: bool,
}

/// A lock and a token: what proves that it is held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Locked {
    /// The lock.
    pub key: Key,
    /// The holder.
    pub token: Token,
    /// Time after which the lock is freed at the latest.
    pub expiry: Duration,
}

impl Locked {
    /// Returns what `token` holds, or wants to, for `expiry`.
    pub const fn new(key: Key, token: Token, expiry: Duration) -> Self {
        Self { key, token, expiry }
    }
}

impl LockRequest {
    /// Returns a try that is not repeated.
    pub const fn new(lock: Locked) -> Self {
        Self { lock, queue: false, waits: false }
    }
}

/// What became of a try to take a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockAnswer {
    /// The caller holds the lock now.
    Taken,
    /// Another caller holds the lock.
    Busy {
        /// Callers before this one in the queue; 0 without a queue.
        ahead: u32,
    },
}

/// Something to be given back without waiting for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PendingRelease {
    /// A lease.
    Lease(Lease),
    /// An allotment that is to be given back or made smaller.
    Allotment(AllotmentRequest),
    /// A lock.
    Lock(Locked),
}

/// A hint that it is worth looking.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Some of this cap was freed, or this lock.
    Freed(Arc<str>),
    /// This cap has waiters.
    Wanted(Arc<str>),
    /// Notices were missed: any of them may have been sent.
    Missed,
}

/// Notices as they come.
pub struct Notices(broadcast::Receiver<Notice>);

impl Notices {
    /// Returns the notices that come through this channel: for a [`Store`](crate::Store) of your own. Where the
    /// receiver lags behind, [`Notice::Missed`] stands for what it missed.
    pub const fn new(receiver: broadcast::Receiver<Notice>) -> Self {
        Self(receiver)
    }

    /// Returns the next notice; `None` if the store is gone for good. Cancel safe.
    pub async fn next(&mut self) -> Option<Notice> {
        match self.0.recv().await {
            Ok(notice) => Some(notice),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Notice::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}
