//! The loss of what was granted, as its holders are told.

use tokio::sync::Semaphore;

/// Tells the holders of a lease or a unit that it is lost: nothing is ever to be had of it, and it is closed by the loss.
#[derive(Debug)]
pub(crate) struct Loss(Semaphore);

impl Default for Loss {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Loss {
    pub(crate) fn happen(&self) {
        self.0.close();
    }

    pub(crate) fn happened(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) async fn wait(&self) {
        let _ = self.0.acquire().await;
    }
}
