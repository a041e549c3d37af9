//! The loss of what was granted, as its holders are told.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Tells the holders of a lease or a unit that it is lost.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    lost: AtomicBool,
    told: Notify,
}

impl Loss {
    pub(crate) fn happen(&self) {
        self.lost.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    pub(crate) fn happened(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let told = self.told.notified();
        tokio::pin!(told);
        // Listens before it looks, so that nothing happens in between.
        told.as_mut().enable();
        if !self.happened() {
            told.await;
        }
    }
}
