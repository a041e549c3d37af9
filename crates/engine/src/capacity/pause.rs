//! Pauses: all slots are held back for a while.

use std::time::Duration;

use super::Capacity;
use crate::Timestamp;

impl Capacity {
    /// Has no request start under the limit before then; [`NEVER`](Timestamp::NEVER) ends a pause.
    pub(crate) const fn pause(&mut self, until: Timestamp) {
        self.paused_until = until;
    }

    /// Whether no request may start under the limit.
    pub(crate) const fn is_paused(&self) -> bool {
        self.paused_until.as_nanos() != Timestamp::NEVER.as_nanos()
    }

    /// Returns for how long no request may start under the limit.
    pub(crate) const fn pause_left(&self, now: Timestamp) -> Duration {
        if self.is_paused() { self.paused_until.since(now) } else { Duration::ZERO }
    }
}
