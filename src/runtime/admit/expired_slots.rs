//! Telling holders that their permit expired.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use tokio::sync::Notify;

/// Tells whether the time to live of a request's permit is over, and its slot was taken back.
///
/// Where permits have a [time to live](crate::AdmissionBuilder::permit_time_to_live), the layers put one into the
/// extensions of each request that they admit.
///
/// ```
/// use axum::Extension;
/// use tower_admission::permit::PermitExpiry;
///
/// async fn report(Extension(expiry): Extension<PermitExpiry>) -> &'static str {
///     tokio::select! {
///         () = expiry.wait() => "gave up",
///         () = std::future::ready(()) => "done",       // the work
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PermitExpiry(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_set: AtomicBool,
    changed: Notify,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl PermitExpiry {
    /// Returns a signal, and the waker that sets it.
    pub(super) fn new() -> (Self, Waker) {
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        (Self(flag), waker)
    }

    /// Whether the permit expired.
    pub fn is_expired(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Waits until the time to live is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn wait(&self) {
        loop {
            // Before the look, so that nothing is missed in between.
            let changed = self.0.changed.notified();
            if self.is_expired() {
                return;
            }
            changed.await;
        }
    }
}
