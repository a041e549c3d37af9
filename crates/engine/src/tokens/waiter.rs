//! A request that waits.

use super::{Ask, DryRunOutcome, Holder, Marks, Refusal, RequestRef};
use crate::{
    Timestamp,
    ids::{ClassId, FlowKey, Key, LabelId, Level, PartitionId, RunId},
};

/// What became of a waiter so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// The waiter waits for room in the line.
    Gate,
    /// The waiter waits for a slot.
    Line,
    /// The waiter holds a slot that it has not fetched yet. Carries what its sample needs, and until when the waiter
    /// could have waited if it stood in line.
    Granted { in_flight: u32, until: Option<Timestamp> },
    /// The waiter was rejected and has not asked yet.
    Refused(Refusal),
}

/// Whether a waiter has a place in the room for guarantees.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Claim {
    /// It has not: it waits in line or at the gate like any other.
    #[default]
    None,
    /// Its partition asks for no more than its share, and gets the next slot that comes free.
    Share,
    /// Its partition may wait with more than its share, for slots of its own.
    Beyond,
}

/// Where a request may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) stage: Stage,
    /// The waiter that has to make room for it.
    pub(crate) victim: Option<Key>,
    pub(crate) claim: Claim,
}

/// One waiting request.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    pub(crate) stage: Stage,
    pub(crate) claim: Claim,
    pub partition: PartitionId,
    pub(crate) class: ClassId,
    pub(crate) level: Level,
    /// What the waiter exceeds, as marks of a slot.
    pub(crate) marks: Marks,
    pub(crate) dry_run: DryRunOutcome,
    pub(crate) label: LabelId,
    /// The run that the waiter is a part of.
    pub(crate) run: RunId,
    /// Number in the order of arrival over all partitions.
    pub(crate) sequence: u64,
    pub since: Timestamp,
    /// Time when its caller gives up.
    pub caller_deadline: Timestamp,
    /// Time when its present wait ends, the caller's deadline included.
    pub(crate) deadline: Timestamp,
}

impl Waiter {
    /// Whether the waiter holds a slot that it has not fetched yet.
    #[inline]
    pub const fn has_slot(&self) -> bool {
        matches!(self.stage, Stage::Granted { .. })
    }

    /// Returns a waiter that stands nowhere yet.
    pub(crate) const fn new(ask: &Ask<'_>, label: LabelId, run: RunId, sequence: u64, since: Timestamp) -> Self {
        Self {
            stage: Stage::Line,
            claim: Claim::None,
            partition: ask.partition,
            class: ask.class,
            level: Level::of(ask.criticality),
            marks: Marks::NONE,
            dry_run: DryRunOutcome::NOTHING,
            label,
            run,
            sequence,
            since,
            caller_deadline: ask.deadline,
            deadline: Timestamp::NEVER,
        }
    }

    /// Returns the request of the waiter, for telemetry.
    pub(crate) const fn request(&self) -> RequestRef {
        RequestRef { partition: self.partition, label: self.label, run: self.run, since: self.since }
    }

    /// Returns the holder of the slot that the waiter was granted.
    pub(crate) const fn holder(&self) -> Holder {
        Holder { partition: self.partition, label: self.label, level: self.level, marks: self.marks }
    }

    pub(crate) const fn flow_key(&self) -> FlowKey {
        FlowKey { label: self.label, partition: self.partition, level: self.level }
    }
}
