//! Giving units of local shares back: to waiters of this process, or of other processes.

use tokio::time::Instant;

use super::{Inner, allotment::Unit};
use crate::{Key, PendingRelease};

impl Inner {
    /// Gives one unit back, and returns to the store what other processes need more.
    pub(super) fn put_back(&self, unit: &Unit) {
        let spare = self.shares().put_back(unit, || self.waits.standing(&unit.key));
        if let Some(request) = spare {
            self.store.release_later(PendingRelease::Allotment(request));
        }
        self.waits.ring(unit.key.as_str());
    }

    /// Tells the store that no request of this process waits for `key` any more, if that is so.
    pub(super) fn withdraw(&self, key: &Key) {
        if !self.settings.local_shares || self.waits.standing(key) > 0 {
            return;
        }
        let request = self.shares().withdraw(key, Instant::now());
        if let Some(request) = request {
            self.store.release_later(PendingRelease::Allotment(request));
        }
    }
}
