//! Events: everything that the engine tells telemetry of requests and changes, in the order in which it happens.

use std::time::Duration;

use super::label_metrics::Named;
use crate::{
    Outcome, Reason, codes,
    ids::{LabelId, LabelMetricsId, PartitionId, RuleClassId},
    limit::LimitInputs,
    plan::{LabelPlan, Mode, rules::RulesPlan},
    tokens::{Borrower, RequestRef, StoreChange},
};

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A request came.
    Arrived { partition: PartitionId, label: LabelId },
    /// A request came that has this class of rules.
    Met(RuleClassId),
    /// A request was admitted as it came.
    Admitted(RequestRef),
    /// Something else became of a request.
    Decided(RequestRef, Decided),
    /// A request ended after this time, and as many more as it stands for: these are counted elsewhere. The label is that of the request, unless its slot is not counted or was taken back before:
    /// the label may be forgotten by then.
    Ended {
        partition: PartitionId,
        label: LabelId,
        metrics: LabelMetricsId,
        outcome: Outcome,
        rtt: Duration,
        weight: u32,
    },
    /// Requests ended in a time that is not known.
    EndedUntimed { borrower: Borrower, outcome: Outcome, count: u64 },
    /// Answers came after the deadline of their requests.
    AnsweredLate { borrower: Borrower, count: u64 },
    /// The trailers of a request told of an overload after its sample was taken.
    EndedLate(PartitionId),
    /// Requests came and were admitted to lent slots; some are [listed](Self::Listed) when they end. Less than
    /// 0 takes back requests that were counted before they gave up.
    AdmittedUnlisted { borrower: Borrower, count: i64 },
    /// A request that was admitted to a lent slot, with how many ran then: the last of those that are told at a time.
    Listed { request: RequestRef, in_flight: u32 },
    /// Requests without a label came and were rejected, and are listed nowhere.
    RejectedUnlisted { partition: PartitionId, reason: Reason, count: u64 },
    /// Requests wait far longer than in the hour before, or not.
    Waits { are_longer: bool },
    /// An entry of labels has this name from now on; with what the settings say of labels and of rules.
    Named(LabelId, Named<'a>, (&'a LabelPlan, &'a RulesPlan)),
    /// There are new settings, with room for these numbers of partitions and decisions.
    Settings { partitions: usize, decisions: usize },
    /// A history asks for rejections by reason and rule from now on.
    SamplingBegins,
    /// Something changed.
    Changed(ChangeEvent),
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decided {
    /// The request was admitted as it came, uncounted by the limit, because decisions don't bind.
    LetThrough,
    /// The request took a slot as it came, and has to ask a store before it runs.
    Asks,
    /// The request waits.
    Queued(Blocker),
    /// The request was granted a slot after a wait, and has to ask a store before it runs, or not.
    Granted { asks: bool },
    /// The request took the slot that it was granted.
    Claimed { waited: bool, asked: bool },
    /// The request gave back a slot that it was granted, as if it had never had it.
    GaveBack,
    /// The request was rejected; `timed_out` where it had waited for as long as it might.
    Rejected { reason: Reason, blocker: Blocker, timed_out: bool },
    /// The caller left while the request waited.
    Cancelled,
    /// The request goes on because decisions don't bind: what would have become of it otherwise.
    DryRun { reject: Option<Reason>, blocker: Blocker },
}

/// What changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeEvent {
    Limit { from: u32, basis: LimitInputs },
    Mode { from: Mode, to: Mode },
    Reload { from: u32 },
    Leave,
    Drain,
    LawPanic,
    CallersLeave,
    Stall(Duration),
    Store(StoreChange),
}

/// What was in the way of a request, with its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocker {
    pub(crate) by: BlockingBound,
    pub(crate) used: u32,
    pub(crate) bound: u32,
}

impl Blocker {
    pub(crate) const NOTHING: Self = Self::new(BlockingBound::Nothing, 0, 0);

    pub(crate) const fn new(by: BlockingBound, used: usize, bound: usize) -> Self {
        Self { by, used: short(used), bound: short(bound) }
    }
}

/// What can be in the way of a request.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum BlockingBound {
    Nothing,
    Budget,
    Deadline,
    Draining,
    Gate,
    Reserved,
    LabelCap,
    Limit,
    MaxInFlight,
    MaxInFlightPerNamespace,
    MaxPending,
    MaxPerMinute,
    MaxPerMinutePerNamespace,
    MaxWaiting,
    MaxWaitingPerRun,
    Partition,
    Queue,
    Store,
    WorkerSlots,
}

impl BlockingBound {
    codes! {
        /// All of them, in the order of their numbers.
        19:
            Nothing = "", Budget = "budget", Deadline = "deadline", Draining = "draining", Gate = "gate",
            Reserved = "reserved", LabelCap = "label_cap", Limit = "limit", MaxInFlight = "max_in_flight",
            MaxInFlightPerNamespace = "max_in_flight_per_namespace", MaxPending = "max_pending",
            MaxPerMinute = "max_per_minute", MaxPerMinutePerNamespace = "max_per_minute_per_namespace",
            MaxWaiting = "max_waiting", MaxWaitingPerRun = "max_waiting_per_run", Partition = "partition",
            Queue = "queue", Store = "store", WorkerSlots = "worker_slots",
    }

    /// Returns the code, if anything is in the way.
    pub fn rule(self) -> Option<&'static str> {
        (self != Self::Nothing).then(|| self.as_str())
    }

    /// Returns what is in the way of a request that asks for nothing but a slot, by the reason of its rejection.
    pub(crate) const fn of_plain(reason: Reason) -> Self {
        match reason {
            Reason::Deadline => Self::Deadline,
            Reason::Draining => Self::Draining,
            Reason::GateFull | Reason::GateTimeout => Self::Gate,
            Reason::Limit => Self::Limit,
            Reason::PartitionCap => Self::Partition,
            Reason::PushedOut | Reason::QueueFull => Self::Queue,
            _ => Self::Nothing,
        }
    }
}

/// Returns a number as events and entries of the journal hold it: counts are far below four billion.
#[expect(clippy::cast_possible_truncation, reason = "see above; bounds may be the largest number there is")]
pub(crate) const fn short(count: usize) -> u32 {
    if count > u32::MAX as usize { u32::MAX } else { count as u32 }
}

/// The state of the handle at the time of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub(crate) limit: u32,
    pub(crate) in_flight: u32,
    pub(crate) waiting: u32,
}
