//! A lane: lent slots, and what requests on them leave behind.

use super::{
    BATCH, MOST_DELAY, NUMBERS, Next,
    atomics::{AtomicU64, Ordering},
    lane_state::LaneState,
    low,
    ring::SampleRing,
};
use crate::Timestamp;

/// Lent slots of a partition, or of a label in it. Lanes don't share cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lane {
    pub(super) state: LaneState,
    /// When the samples were collected last, in nanoseconds.
    pub(super) collected: AtomicU64,
    /// When the first request entered since a request left last, in nanoseconds; the largest number without such a request.
    pub(super) busy_since: AtomicU64,
    /// Requests that were observed before they left.
    pub(super) observed: AtomicU64,
    /// Requests that ran elsewhere at the last collection, in other lanes or on slots that were not lent. Where a partition has
    /// several lanes, a look at all of their states would cost each request what it saves not to share one.
    pub(super) others: AtomicU64,
    /// Samples of requests that leave, and of requests that were observed before.
    pub(super) at_end: SampleRing,
    pub(super) at_head: SampleRing,
}

impl Lane {
    pub(super) fn new() -> Self {
        Self {
            state: LaneState::closed(),
            collected: AtomicU64::new(0),
            busy_since: AtomicU64::new(u64::MAX),
            observed: AtomicU64::new(0),
            others: AtomicU64::new(0),
            at_end: SampleRing::new(),
            at_head: SampleRing::new(),
        }
    }

    /// Returns how many requests were observed before they left, and how many have left, modulo 2^24.
    pub(super) fn told(&self) -> [u32; 2] {
        let observed = low(self.observed.load(Ordering::Acquire)) & NUMBERS;
        [observed, self.state.look().left]
    }

    #[inline]
    pub(super) fn next(&self, number: u32, end: Timestamp) -> Next {
        // An end that is not known is later than all others.
        let is_due = number % BATCH == BATCH - 1
            || end != Timestamp::NEVER
                && end.since(Timestamp::from_nanos(self.collected.load(Ordering::Relaxed))) >= MOST_DELAY;
        if is_due { Next::Collect } else { Next::Nothing }
    }
}
