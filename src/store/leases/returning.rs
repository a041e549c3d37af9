//! Giving units of local shares back: to those who wait in this process, or to those who wait elsewhere.

use tokio::time::Instant;

use super::{Inner, allotment::Unit};
use crate::store::{Key, PendingRelease};

impl Inner {
    /// Gives one unit back, and returns to the store what others need more.
    pub(super) fn put_back(&self, unit: &Unit) {
        let spare = self.shares().put_back(unit, || self.waits.standing(&unit.key));
        if let Some(request) = spare {
            self.store.settle(PendingRelease::Allotment(request));
        }
        self.waits.ring(unit.key.as_str());
    }

    /// Tells the store that nobody here waits for `key` any more, if that is so.
    pub(super) fn withdraw(&self, key: &Key) {
        if !self.settings.local_shares || self.waits.standing(key) > 0 {
            return;
        }
        let request = self.shares().withdraw(key, Instant::now());
        if let Some(request) = request {
            self.store.settle(PendingRelease::Allotment(request));
        }
    }
}
