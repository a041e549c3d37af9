//! A slot that a lane gave to a request.

use std::time::Duration;

use super::ring::RingSample;
use crate::{Outcome, Timestamp};

/// The right to run on a lent slot.
#[must_use]
#[derive(Debug)]
pub(in crate::runtime) struct LentSlot {
    /// When the request entered; never, for a request that is not timed.
    pub(in crate::runtime) start: Timestamp,
    /// Microseconds from then until its caller gives up, rounded up; the largest number for a caller that waits for ever, or for
    /// more than an hour.
    deadline_us: u32,
    /// Requests that ran when it entered, itself included, if it is timed, and the number of its lane.
    place: [u8; 3],
    pub(in crate::runtime) is_observed: bool,
}

const _: () = assert!(size_of::<LentSlot>() <= 16, "a slot moves with its request");

/// Bits of the number of a lane, in the place of a request; the count above them is as large as a loan may be.
pub(super) const LANE_BITS: u32 = 7;

/// In place of the time until a caller gives up: its answer has begun before that.
const MET: u32 = u32::MAX - 1;

/// A time in microseconds, rounded up; the largest number for more than an hour.
pub(super) fn in_micros(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u32::MAX)
}

impl LentSlot {
    #[inline]
    pub(super) fn new(start: Timestamp, deadline_us: u32, in_flight: u32, lane: usize) -> Self {
        let place = in_flight.min(u32::MAX >> (8 + LANE_BITS)) << LANE_BITS | lane as u32;
        let [low, middle, high, _] = place.to_le_bytes();
        Self { start, deadline_us, place: [low, middle, high], is_observed: false }
    }

    /// Returns the same slot for a request whose caller gives up after this time, if it has one of its own.
    #[inline]
    pub(in crate::runtime) fn for_at_most(self, timeout: Option<Duration>) -> Self {
        Self { deadline_us: timeout.map_or(self.deadline_us, in_micros), ..self }
    }

    /// Returns when its caller gives up, if it does and if the request is timed.
    #[inline]
    pub(in crate::runtime) fn deadline(&self) -> Timestamp {
        if self.deadline_us == u32::MAX || !self.is_timed() {
            return Timestamp::NEVER;
        }
        if self.deadline_us == MET {
            return Timestamp::MET;
        }
        self.start.after(Duration::from_micros(self.deadline_us.into()))
    }

    /// Notes that the answer begins by this time: no later end of it comes too late. Returns the deadline of the caller, if there is
    /// one and it has not passed by then.
    pub(in crate::runtime) fn answer(&mut self, by: Timestamp) -> Option<Timestamp> {
        let deadline = self.deadline();
        let is_in_time = deadline < Timestamp::MET && by <= deadline;
        if is_in_time {
            self.deadline_us = MET;
        }
        is_in_time.then_some(deadline)
    }

    /// Returns what it counts for in [`Lanes::answering`](super::Lanes), once it was observed.
    pub(super) const fn answering(&self) -> u64 {
        1 | ((self.deadline_us == MET) as u64) << 32
    }

    #[inline]
    fn place(&self) -> u32 {
        let [low, middle, high] = self.place;
        u32::from_le_bytes([low, middle, high, 0])
    }

    #[inline]
    pub(super) fn lane(&self) -> usize {
        (self.place() & ((1 << LANE_BITS) - 1)) as usize
    }

    /// Returns how many requests ran when it entered, itself included; 0 for a request that is not timed.
    #[inline]
    pub(in crate::runtime) fn in_flight(&self) -> u32 {
        self.place() >> LANE_BITS
    }

    /// Returns what it says at its end, or when its answer begins. The end of a request that is not timed is not known.
    #[inline]
    pub(super) fn sample(&self, end: Timestamp, running: u32, outcome: Option<Outcome>) -> RingSample {
        let is_untimely = match outcome {
            Some(Outcome::Success) => end != Timestamp::NEVER && end > self.deadline(),
            Some(Outcome::Cancelled) => end.is_in_first_half(self.start, self.deadline()),
            _ => false,
        };
        let is_of_body = outcome == Some(Outcome::Success) && self.deadline_us == MET;
        RingSample { start: self.start, end, in_flight: self.in_flight(), running, outcome, is_untimely, is_of_body }
    }

    /// Whether the request is timed.
    #[inline]
    pub(in crate::runtime) fn is_timed(&self) -> bool {
        self.start != Timestamp::NEVER
    }
}
