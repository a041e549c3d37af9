//! For how long nothing has come free.

use std::time::Duration;

use crate::Timestamp;

/// The time since when no running request has ended: the running requests have run for at least that long, without a
/// look at each of them.
///
/// The time starts with the first request that starts after something came free. To note that something came free needs
/// no clock, which a server with free slots does not read then; so this is never earlier than it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stall {
    since: Timestamp,
}

impl Default for Stall {
    fn default() -> Self {
        Self { since: Timestamp::NEVER }
    }
}

impl Stall {
    /// Notes that a request starts.
    pub(crate) fn started(&mut self, now: Timestamp) {
        self.since = self.since.min(now);
    }

    /// Notes that a slot came free.
    pub(crate) const fn freed(&mut self) {
        self.since = Timestamp::NEVER;
    }

    /// Notes whether any request left a lent slot, and when the first of those that run entered since.
    #[inline]
    pub(crate) fn settle(&mut self, has_freed: bool, busy_since: Option<Timestamp>) {
        if has_freed {
            self.freed();
        }
        if let Some(since) = busy_since {
            self.started(since);
        }
    }

    /// Returns for how long nothing has come free.
    pub(crate) fn lasts(self, now: Timestamp) -> Duration {
        if self.since == Timestamp::NEVER { Duration::ZERO } else { now.since(self.since) }
    }
}
