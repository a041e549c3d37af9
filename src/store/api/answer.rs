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
    /// The lease of a request, whether or not it was granted.
    pub(crate) fn of(request: &super::Request, granted_at: StoreTime) -> Self {
        Self { token: request.token, caps: request.claims.caps().into(), expiry: request.expiry, granted_at }
    }

    /// The caps that it holds a unit of. Empty if only rates were claimed: then there is nothing to give back.
    pub fn caps(&self) -> &[Key] {
        &self.caps
    }

    /// When it was granted.
    pub const fn granted_at(&self) -> StoreTime {
        self.granted_at
    }

    /// How long it lives after it was granted or renewed.
    pub const fn expiry(&self) -> Duration {
        self.expiry
    }
}

/// Which claim could not be met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Full {
    /// Its index among the claims.
    pub claim: usize,
    /// A rate: when it will grant again, exactly. A cap: when its first lease expires, at the latest.
    pub retry_after: Duration,
    /// When that was so.
    pub at: StoreTime,
}

/// What became of leases that were to be renewed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Renewed {
    /// The indices of those that are lost.
    pub lost: Vec<usize>,
    /// The indices of those that the store could not be asked for this time.
    pub unknown: Vec<usize>,
    /// When they were renewed.
    pub at: StoreTime,
}

/// What became of leases that were given back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Released {
    /// How many of them were still held.
    pub held: usize,
    /// When they were released.
    pub at: StoreTime,
}

/// A change to the allotment of a cap that a process holds under a token.
///
/// It says how large the allotment shall be, not by how much it changes, and requests are numbered: one that is
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
    /// How many units are in use: they are not taken away.
    pub used: u32,
    /// How many units could be in use now: those that are, and one for each request that waits for one.
    pub need: u32,
    /// How many units the allotment shall have; 0 gives it back.
    pub want: u32,
    /// How many units the store granted last and are not returned by this: as many are restored after it lost its data, and
    /// may come into use before the answer.
    pub had: u32,
    /// Larger than in any request before.
    pub sequence: u64,
    /// When the allotment is taken back unless renewed.
    pub expiry: Duration,
    /// Somebody stands in line for more.
    pub waits: bool,
}

impl AllotmentRequest {
    /// The first request of a holder: for one unit of the cap at `key`, none of it in use.
    pub const fn new(token: Token, key: Key, bound: NonZeroU32, expiry: Duration) -> Self {
        Self { token, key, bound, used: 0, need: 1, want: 1, had: 0, sequence: 1, expiry, waits: false }
    }
}

/// How large an allotment is now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Allotment {
    /// Its units.
    pub units: u32,
    /// Whether others wait for this cap: units that are not used should be returned.
    pub wanted: bool,
    /// To how many units an allotment should come down as they come free, although requests of its process wait for
    /// them: its part of the cap, by what each process needs. The bound unless others wait.
    pub target: u32,
    /// How long until the first lease or allotment of the cap expires; for those who got nothing.
    pub retry_after: Duration,
    /// When that was so.
    pub at: StoreTime,
}

/// Units that were charged on a rate in advance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DrawOutcome {
    /// How many; possibly none.
    pub units: u32,
    /// If none: when there will be some. Else: how long they may be used.
    pub after: Duration,
    /// When that was so.
    pub at: StoreTime,
}

/// A try to take a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockRequest {
    /// The lock and who wants it.
    pub lock: Locked,
    /// Stand in the queue of the lock if it is not free, and take it only when first.
    pub queue: bool,
    /// Ask for a notice when it is freed.
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
    /// When it is freed at the latest.
    pub expiry: Duration,
}

impl Locked {
    /// What `token` holds, or wants to, for `expiry`.
    pub const fn new(key: Key, token: Token, expiry: Duration) -> Self {
        Self { key, token, expiry }
    }
}

impl LockRequest {
    /// A try that is not repeated.
    pub const fn new(lock: Locked) -> Self {
        Self { lock, queue: false, waits: false }
    }
}

/// What became of a try to take a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LockAnswer {
    /// It is held now.
    Taken,
    /// Somebody else holds it.
    Busy {
        /// How many stand before this one in the queue; 0 without a queue.
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
    /// Somebody waits for this cap.
    Wanted(Arc<str>),
    /// Notices were missed: anything may have happened.
    Missed,
}

/// Notices as they come.
pub struct Notices(broadcast::Receiver<Notice>);

impl Notices {
    pub(crate) const fn new(receiver: broadcast::Receiver<Notice>) -> Self {
        Self(receiver)
    }

    /// The next one; `None` if the store is gone for good. Cancel safe.
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
