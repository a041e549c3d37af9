//! Estimates from requests that ended: how long slots are held, and how long work takes.

mod abandoned;
mod hold_time;
#[cfg(any(test, kani))]
mod proof_tests;
mod service_time;

use std::time::Duration;

use self::{abandoned::AbandonedWork, hold_time::HoldTime, service_time::Usual};
use crate::{
    Timestamp,
    ids::{AbandonedKind, ClassId, PartitionId},
};

/// The estimates.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    hold: HoldTime,
    /// How long work takes, by its class.
    classes: Vec<Usual>,
    abandoned: AbandonedWork,
}

impl Estimates {
    /// Notes the round-trip time of a request of this class and partition; `is_within_limit` unless it ran over the limit.
    #[expect(clippy::inline_always, reason = "measured: each answer comes here")]
    #[inline(always)]
    pub(crate) fn answered(
        &mut self,
        (class, partition): (ClassId, PartitionId),
        start: Timestamp,
        rtt: Duration,
        is_within_limit: bool,
    ) {
        if is_within_limit {
            self.hold.answered(rtt);
        }
        if self.classes.len() <= class.index() {
            self.classes.resize(class.index() + 1, Usual::default());
        }
        self.classes[class.index()].answered(rtt);
        self.abandoned.answered((class, partition), start, rtt);
    }

    /// Notes for how long a slot was held, where slots are scarce.
    pub(crate) fn held(&mut self, held: Duration) {
        self.hold.finished(held);
    }

    /// Returns what is known of how long slots are held.
    pub(crate) const fn hold(&self) -> HoldTime {
        self.hold
    }

    /// Returns how long work of this class takes nearly always, if enough of it was seen.
    pub(crate) fn likely(&self, class: ClassId) -> Option<Duration> {
        self.classes.get(class.index())?.likely()
    }

    /// Notes that work of this age was given up, which may go on. Returns whether answers say how long it takes.
    pub(crate) fn given_up(&mut self, class: ClassId, partition: PartitionId, age: Duration) -> bool {
        self.abandoned.given_up((class, partition), age)
    }

    /// Returns when work that was given up and that started at this time has nearly always ended: by answers if these say so,
    /// or the longest that work may take.
    pub(crate) fn abandoned_end(&self, kind: AbandonedKind, start: Timestamp, longest: Duration) -> Timestamp {
        self.abandoned.end((kind.class, kind.partition), kind.is_known, start, longest)
    }
}
