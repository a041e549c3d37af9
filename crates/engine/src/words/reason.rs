//! Why a request was not admitted: the codes.

use std::fmt;

use crate::codes;

/// The stable code for a rejection, the same in problem details, gRPC messages, metrics and snapshots.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Reason {
    /// The budget that the label shares with other labels is used up for now.
    Budget,
    /// The request can't be served before its deadline, which is the [patience][patience] where it came
    /// without one; the text of the rejection says so.
    ///
    /// [patience]: https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.patience
    Deadline,
    /// The server is shutting down.
    Draining,
    /// The gate is full: no more requests may wait.
    GateFull,
    /// The gate stayed full for the whole admission timeout.
    GateTimeout,
    /// The cap in flight of the label is reached.
    LabelCap,
    /// The queue of the label is full.
    LabelQueueFull,
    /// No slot is free, and requests may not wait.
    Limit,
    /// The cap in flight of the namespace is reached.
    NamespaceCap,
    /// The hard cap of the partition is reached.
    PartitionCap,
    /// The cap on waiting and running requests of the label, in this class, is reached.
    PendingFull,
    /// The store of shared rules is unavailable, as in [`StoreUnavailable`](Self::StoreUnavailable), for a class whose
    /// pending requests are bounded: such a class fails fast.
    PendingUnavailable,
    /// The waiter made room in the full line for a request that is more important, or of a partition or label with fewer waiters.
    PushedOut,
    /// The line for a slot is full.
    QueueFull,
    /// No slot came free within the maximum wait.
    QueueTimeout,
    /// The rate per minute of the label or the namespace is used up for now.
    Rate,
    /// The cap on waiting requests of the run is reached; a run is one job over several labels.
    RunCap,
    /// The store that counts a rule for all instances is unavailable.
    StoreUnavailable,
}

/// Reads a reason; one that only a later version gives is none.
#[cfg(feature = "serde")]
pub(crate) fn known<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Reason>, D::Error> {
    let word: Option<String> = serde::Deserialize::deserialize(deserializer)?;
    Ok(Reason::ALL.into_iter().find(|reason| word.as_deref() == Some(reason.as_str())))
}

impl Reason {
    codes! {
        /// All reasons, in the order of their codes.
        18:
            Budget = "budget", Deadline = "deadline", Draining = "draining", GateFull = "gate_full",
            GateTimeout = "gate_timeout", LabelCap = "label_cap", LabelQueueFull = "label_queue_full",
            Limit = "limit", NamespaceCap = "namespace_cap", PartitionCap = "partition_cap",
            PendingFull = "pending_full", PendingUnavailable = "pending_unavailable", PushedOut = "pushed_out",
            QueueFull = "queue_full", QueueTimeout = "queue_timeout", Rate = "rate", RunCap = "run_cap",
            StoreUnavailable = "store_unavailable",
    }

    /// Whether the caller ran into a bound of its own (429) rather than the server into one of its (503).
    pub const fn is_caller_limit(self) -> bool {
        match self {
            Self::Budget
            | Self::LabelCap
            | Self::LabelQueueFull
            | Self::NamespaceCap
            | Self::PartitionCap
            | Self::PendingFull
            | Self::Rate
            | Self::RunCap => true,
            Self::Deadline
            | Self::Draining
            | Self::GateFull
            | Self::GateTimeout
            | Self::Limit
            | Self::PendingUnavailable
            | Self::PushedOut
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::StoreUnavailable => false,
        }
    }

    /// Whether another instance, or this one later, may well admit the request (`UNAVAILABLE` in gRPC): no decision was
    /// possible, or this instance makes none any more.
    #[doc(hidden)]
    pub const fn is_unavailable(self) -> bool {
        matches!(self, Self::Draining | Self::PendingUnavailable | Self::StoreUnavailable)
    }

    /// The reason in one sentence, for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Budget => "the budget that this label shares with other labels is used up for now",
            Self::Deadline => "the request can't be served before its deadline",
            Self::Draining => "the server is shutting down",
            Self::GateFull => "the server is full, and no more requests may wait",
            Self::GateTimeout => "the server stayed full for the whole admission timeout",
            Self::LabelCap => "the concurrency cap of this label is reached",
            Self::LabelQueueFull => "the queue of this label is full",
            Self::Limit => "the concurrency limit of the server is reached",
            Self::NamespaceCap => "the concurrency cap of this namespace is reached",
            Self::PartitionCap => "the concurrency cap of this group of callers is reached",
            Self::PendingFull => "the cap on waiting and running requests of this label is reached",
            Self::PendingUnavailable => "the store of shared limits is unavailable, and this class of work fails fast",
            Self::PushedOut => {
                "a request that is more important, or of callers with fewer waiters, took its place in the full queue"
            }
            Self::QueueFull => "the queue of the server is full",
            Self::QueueTimeout => "no slot came free within the maximum wait",
            Self::Rate => "the rate of this label or namespace is used up for now",
            Self::RunCap => "the cap on waiting requests of this run is reached",
            Self::StoreUnavailable => {
                "the store of shared limits is unavailable, or has just started and grants nothing yet"
            }
        }
    }

    /// The policy of `RateLimit-Policy` that rejected the request, and for a quota of starts its window in seconds.
    /// `None` where no quota was in the way.
    #[doc(hidden)]
    pub const fn policy(self) -> Option<(&'static str, Option<u32>)> {
        match self {
            Self::Budget | Self::Rate => Some((self.as_str(), Some(60))),
            Self::Deadline | Self::Draining | Self::PendingUnavailable | Self::StoreUnavailable => None,
            _ if self.is_caller_limit() => Some((self.as_str(), None)),
            _ => Some((Self::Limit.as_str(), None)),
        }
    }

    #[doc(hidden)]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_listed_once_in_the_order_of_their_codes() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
        assert!(Reason::ALL.is_sorted_by_key(|reason| reason.as_str()));
    }
}
