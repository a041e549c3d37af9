//! Telling holders that the time of their permit is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
};

use tokio::sync::Notify;

use super::permit::{Handle, Held};

/// Tells whether the time to live of a request's permit is over, and its slot was taken back.
///
/// Where permits have a [time to live](crate::AdmissionBuilder::permit_time_to_live), the layers put one into the extensions
/// of each request that they admit.
///
/// ```
/// use axum::Extension;
/// use tower_admission::Overdue;
///
/// async fn report(Extension(overdue): Extension<Overdue>) -> &'static str {
///     tokio::select! {
///         () = overdue.wait() => "gave up",
///         () = std::future::ready(()) => "done",       // the work
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Overdue(Arc<Flag>);

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

impl Overdue {
    /// Whether it is.
    pub fn is_overdue(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Waits until it is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn wait(&self) {
        loop {
            // Before the look, so that nothing is missed in between.
            let changed = self.0.changed.notified();
            if self.is_overdue() {
                return;
            }
            changed.await;
        }
    }
}

impl<H: Handle> Held<H> {
    /// What tells the holder that its time is over, where slots are lent for a time.
    pub(crate) fn watch_time(&self) -> Option<Overdue> {
        let tenure = self.tenure()?;
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let shared = self.handle().shared();
        let _dropped_outside = shared.turn(|state, _| {
            if state.engine.is_overdue(tenure) {
                return Some(waker);
            }
            state.register_holder(tenure, waker)
        });
        shared.drive_here();
        Some(Overdue(flag))
    }
}
