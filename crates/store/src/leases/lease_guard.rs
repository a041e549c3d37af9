//! The guard of a request that was admitted.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
};

use super::{Inner, allotment::Unit, loss::Loss};
use crate::{Lease, PendingRelease, Store, Token};

/// What a request holds of the shared limits; given back when dropped.
///
/// Dropping it waits for nothing and works on any thread: what must go to the store is handed over to the store's own
/// task.
#[must_use = "dropped, it is given back"]
pub struct LeaseGuard {
    inner: Arc<Inner>,
    what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The rules are open while the store is gone.
    Nothing,
    /// A lease of the request's own.
    Single { token: Token, loss: Arc<Loss> },
    /// Units of the allotments that this process holds.
    Units(Vec<Unit>),
    /// Counted in this process alone, since the store is gone.
    Local(Lease),
}

impl LeaseGuard {
    pub(super) fn new(inner: &Arc<Inner>, what: What) -> Self {
        Self { inner: Arc::clone(inner), what }
    }

    /// Whether the store has taken the lease back while the work went on: this process was stopped for too long, or the
    /// store lost its data. Other requests may run in its place.
    pub fn is_lost(&self) -> bool {
        self.signal().happened()
    }

    /// Returns the signal of a loss, for others than the holder.
    #[doc(hidden)]
    pub fn signal(&self) -> LossSignal {
        LossSignal(match &self.what {
            What::Single { loss, .. } => Arc::from([Arc::clone(loss)]),
            What::Units(units) => units.iter().map(|unit| Arc::clone(&unit.loss)).collect(),
            What::Nothing | What::Local(_) => Arc::from([]),
        })
    }

    /// Waits until the lease is lost; for ever if it never is. Cancel safe.
    pub async fn lost(&self) {
        self.signal().wait().await;
    }

    /// Whether the store did not count the request, since it was gone: this process did, or no counter.
    pub const fn is_without_store(&self) -> bool {
        matches!(self.what, What::Nothing | What::Local(_))
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let (store, lease): (&dyn Store, _) = match &self.what {
            What::Nothing => return,
            What::Units(units) => return units.iter().for_each(|unit| self.inner.put_back(unit)),
            What::Local(lease) => (&self.inner.local, lease.clone()),
            What::Single { token, .. } => {
                let single = self.inner.single().remove(token);
                let Some(single) = single else { return };
                (&*self.inner.store, single.lease)
            }
        };
        let caps = Arc::clone(&lease.caps);
        store.release_later(PendingRelease::Lease(lease));
        caps.iter().for_each(|key| self.inner.waits.ring(key.as_str()));
    }
}

/// Tells whether any of what was granted is lost.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LossSignal(Arc<[Arc<Loss>]>);

impl LossSignal {
    /// Whether a loss has happened.
    pub fn happened(&self) -> bool {
        self.0.iter().any(|loss| loss.happened())
    }

    /// Waits until a loss; for ever if there is none. Cancel safe.
    pub async fn wait(&self) {
        let mut waits: Vec<_> = self.0.iter().map(|loss| Box::pin(loss.wait())).collect();
        poll_fn(|cx| {
            if waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready()) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}
