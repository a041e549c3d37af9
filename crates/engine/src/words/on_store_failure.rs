//! What becomes of shared rules without the store.

use std::num::NonZeroU32;

/// What a rule does while the store can't be asked. An explicit choice, since each has its price.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// Fail closed: no request is admitted. The rule is never exceeded, and no work is done.
    #[default]
    FailClosed,
    /// Fail open: a rate is not counted, so every request starts. A cap is still kept in each process: together they may run the cap
    /// times their number. Leases that are taken without a handle are not counted at all.
    FailOpen,
    /// Each process admits its share, counted by itself: the bound divided by the number of instances, rounded down.
    ///
    /// Together the processes stay within the bound while that number is right. Requests that the store granted before
    /// are not counted against the share, so while those run there may be as many again. Nor are requests of the share counted in the
    /// store once it is back, for as long as they run.
    LocalShare {
        /// Processes that share the rule.
        instances: NonZeroU32,
    },
}

impl OnStoreFailure {
    /// Returns what a process does by itself: `None` where it admits no request, else of how many processes it admits the share,
    /// if not of all.
    #[doc(hidden)]
    pub const fn alone(self) -> Option<Option<NonZeroU32>> {
        match self {
            Self::FailClosed => None,
            Self::FailOpen => Some(None),
            Self::LocalShare { instances } => Some(Some(instances)),
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
