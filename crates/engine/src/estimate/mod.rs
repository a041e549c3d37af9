//! Estimates from requests that ended: how long slots are held, and how long work takes.

mod abandoned;
mod hold_time;
#[cfg(any(test, kani))]
mod proof_tests;
mod service_time;

use std::time::Duration;

use self::{abandoned::AbandonedWork, hold_time::HoldTime, service_time::ServiceTime};
use crate::{
    Timestamp,
    ids::{AbandonedKind, ClassId, PartitionId},
    stall::Stall,
};

/// The estimates.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    hold: HoldTime,
    service: ServiceTime,
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
        self.service.answered(class, rtt);
        self.abandoned.answered((class, partition), start, rtt);
    }

    /// Notes for how long a slot was held, where slots are scarce.
    pub(crate) fn held(&mut self, held: Duration) {
        self.hold.finished(held);
    }

    /// Returns how long a slot is held, on average; zero while nothing is known.
    pub(crate) const fn mean_hold(&self) -> Duration {
        self.hold.mean()
    }

    /// Returns for how long a reservation lasts that is not used: as long as a request holds its slot.
    pub(crate) fn reservation_time(&self) -> Duration {
        const UNKNOWN: Duration = Duration::from_millis(50);
        let hold = self.mean_hold();
        if hold.is_zero() { UNKNOWN } else { hold.clamp(Duration::from_millis(1), Duration::from_secs(10)) }
    }

    /// Returns how long work of this class takes nearly always, if enough of it was seen.
    pub(crate) fn likely(&self, class: ClassId) -> Option<Duration> {
        self.service.likely(class)
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

    /// Little's law: returns how long until `releases` of `slots` slots came free, as usual.
    pub(crate) fn wait(&self, releases: usize, slots: usize) -> Duration {
        self.hold.estimate(releases, slots)
    }

    /// Like `wait`, for a caller that is told when to come back: not before the running requests are likely to have
    /// moved.
    pub(crate) fn retry_after(&self, now: Timestamp, releases: usize, slots: usize, stall: Stall) -> Duration {
        self.hold.retry_after(now, releases, slots, stall)
    }

    /// Returns for how long no slot has come free, if that is longer than usual.
    pub(crate) fn stalled(&self, now: Timestamp, stall: Stall) -> Option<Duration> {
        self.hold.stalled(now, stall)
    }
}
