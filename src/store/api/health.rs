//! Whether a store answers.

use std::time::Duration;

/// What is known of a store: whether it answers, and can do its work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Health {
    /// It answers.
    Up,
    /// It failed lately, or answered that it can't do its work, but is still asked.
    Failing {
        /// How often in a row.
        failures: u32,
    },
    /// It is left alone, and probed by one request at a time. All others fail at once; but a store that answers and
    /// only grants nothing, such as one that is full, is still asked to keep and to take back what is held.
    Down {
        /// For how long.
        since: Duration,
        /// How many probes failed.
        probes: u32,
    },
}

impl Health {
    /// All machine words.
    pub(crate) const STATES: [&'static str; 3] = ["up", "failing", "down"];

    /// The stable machine word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Failing { .. } => "failing",
            Self::Down { .. } => "down",
        }
    }
}
