//! The tokens that the engine hands out: slots and places, and refusals where there are none.

use std::{sync::Arc, time::Duration};

use super::{DryRunOutcome, Holder, Marks, RequestSample, SharedRules};
use crate::ids::{ClassId, Key, LabelId, LabelMetricsId, Level, PartitionId, TtlId};
use crate::{Outcome, Reason, Timestamp};

/// What becomes of a request that arrives.
#[doc(hidden)]
#[derive(Debug)]
pub enum Arrival {
    Admit(Slot),
    /// The request was granted a slot, and has to ask for these rules before it [claims](crate::Engine::claim)
    /// that.
    Ask(Place, Arc<SharedRules>),
    Reject(Refusal),
    Wait(Place),
}

/// The right to run. Must be given back with [`Engine::finish`].
#[doc(hidden)]
#[must_use]
#[derive(Debug)]
pub struct Slot {
    pub start: Timestamp,
    /// Time when its caller gives up; never, where that is not known.
    pub deadline: Timestamp,
    /// Requests in flight when this one was admitted, itself included; the metrics of a request that decisions don't
    /// bind.
    pub(crate) in_flight: u32,
    pub(crate) label: LabelId,
    /// Number of the slot, where slots expire.
    pub(crate) ttl: TtlId,
    pub partition: PartitionId,
    /// Kind of work; see [`Engine::class`].
    pub(crate) class: ClassId,
    pub(crate) marks: Marks,
    pub dry_run: DryRunOutcome,
}

impl Slot {
    pub(crate) const fn new(
        start: Timestamp,
        in_flight: u32,
        holder: Holder,
        class: ClassId,
        ttl: TtlId,
        marks: Marks,
    ) -> Self {
        let Holder { partition, label, level, marks: exceeded } = holder;
        let marks = marks.with_level(level).with(exceeded);
        Self {
            start,
            deadline: Timestamp::NEVER,
            in_flight,
            label,
            ttl,
            partition,
            class,
            marks,
            dry_run: DryRunOutcome::NOTHING,
        }
    }

    /// Returns the same slot for a request whose caller gives up at this time.
    #[inline]
    pub(crate) const fn until(self, deadline: Timestamp) -> Self {
        Self { deadline, ..self }
    }

    /// Returns the slot of a request that occupies a slot of the limit, or of its partition outside of it.
    #[inline]
    pub(crate) const fn counted(start: Timestamp, in_flight: u32, holder: Holder, class: ClassId, ttl: TtlId) -> Self {
        Self::new(start, in_flight, holder, class, ttl, Marks::COUNTED)
    }

    /// Returns the slot of a request that decisions don't bind.
    pub(crate) fn uncounted(start: Timestamp, partition: PartitionId, metrics: LabelMetricsId, marks: Marks) -> Self {
        let nobody = Holder { partition, label: LabelId::DEFAULT, level: Level::FIRST, marks: Marks::NONE };
        Self::new(start, u32::from(metrics.index()), nobody, ClassId::OTHERS, TtlId::NONE, marks)
    }

    pub(crate) const fn holder(&self) -> Holder {
        let (level, marks) = (self.marks.level(), self.marks.exceeded());
        Holder { partition: self.partition, label: self.label, level, marks }
    }

    /// Returns what tells the slot from others. To the engine, slots with the same fingerprint are the same.
    pub const fn fingerprint(&self) -> [u64; 4] {
        let who = (self.in_flight as u64) << 32 | self.label.index() as u64;
        let (partition, class) = (self.partition.number() as u64, self.class.number() as u64);
        let level = self.marks.fingerprint() as u64;
        let what = (self.ttl.number() as u64) << 32 | partition << 16 | class << 8 | level;
        [self.start.as_nanos(), self.deadline.as_nanos(), who, what]
    }

    #[doc(hidden)]
    #[inline]
    pub const fn is_observed(&self) -> bool {
        self.marks.has(Marks::OBSERVED)
    }

    #[doc(hidden)]
    #[inline]
    pub const fn is_counted(&self) -> bool {
        self.marks.has(Marks::COUNTED)
    }

    /// Returns the metrics that count the request, if it never occupied a slot of the limit. Good until the slot is
    /// given back.
    pub(crate) fn uncounted_label_metrics(&self) -> Option<LabelMetricsId> {
        let index = || u16::try_from(self.in_flight).map_or(LabelMetricsId::NONE, LabelMetricsId::from_index);
        (!self.is_counted()).then(index)
    }

    /// Whether the time of the request says something about the limit: not where it runs beyond the limit because
    /// decisions don't bind.
    pub(crate) const fn is_within_limit(&self) -> bool {
        self.marks.has_only(Marks::COUNTED, Marks::COUNTED.with(Marks::OVER_LIMIT))
    }

    /// Whether the sample was taken of a request that goes on. Not known of a slot that may be taken back.
    pub(crate) fn is_answering(&self) -> bool {
        let is_observed = self.marks.has(Marks::OBSERVED) && !self.marks.has(Marks::ABANDONED);
        is_observed && self.is_within_limit() && self.ttl().is_none()
    }

    /// Whether it was sampled at the deadline of its caller, and goes on.
    pub(crate) fn outlasts_caller(&self) -> bool {
        self.deadline == Timestamp::MET && self.is_answering()
    }

    /// Returns the sample of a request that ends now, while `running` requests run, itself included.
    #[inline]
    pub(crate) fn sample(&self, end: Timestamp, outcome: Outcome, running: u32) -> RequestSample {
        let is_untimely = match outcome {
            Outcome::Success => end > self.deadline,
            Outcome::Cancelled => end.is_in_first_half(self.start, self.deadline),
            Outcome::Ignore | Outcome::Overload => false,
        };
        RequestSample {
            partition: self.partition,
            label: self.label,
            class: self.class,
            start: self.start,
            end,
            in_flight: self.in_flight,
            running,
            outcome,
            is_untimely,
            is_of_body: self.deadline == Timestamp::MET,
            is_within_limit: self.is_within_limit(),
            weight: 1,
        }
    }

    /// Returns the number of the slot, where slots expire.
    #[inline]
    pub const fn ttl(&self) -> Option<TtlId> {
        if self.ttl.number() == TtlId::NONE.number() { None } else { Some(self.ttl) }
    }
}

/// A place in line. Must be given back with [`claim`](crate::Engine::claim) or [`cancel`](crate::Engine::cancel).
#[must_use]
#[derive(Debug)]
pub struct Place(Key);

impl Place {
    pub(crate) const fn new(key: Key) -> Self {
        Self(key)
    }

    #[doc(hidden)]
    #[inline]
    pub const fn key(&self) -> Key {
        self.0
    }
}

/// Why a request was rejected, in the engine's own words.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    pub reason: Reason,
    pub retry_after: Duration,
    pub partition: PartitionId,
    /// Requests that the bound allows.
    pub bound: usize,
    /// Whether there is room for this very request then: no other request was told the same.
    pub is_promised: bool,
    /// Whether the answer says that there is no work, rather than a rejection.
    pub empty: bool,
    /// Whether the request waited for as long as it might.
    pub timed_out: bool,
    /// Whether the deadline of the request is over.
    pub over: bool,
}
