//! For how long nothing has come free.

use std::time::Duration;

use crate::time::Timestamp;

/// Since when nothing has come free of what runs: how long at least what runs has run, without a look at each of it.
///
/// It starts with the first request that starts after something came free. To note that something came free needs no
/// clock, which a server with free slots does not read then; so this is never earlier than it was.
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
    /// A request starts.
    pub(crate) fn started(&mut self, now: Timestamp) {
        self.since = self.since.min(now);
    }

    /// A slot came free.
    pub(crate) const fn freed(&mut self) {
        self.since = Timestamp::NEVER;
    }

    /// For how long nothing has come free.
    pub(crate) fn lasts(self, now: Timestamp) -> Duration {
        if self.since == Timestamp::NEVER { Duration::ZERO } else { now.since(self.since) }
    }
}
