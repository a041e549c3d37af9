//! The tokens that the engine hands out: slots and places, and refusals where there are none.

use std::{sync::Arc, time::Duration};

use super::{DryRunOutcome, Holder, SharedRules};
use crate::engine::ids::{Key, LabelId, SeriesId, TtlId};
use crate::{rejection::Reason, time::Timestamp};

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(crate) enum Arrival {
    Admit(Slot),
    /// The request was granted a slot, and has to ask for these rules before it [claims](crate::engine::Engine::claim)
    /// that.
    Ask(Place, Arc<SharedRules>),
    Reject(Refusal),
    Wait(Place),
}

/// The right to run. Must be given back with [`Engine::finish`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) start: Timestamp,
    /// Requests in flight when this one was admitted, itself included; the series of a request that decisions don't
    /// bind.
    pub(crate) in_flight: u32,
    pub(crate) label: LabelId,
    /// Number of the slot, where slots expire.
    pub(crate) ttl: TtlId,
    pub(crate) partition: u16,
    /// Kind of work; see [`Engine::class`].
    pub(crate) class: u8,
    pub(crate) marks: u8,
    pub(crate) would: DryRunOutcome,
}

/// The slot is one of the limit: not so while decisions don't bind, and not after it was given back.
pub(crate) const COUNTED: u8 = 1;
/// The sample of the request was taken.
pub(crate) const OBSERVED: u8 = 2;
/// Position of the level of importance in the marks, two bits.
const LEVEL_SHIFT: u8 = 2;
/// The request is beyond what observing rules allow: none of them counts it.
pub(crate) const OVER_QUOTA: u8 = 0x10;
/// The request runs although its partition, which observes, would not have let it: the limit does not count it.
pub(crate) const OVER_LIMIT: u8 = 0x20;
/// The request would run under the limit of the shadow law as well.
pub(crate) const IN_SHADOW: u8 = 0x40;
const SHADOW: u8 = OVER_QUOTA | OVER_LIMIT | IN_SHADOW;

impl Slot {
    pub(crate) const fn new(
        start: Timestamp,
        in_flight: u32,
        holder: Holder,
        class: u8,
        ttl: TtlId,
        marks: u8,
    ) -> Self {
        let Holder { partition, label, level, shadow } = holder;
        let marks = marks | level << LEVEL_SHIFT | shadow;
        Self { start, in_flight, label, ttl, partition, class, marks, would: DryRunOutcome::NOTHING }
    }

    /// Returns the slot of a request that occupies a slot of the limit, or of its partition outside of it.
    #[inline]
    pub(crate) const fn counted(start: Timestamp, in_flight: u32, holder: Holder, class: u8, ttl: TtlId) -> Self {
        Self::new(start, in_flight, holder, class, ttl, COUNTED)
    }

    /// Returns the slot of a request that decisions don't bind.
    pub(crate) fn uncounted(start: Timestamp, partition: u16, series: SeriesId, marks: u8) -> Self {
        let nobody = Holder { partition, label: LabelId::DEFAULT, level: 0, shadow: 0 };
        Self::new(start, u32::from(series.index()), nobody, 0, TtlId::NONE, marks)
    }

    pub(crate) const fn holder(&self) -> Holder {
        let level = self.marks >> LEVEL_SHIFT & 3;
        Holder { partition: self.partition, label: self.label, level, shadow: self.marks & SHADOW }
    }

    /// Returns what tells the slot from others. To the engine, slots with the same fingerprint are the same.
    #[cfg(feature = "introspect")]
    pub(crate) const fn fingerprint(&self) -> [u64; 3] {
        let who = (self.in_flight as u64) << 32 | self.label.index() as u64;
        let level = (self.marks >> LEVEL_SHIFT) as u64;
        let what = (self.ttl.number() as u64) << 32 | (self.partition as u64) << 16 | (self.class as u64) << 8 | level;
        [self.start.as_nanos(), who, what]
    }

    #[cfg(feature = "tracing")]
    pub(crate) const fn partition(&self) -> u16 {
        self.partition
    }

    /// Returns what would have become of the request, had decisions been binding.
    #[cfg(feature = "tracing")]
    pub(crate) const fn would(&self) -> DryRunOutcome {
        self.would
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.marks & OBSERVED != 0
    }

    /// Whether there is nothing left to tell the engine.
    pub(crate) const fn is_finished(&self) -> bool {
        self.marks & (COUNTED | OBSERVED | IN_SHADOW) == OBSERVED
    }

    pub(crate) const fn is_counted(&self) -> bool {
        self.marks & COUNTED != 0
    }

    /// Returns the series that counts the request, if it never occupied a slot of the limit. Good until the slot is
    /// given back.
    pub(crate) fn uncounted_series(&self) -> Option<SeriesId> {
        let index = || u16::try_from(self.in_flight).map_or(SeriesId::NONE, SeriesId::from_index);
        (!self.is_counted()).then(index)
    }

    /// Whether the time of the request says something about the limit: not where it runs beyond the limit because
    /// decisions don't bind.
    pub(crate) const fn is_within_limit(&self) -> bool {
        self.marks & (COUNTED | OVER_LIMIT) == COUNTED
    }

    /// Returns the number of the slot, where slots expire.
    pub(crate) const fn ttl(&self) -> Option<TtlId> {
        if self.ttl.number() == TtlId::NONE.number() { None } else { Some(self.ttl) }
    }
}

/// A place in line. Must be given back with [`Engine::claim`] or [`Engine::cancel`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Place(Key);

impl Place {
    pub(crate) const fn new(key: Key) -> Self {
        Self(key)
    }

    pub(crate) const fn key(&self) -> Key {
        self.0
    }
}

/// Why a request was rejected, in the engine's own words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Duration,
    pub(crate) partition: u16,
    /// Requests that the bound allows.
    pub(crate) bound: usize,
    /// Whether the answer says that there is no work, rather than a rejection.
    pub(crate) empty: bool,
    /// Whether the request waited for as long as it might.
    pub(crate) timed_out: bool,
    /// Whether the deadline of the request is over.
    pub(crate) over: bool,
}
