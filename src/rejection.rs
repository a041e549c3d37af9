//! Why a request was not admitted.

use std::{fmt, sync::Arc, time::Duration};

/// The stable machine word for a rejection, the same in problem details, gRPC messages, metrics and snapshots.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Reason {
    /// The budget that its label shares with others is used up for now.
    Budget,
    /// Its deadline came before its turn.
    Deadline,
    /// The server is shutting down.
    Draining,
    /// Everybody allowed to wait at the full gate is there already.
    GateFull,
    /// The gate stayed full for the whole admission timeout.
    GateTimeout,
    /// As many requests with this label run as may.
    LabelCap,
    /// As many requests with this label wait as may.
    LabelQueueFull,
    /// No slot is free and this handle lets nobody wait.
    Limit,
    /// As many requests of this namespace run as may.
    NamespaceCap,
    /// The partition has a hard cap and uses all of it.
    PartitionCap,
    /// As many requests with this label and of this class are waiting or running as may.
    PendingFull,
    /// The same as [`StoreUnavailable`](Self::StoreUnavailable), for a class of work that bounds how many are pending so that
    /// it fails fast.
    PendingUnavailable,
    /// It waited, and made room in the full line for a request that is more important, or of a label that uses less of
    /// it.
    PushedOut,
    /// The line for a slot is full.
    QueueFull,
    /// No slot came free within the longest wait.
    QueueTimeout,
    /// As many requests with this label, or of this namespace, have started in the last minute as may.
    Rate,
    /// As many requests of this run wait as may.
    RunCap,
    /// One of its rules is counted by a store for all instances, and that can't be asked.
    StoreUnavailable,
}

impl Reason {
    /// All reasons, in the order of their machine words.
    pub const ALL: [Self; 18] = [
        Self::Budget,
        Self::Deadline,
        Self::Draining,
        Self::GateFull,
        Self::GateTimeout,
        Self::LabelCap,
        Self::LabelQueueFull,
        Self::Limit,
        Self::NamespaceCap,
        Self::PartitionCap,
        Self::PendingFull,
        Self::PendingUnavailable,
        Self::PushedOut,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::Rate,
        Self::RunCap,
        Self::StoreUnavailable,
    ];

    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::Draining => "draining",
            Self::GateFull => "gate_full",
            Self::GateTimeout => "gate_timeout",
            Self::LabelCap => "label_cap",
            Self::LabelQueueFull => "label_queue_full",
            Self::Limit => "limit",
            Self::NamespaceCap => "namespace_cap",
            Self::PartitionCap => "partition_cap",
            Self::PendingFull => "pending_full",
            Self::PendingUnavailable => "pending_unavailable",
            Self::PushedOut => "pushed_out",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::Rate => "rate",
            Self::RunCap => "run_cap",
            Self::StoreUnavailable => "store_unavailable",
        }
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

    /// Whether it could not be decided, or is decided elsewhere from now on: another instance, or the same one later, may
    /// well admit it (`UNAVAILABLE` in gRPC).
    pub(crate) const fn is_unavailable(self) -> bool {
        matches!(self, Self::Draining | Self::PendingUnavailable | Self::StoreUnavailable)
    }

    /// One sentence for a person.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Budget => "the budget that this label shares with others is used up for now",
            Self::Deadline => "the deadline of the request came before its turn",
            Self::Draining => "the server is shutting down",
            Self::GateFull => "the server is full and too many requests wait to get in",
            Self::GateTimeout => "the server stayed full for the whole admission timeout",
            Self::LabelCap => "as many requests with this label run as may",
            Self::LabelQueueFull => "as many requests with this label wait as may",
            Self::Limit => "the server runs as many requests as it can",
            Self::NamespaceCap => "as many requests of this namespace run as may",
            Self::PartitionCap => "this group of callers uses all of its share",
            Self::PendingFull => "as many requests with this label wait or run as may",
            Self::PendingUnavailable => "limits shared by all instances can't be checked, and this work fails fast",
            Self::PushedOut => {
                "it made room in the full line for a more important request or a label that uses less of it"
            }
            Self::QueueFull => "too many requests wait for a slot",
            Self::QueueTimeout => "no slot came free within the longest wait",
            Self::Rate => "as many requests with this label or namespace have started in this minute as may",
            Self::RunCap => "as many requests of this run wait as may",
            Self::StoreUnavailable => "limits shared by all instances can't be checked",
        }
    }

    /// The policy of `RateLimit-Policy` that a request ran into, and the time that its quota is for, in seconds, where it is
    /// one of starts. None where no quota was in the way.
    pub(crate) const fn policy(self) -> Option<(&'static str, Option<u32>)> {
        match self {
            Self::Budget | Self::Rate => Some((self.as_str(), Some(60))),
            Self::LabelCap
            | Self::LabelQueueFull
            | Self::NamespaceCap
            | Self::PartitionCap
            | Self::PendingFull
            | Self::RunCap => Some((self.as_str(), None)),
            Self::GateFull
            | Self::GateTimeout
            | Self::Limit
            | Self::PushedOut
            | Self::QueueFull
            | Self::QueueTimeout => Some((Self::Limit.as_str(), None)),
            Self::Deadline | Self::Draining | Self::PendingUnavailable | Self::StoreUnavailable => None,
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
    nothing: bool,
    timed_out: bool,
    over: bool,
}

impl Rejection {
    pub(crate) const fn new(reason: Reason, retry_after: Duration, partition: Arc<str>, bound: usize) -> Self {
        Self { reason, retry_after, partition, bound, nothing: false, timed_out: false, over: false }
    }

    /// The same for a request whose deadline is over.
    pub(crate) fn after_its_deadline(mut self, over: bool) -> Self {
        self.over = over;
        self
    }

    /// Whether the deadline of the request is over, where it is only expected to come too early otherwise.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// The same, to be answered as if there were nothing.
    pub(crate) fn answered_with_nothing(mut self, nothing: bool) -> Self {
        self.nothing = nothing;
        self
    }

    /// The same for a request that waited for as long as it might.
    pub(crate) const fn after_a_wait(mut self, timed_out: bool) -> Self {
        self.timed_out = timed_out;
        self
    }

    /// Whether the request waited for as long as it might. [`reason`](Self::reason) then names the rule that was in its
    /// way, or [`Reason::QueueTimeout`] or [`Reason::GateTimeout`] where that was the limit. A caller's own deadline is no
    /// such timeout.
    pub const fn timed_out(&self) -> bool {
        self.timed_out
    }

    /// What is said after the reason.
    pub(crate) const fn supplement(&self) -> &'static str {
        match self.reason {
            Reason::GateTimeout | Reason::QueueTimeout => "",
            _ if self.timed_out => ", and its longest wait is over",
            _ => "",
        }
    }

    /// Whether the rule that was full says [`Empty`](crate::WhenFull::RespondEmpty): that there is nothing for the
    /// caller is then a better answer than a rejection.
    pub const fn responds_empty(&self) -> bool {
        self.nothing
    }

    /// Why.
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The name of the partition that the request belongs to.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// How many requests the bound allows that was in the way: the present limit, or that of the partition, label or rule
    /// that [`reason`](Self::reason) names.
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
        let (reason, supplement) = (self.reason, self.supplement());
        write!(f, "not admitted ({reason}, partition {}): {}{supplement}", self.partition, reason.describe())
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
