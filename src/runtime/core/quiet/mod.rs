//! The quiet path: requests that enter and leave without the engine and its lock.
//!
//! Most of the time no request waits, the limit does not bind and nothing is refused: then no decision is needed. The engine
//! lends free slots to lanes, one for each partition. *Lent slots count as used*, so the limit holds under every race. A
//! request takes a lent slot with one atomic instruction and gives it back with another.
//!
//! Every other turn of the engine calls all of them back first: it sees exactly what runs, as if nothing had been lent. So
//! everything that the engine promises holds unchanged: a request is refused or waits only after a look at all slots, and
//! a waiter gets the first slot that comes free. After the turn the engine [lends](Lending) again, if all is quiet.
//!
//! What is learned from requests on lent slots stands in a [ring](SampleRing). It is collected after [`BATCH`] requests or
//! [`MOST_DELAY`], the earlier of the two, and at every other turn: each sample with its own times and counts.

mod atomics;
mod lending;
mod posted;
mod ring;
mod word;

use std::time::Duration;

use self::atomics::{AtomicU64, Ordering};
pub(in crate::runtime) use self::{
    lending::Lending,
    posted::{Answer, Posted},
};
use self::{
    ring::{Found, RING, RingSample, SampleRing},
    word::{MOST_LENT, Seen, SlotWord},
};
use crate::{engine::PartitionId, outcome::Outcome, time::Timestamp};

/// Requests after which their samples are collected.
const BATCH: u32 = 64;

/// Time after which samples are collected.
const MOST_DELAY: Duration = Duration::from_millis(1);

/// The number of a request within its lane is this one at most; the next one is 0.
const NUMBERS: u32 = (1 << 24) - 1;

/// Most lanes of a handle. Requests of further partitions always ask the engine.
const MOST_LANES: usize = 64;

/// All lanes.
#[derive(Debug)]
pub(in crate::runtime) struct Lanes {
    /// Lanes by the number of their partition.
    lanes: Box<[Lane]>,
    /// Requests that run on slots which the engine did not lend.
    elsewhere: AtomicU64,
    /// One in how many requests is timed, as a power of two less 1.
    untimed: AtomicU64,
    /// Answers that stand, by the number of their partition.
    posted: Box<[Posted]>,
}

/// The lent slots of a partition. Lanes don't share cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Lane {
    word: SlotWord,
    /// When the samples were collected last, in nanoseconds.
    collected: AtomicU64,
    /// When the first request entered since a request left last, in nanoseconds; the largest number without such a request.
    busy_since: AtomicU64,
    /// Requests that were observed before they left.
    observed: AtomicU64,
    /// Samples of requests that leave, and of requests that were observed before.
    at_end: SampleRing,
    at_head: SampleRing,
}

/// The right to run on a lent slot.
#[must_use]
#[derive(Debug)]
pub(in crate::runtime) struct LentSlot {
    /// When the request entered; never, for a request that is not timed.
    pub(in crate::runtime) start: Timestamp,
    pub(in crate::runtime) in_flight: u32,
    pub(in crate::runtime) partition: PartitionId,
    pub(in crate::runtime) is_observed: bool,
}

/// What a request on a lent slot has to do next.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) enum Next {
    Nothing,
    /// To have the samples collected.
    Collect,
    /// To take the lock, since the engine waits for the slot.
    Settle,
}

impl Lanes {
    pub(in crate::runtime) fn new(partitions: usize) -> Self {
        let lanes = (0..partitions.min(MOST_LANES)).map(|_| Lane::new()).collect();
        let posted = (0..partitions.min(MOST_LANES)).map(|_| Posted::nothing()).collect();
        Self { lanes, elsewhere: AtomicU64::new(0), untimed: AtomicU64::new(0), posted }
    }

    /// Whether these are the lanes of a handle with so many partitions.
    pub(in crate::runtime) fn are_for(&self, partitions: usize) -> bool {
        self.lanes.len() == partitions.min(MOST_LANES)
    }

    /// Whether all lanes are closed and no request runs on any lent slot.
    pub(in crate::runtime) fn are_idle(&self) -> bool {
        self.lanes.iter().all(|lane| {
            let seen = lane.word.look();
            seen.is_closed && seen.used == 0
        })
    }

