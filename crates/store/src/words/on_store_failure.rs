//! What becomes of shared rules without the store.

use std::num::NonZeroU32;

/// What a rule does while the store can't be asked. An explicit choice, since each has its price.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// Fail closed: no request is admitted. The rule is never exceeded, and no work is done.
    #[default]
    FailClosed,
    /// Fail open: every request is admitted. The rule doesn't count, so it may be exceeded.
    FailOpen,
    /// Each process admits its share, counted by itself: the bound divided by the number of instances, rounded down.
    ///
    /// Together the processes stay within the bound while that number is right. Requests that the store granted before
    /// are not counted against the share, so while those run there may be as many again.
    LocalShare {
        /// Processes that share the rule.
        instances: NonZeroU32,
    },
}

impl OnStoreFailure {
    /// Returns the number of processes that share the rule, if each admits its share.
    #[doc(hidden)]
    pub const fn instances(self) -> Option<NonZeroU32> {
        match self {
            Self::LocalShare { instances } => Some(instances),
            Self::FailClosed | Self::FailOpen => None,
        }
    }

    /// Returns what becomes of requests, as a word, after how strict it is.
    #[doc(hidden)]
    pub const fn way(self) -> (u8, &'static str) {
        match self {
            Self::FailClosed => (0, "refuse"),
            Self::LocalShare { .. } => (1, "local_share"),
            Self::FailOpen => (2, "admit"),
        }
    }
}
