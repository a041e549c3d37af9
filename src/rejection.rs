//! Why a request was not admitted.

use std::{fmt, sync::Arc, time::Duration};

/// The stable machine word for a rejection, the same in problem details, gRPC messages, metrics and snapshots.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Reason {
    /// Its deadline came before its turn.
    Deadline,
    /// Everybody allowed to wait at the full gate is there already.
    GateFull,
    /// The gate stayed full for the whole admission timeout.
    GateTimeout,
    /// No slot is free and this handle lets nobody wait.
    Limit,
    /// The partition has a hard cap and uses all of it.
    PartitionCap,
    /// The line for a slot is full.
    QueueFull,
    /// No slot came free within the longest wait.
    QueueTimeout,
}

impl Reason {
    /// All reasons, in the order of their machine words.
    pub const ALL: [Self; 7] = [
        Self::Deadline,
        Self::GateFull,
        Self::GateTimeout,
        Self::Limit,
        Self::PartitionCap,
        Self::QueueFull,
        Self::QueueTimeout,
    ];

    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::GateFull => "gate_full",
            Self::GateTimeout => "gate_timeout",
            Self::Limit => "limit",
            Self::PartitionCap => "partition_cap",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
        }
    }

    /// Whether the caller ran into a bound of its own (429) rather than the server into one of its (503).
    pub const fn is_callers(self) -> bool {
        matches!(self, Self::PartitionCap)
    }

    /// One sentence for a person.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Deadline => "the deadline of the request came before its turn",
            Self::GateFull => "the server is full and too many requests wait to get in",
            Self::GateTimeout => "the server stayed full for the whole admission timeout",
            Self::Limit => "the server runs as many requests as it can",
            Self::PartitionCap => "this group of callers uses all of its share",
            Self::QueueFull => "too many requests wait for a slot",
            Self::QueueTimeout => "no slot came free within the longest wait",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request that was not admitted: why, to whom, and when to come back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rejection {
    reason: Reason,
    retry_after: Duration,
    partition: Arc<str>,
    bound: usize,
}

impl Rejection {
    pub(crate) const fn new(reason: Reason, retry_after: Duration, partition: Arc<str>, bound: usize) -> Self {
        Self { reason, retry_after, partition, bound }
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The name of the partition that the request belongs to.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// How many requests may run at once under the bound that was in the way: the present limit, or the cap of the
    /// partition.
    pub const fn bound(&self) -> usize {
        self.bound
    }

    /// After how long a slot is likely to be free, from the measured drain rate.
    ///
    /// An estimate without jitter: whoever tells it to many clients adds some, so that they don't return together.
    /// The built-in responses do.
    pub const fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not admitted ({}, partition {}): {}", self.reason, self.partition, self.reason.describe())
    }
}

impl std::error::Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_once_in_the_order_of_their_words() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
        assert!(Reason::ALL.is_sorted_by_key(|reason| reason.as_str()));
    }
}