    /// Begins anew, for a handle with a time of its own.
    pub(in crate::runtime) fn begin(&self) {
        self.untimed.store(0, Ordering::Relaxed);
        for lane in &self.lanes {
            lane.collected.store(0, Ordering::Relaxed);
            lane.busy_since.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Returns the place for an answer to all requests of a partition.
    #[inline]
    pub(in crate::runtime) fn posted(&self, partition: PartitionId) -> Option<&Posted> {
        self.posted.get(partition.index())
    }

    /// Takes a lent slot of a partition, if there is one.
    ///
    /// A request that gets `None` must ask the engine.
    #[inline]
    pub(in crate::runtime) fn enter(
        &self,
        partition: PartitionId,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<LentSlot> {
        let lane = self.lanes.get(partition.index())?;
        let entered = lane.word.enter()?;
        let is_timed = u64::from(entered.number) & self.untimed.load(Ordering::Relaxed) == 0;
        let start = if is_timed { now() } else { Timestamp::NEVER };
        if is_timed && lane.busy_since.load(Ordering::Relaxed) == u64::MAX {
            lane.busy_since.store(start.as_nanos(), Ordering::Relaxed);
        }
        let in_flight = self.running_with(partition, entered.used);
        Some(LentSlot { start, in_flight, partition, is_observed: false })
    }

    /// Whether slots may be scarce in the lane of a request, so that the time for which it held its own says something.
    #[inline]
    pub(in crate::runtime) fn are_tight(&self, slot: &LentSlot) -> bool {
        self.lanes.get(slot.partition.index()).is_some_and(|lane| lane.word.is_tight())
    }

    /// Gives a lent slot back, with its sample.
    #[inline]
    pub(in crate::runtime) fn leave(&self, slot: &LentSlot, end: Timestamp, outcome: Outcome) -> Next {
        let Some(lane) = self.lanes.get(slot.partition.index()) else { return Next::Settle };
        lane.busy_since.store(u64::MAX, Ordering::Relaxed);
        let seen = lane.word.leave();
        let running = self.running_at(slot.partition, seen);
        let outcome = if slot.is_observed { None } else { Some(outcome) };
        let sample = RingSample { start: slot.start, end, in_flight: slot.in_flight, running, outcome };
        lane.at_end.write(seen.left, &sample);
        if seen.is_closed { Next::Settle } else { lane.next(seen.left, end) }
    }

    /// Takes the sample of a request that goes on.
    #[inline]
    pub(in crate::runtime) fn observe(&self, slot: &mut LentSlot, end: Timestamp, outcome: Outcome) -> Next {
        let Some(lane) = self.lanes.get(slot.partition.index()) else { return Next::Settle };
        slot.is_observed = true;
        let seen = lane.word.look();
        let running = self.running_at(slot.partition, seen);
        let number = low(lane.observed.fetch_add(1, Ordering::AcqRel));
        let sample = RingSample { start: slot.start, end, in_flight: slot.in_flight, running, outcome: Some(outcome) };
        lane.at_head.write(number, &sample);
        if seen.is_closed { Next::Settle } else { lane.next(number, end) }
    }

    /// Returns how many requests run in all, as a request in a partition sees its word; 0 where the engine knows better.
    #[inline]
    fn running_at(&self, partition: PartitionId, seen: Seen) -> u32 {
        if seen.is_closed { 0 } else { self.running_with(partition, seen.used) }
    }

    /// Returns how many requests run in all, if so many run in this partition on lent slots.
    #[inline]
    fn running_with(&self, partition: PartitionId, used: u32) -> u32 {
        let elsewhere = low(self.elsewhere.load(Ordering::Relaxed)) + used;
        if self.lanes.len() == 1 {
            return elsewhere;
        }
        let others = self.lanes.iter().enumerate().filter(|&(number, _)| number != partition.index());
        others.fold(elsewhere, |sum, (_, lane)| sum + lane.word.look().used)
    }
}

impl LentSlot {
    /// Whether the request is timed.
    #[inline]
    pub(in crate::runtime) fn is_timed(&self) -> bool {
        self.start != Timestamp::NEVER
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            word: SlotWord::closed(),
            collected: AtomicU64::new(0),
            busy_since: AtomicU64::new(u64::MAX),
            observed: AtomicU64::new(0),
            at_end: SampleRing::new(),
            at_head: SampleRing::new(),
        }
    }

    #[inline]
    fn next(&self, number: u32, end: Timestamp) -> Next {
        // An end that is not known is later than all others.
        let is_due = number % BATCH == BATCH - 1
            || end != Timestamp::NEVER
                && end.since(Timestamp::from_nanos(self.collected.load(Ordering::Relaxed))) >= MOST_DELAY;
        if is_due { Next::Collect } else { Next::Nothing }
    }
}

/// The lower half of a count.
#[inline]
const fn low(count: u64) -> u32 {
    (count & u32::MAX as u64) as u32
}
