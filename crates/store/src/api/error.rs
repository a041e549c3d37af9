//! What can go wrong with a store.

use std::{fmt, time::Duration};

/// Why a store gave no answer.
///
/// Holds words and durations only: no addresses, no keys, and nothing that the server said beyond its error code.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// The breaker is open: the store failed several times in a row, and is being probed.
    BreakerOpen,
    /// The request can't be expressed, or the settings can't be used.
    Configuration(String),
    /// The operating system gave no random bytes for a token.
    NoRandomness,
    /// The server is a replica. The connection is made anew at once.
    ReadOnly,
    /// The store gave another answer than was asked for: the code of its error, such as `WRONGTYPE`.
    Refused(String),
    /// The store came back without its data and grants nothing until the holders from before have come back.
    Restarted {
        /// Time until that is over.
        retry_after: Duration,
    },
    /// No answer in time. The store may have done what was asked for.
    TimedOut {
        /// Time that was waited.
        after: Duration,
    },
    /// The store answers that it can't do its work: the code of its error, such as `OOM`. It did not do what was asked
    /// for.
    Unable(String),
    /// The connection could not be made, or broke. The store may have done what was asked for.
    Unavailable,
}

impl StoreError {
    /// Returns the stable code.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::Configuration(_) => "configuration",
            Self::NoRandomness => "no_randomness",
            Self::ReadOnly => "read_only",
            Self::Refused(_) => "refused",
            Self::Restarted { .. } => "restarted",
            Self::TimedOut { .. } => "timed_out",
            Self::Unable(_) => "unable",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether the store is gone rather than in disagreement: [`OnStoreFailure`](crate::OnStoreFailure) decides
    /// then.
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::BreakerOpen
            | Self::ReadOnly
            | Self::Restarted { .. }
            | Self::TimedOut { .. }
            | Self::Unable(_)
            | Self::Unavailable => true,
            Self::Configuration(_) | Self::NoRandomness | Self::Refused(_) => false,
        }
    }

    /// Whether the store may have done what was asked for. A script that may not do all of it does what comes before.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Unavailable)
            || matches!(self, Self::Unable(code) if code == "NOPERM")
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BreakerOpen => f.write_str("the shared store is being left alone after several failures"),
            Self::Configuration(problem) => write!(f, "the shared store can't be used like this: {problem}"),
            Self::NoRandomness => f.write_str("no random bytes for a token"),
            Self::ReadOnly => f.write_str("the shared store is a replica that can't be written to"),
            Self::Refused(code) => write!(f, "the shared store refused: {code}"),
            Self::Restarted { retry_after } => {
                write!(f, "the shared store came back empty and grants nothing for {retry_after:?}")
            }
            Self::TimedOut { after } => write!(f, "the shared store did not answer within {after:?}"),
            Self::Unable(code) => write!(f, "the shared store can't do its work: {code}"),
            Self::Unavailable => f.write_str("the shared store can't be reached"),
        }
    }
}

impl std::error::Error for StoreError {}
