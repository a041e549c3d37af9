//! Whether a store answers.

use std::time::Duration;

/// The health of a store: whether it answers, and can do its work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Health {
    /// The store answers.
    Up,
    /// The store answers, and its server is set to throw keys away when it is full (`maxmemory-policy`): caps may be
    /// forgotten at any time.
    Evicting,
    /// The store failed lately, or answered that it can't do its work, but is still asked.
    Failing {
        /// Failures in a row.
        failures: u32,
    },
    /// The store is back, or new, and grants nothing yet: holders of leases write them down again.
    Quiet {
        /// Time until grants begin.
        remaining: Duration,
    },
    /// The store is left alone, and probed by one request at a time. All other requests fail at once. A store that
    /// answers and only grants nothing, such as a full one, is still asked to renew leases and to take them back.
    Down {
        /// Time since the store went down.
        since: Duration,
        /// Probes that failed.
        probes: u32,
    },
}

impl Health {
    /// Returns the stable code.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Evicting => "evicting",
            Self::Quiet { .. } => "quiet",
            Self::Failing { .. } => "failing",
            Self::Down { .. } => "down",
        }
    }
}
