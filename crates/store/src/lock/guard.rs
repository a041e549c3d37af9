//! A lock that is held, and a place in its queue.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::Inner;
use crate::{LockRequest, Locked, PendingRelease, Store, StoreError};

/// The lock is held until this is dropped, or for its expiry.
///
/// Dropping it waits for nothing: a task of the store frees the lock, and tries to for 1 s at most. So the lock is
/// freed even if the caller was cancelled in the middle.
#[must_use = "dropped, the lock is free"]
pub struct LockGuard {
    inner: Arc<Inner>,
    lock: Locked,
    asked_at: Instant,
    released: bool,
}

impl LockGuard {
    pub(super) const fn new(inner: Arc<Inner>, lock: Locked, asked_at: Instant) -> Self {
        Self { inner, lock, asked_at, released: false }
    }

    /// Frees the lock and waits until that is done; returns whether it was still held. Cancel safe: the lock is freed
    /// all the same.
    ///
    /// # Errors
    ///
    /// Errors of the store; the lock is then freed later, or by its expiry.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let held = self.inner.store.unlock(&self.lock).await?;
        self.released = true;
        Ok(held)
    }

    /// Holds the lock for another expiry; returns whether it was still held.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub async fn extend(&mut self) -> Result<bool, StoreError> {
        let asked_at = Instant::now();
        let held = self.inner.store.extend(&self.lock).await?;
        if held {
            self.asked_at = asked_at;
        }
        Ok(held)
    }

    /// Returns for how much longer the lock is certainly held, as far as time alone can tell.
    pub fn remaining(&self) -> Duration {
        self.lock.expiry.saturating_sub(self.asked_at.elapsed())
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.released {
            self.inner.store.release_later(PendingRelease::Lock(self.lock.clone()));
        }
        self.inner.lines.ring(self.lock.key.as_str());
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("key", &self.lock.key).finish_non_exhaustive()
    }
}

/// A caller in the queue of a lock; it leaves when dropped.
pub(super) struct QueuedCaller<'a> {
    store: &'a Arc<dyn Store>,
    lock: Option<&'a Locked>,
}

impl<'a> QueuedCaller<'a> {
    pub(super) fn new(store: &'a Arc<dyn Store>, request: &'a LockRequest) -> Self {
        Self { store, lock: request.queue.then_some(&request.lock) }
    }

    /// Ends the place when its turn has come.
    pub(super) const fn leave(&mut self) {
        self.lock = None;
    }
}

impl Drop for QueuedCaller<'_> {
    fn drop(&mut self) {
        if let Some(lock) = self.lock {
            self.store.release_later(PendingRelease::Lock(lock.clone()));
        }
    }
}
