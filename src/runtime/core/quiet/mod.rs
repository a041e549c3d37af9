//! The quiet path: requests that enter and leave without the engine and its lock.
//!
//! Most of the time no request waits, the limit does not bind and nothing is refused: then no decision is needed. The engine
//! lends free slots to lanes, one or a few for each partition. *Lent slots count as used*, so the limit holds under every race.
//! A request takes a lent slot with one atomic instruction and gives it back with another.
//!
//! Every other turn of the engine calls all of them back first: it sees exactly what runs, as if nothing had been lent. So
//! everything that the engine promises holds unchanged: a request is refused or waits only after a look at all slots, and
//! a waiter gets the first slot that comes free. After the turn the engine [lends](Lending) again, if all is quiet.
//!
//! What is learned from requests on lent slots stands in a [ring](SampleRing). It is collected after [`BATCH`] requests or
//! [`MOST_DELAY`], the earlier of the two, and at every other turn: each sample with its own times and counts.
//!
//! Requests with a label have [lanes of their own](labelled).
//!
//! On a machine with many cores all of them would write to the one state of a busy partition. There a partition has [a few
//! lanes](lanes_per_partition), and each thread tries its own first. Before it asks the engine, a request tries all lanes of its
//! partition, so that it does not call slots back while one is free.

mod atomics;
mod drain;
mod labelled;
mod lane;
mod lane_state;
#[cfg(any(test, kani))]
mod lane_state_proof_tests;
mod lanes_per_partition;
mod lending;
mod lent_slot;
mod loan;
mod ring;
mod standing_refusal;

use std::time::Duration;

use self::atomics::{AtomicU64, Ordering};
#[cfg(test)]
pub(in crate::runtime) use self::lanes_per_partition::{be_thread, force_lanes_per_partition};
use self::{
    labelled::{LABEL_LANES, LabelLane},
    lane::Lane,
    lane_state::{Entered, MOST_LENT, Seen},
    lanes_per_partition::this_thread,
    lent_slot::{LANE_BITS, in_micros},
    ring::{RING, RingSample, SampleRing},
};
pub(in crate::runtime) use self::{
    lanes_per_partition::lanes_per_partition_here,
    lending::Lending,
    lent_slot::LentSlot,
    standing_refusal::{RefusalParts, StandingRefusal},
};
use crate::{Outcome, Timestamp, engine::PartitionId};

/// Requests after which their samples are collected.
const BATCH: u32 = 64;

/// Time after which samples are collected.
const MOST_DELAY: Duration = Duration::from_millis(1);

/// The number of a request within its lane is this one at most; the next one is 0.
const NUMBERS: u32 = (1 << 24) - 1;

/// Most lanes of a handle. Requests of further partitions always ask the engine.
const MOST_LANES: usize = 64;

const _: () = assert!(MOST_LANES + LABEL_LANES <= 1 << LANE_BITS, "a slot has the number of its lane");

/// All lanes.
#[derive(Debug)]
pub(in crate::runtime) struct Lanes {
    /// Lanes by the number of their partition; those of a partition lie side by side.
    lanes: Box<[Lane]>,
    /// Lanes for requests with a label, and how many of them such a request looks at. Their numbers follow.
    labelled: [LabelLane; LABEL_LANES],
    shown: AtomicU64,
    /// Lanes of each partition, as a power of two.
    per_partition: u32,
    /// Requests that run on slots which the engine did not lend.
    elsewhere: AtomicU64,
    /// One in how many requests is timed, as a power of two less 1.
    untimed: AtomicU64,
    /// Requests that were observed and go on.
    answering: AtomicU64,
    /// 1 where the law learns from long bodies for how long their slots were held.
    learns_hold_times: AtomicU64,
    /// The deadline of requests that come without one, as a lent slot has it.
    default_deadline_us: AtomicU64,
    /// Refusals that stand, by the number of their partition.
    standing_refusals: Box<[StandingRefusal]>,
}

/// What a request on a lent slot has to do next.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) enum Next {
    Nothing,
    /// To have the samples collected.
    Collect,
    /// To take the lock, since the engine waits for the slot.
    Recall,
}

impl Lanes {
    /// Lanes for a number of partitions; the number of lanes of each is a power of two.
    pub(in crate::runtime) fn new(partitions: usize, per_partition: usize) -> Self {
        Self {
            lanes: (0..number_of_lanes(partitions, per_partition)).map(|_| Lane::new()).collect(),
            labelled: std::array::from_fn(|_| LabelLane::new()),
            shown: AtomicU64::new(0),
            per_partition: per_partition.ilog2(),
            elsewhere: AtomicU64::new(0),
            untimed: AtomicU64::new(0),
            answering: AtomicU64::new(0),
            learns_hold_times: AtomicU64::new(0),
            default_deadline_us: AtomicU64::new(u32::MAX.into()),
            standing_refusals: (0..partitions.min(MOST_LANES)).map(|_| StandingRefusal::nothing()).collect(),
        }
    }

    /// Whether these are the lanes of a handle with these numbers of partitions and of lanes for each.
    pub(in crate::runtime) fn are_for(&self, partitions: usize, per_partition: usize) -> bool {
        self.per_partition == per_partition.ilog2() && self.lanes.len() == number_of_lanes(partitions, per_partition)
    }

    /// Whether all lanes are closed and no request runs on any lent slot.
    pub(in crate::runtime) fn are_idle(&self) -> bool {
        self.all().all(|lane| {
            let seen = lane.state.look();
            seen.is_closed && seen.used == 0
        })
    }

    /// Begins anew, for a handle with a time of its own.
    pub(in crate::runtime) fn begin(&self) {
        self.untimed.store(0, Ordering::Relaxed);
        for lane in self.all() {
            lane.collected.store(0, Ordering::Relaxed);
            lane.busy_since.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Takes note of the deadline of requests that come without one, and of what the law learns from. Under the lock of the engine,
    /// while the lanes are closed.
    pub(in crate::runtime) fn note_settings(&self, default_deadline: Option<Duration>, learns_hold_times: bool) {
        self.default_deadline_us.store(default_deadline.map_or(u32::MAX, in_micros).into(), Ordering::Relaxed);
        self.learns_hold_times.store(learns_hold_times.into(), Ordering::Relaxed);
    }

    /// Whether the law learns from long bodies for how long their slots were held.
    pub(in crate::runtime) fn learns_hold_times(&self) -> bool {
        self.learns_hold_times.load(Ordering::Relaxed) != 0
    }

    /// Whether it is known how long callers wait.
    pub(in crate::runtime) fn knows_default_deadline(&self) -> bool {
        low(self.default_deadline_us.load(Ordering::Relaxed)) != u32::MAX
    }

    /// Returns the refusal that stands, or the place for one, for all requests of a partition.
    #[inline]
    pub(in crate::runtime) fn standing_refusal(&self, partition: PartitionId) -> Option<&StandingRefusal> {
        self.standing_refusals.get(partition.index())
    }

    /// Takes a lent slot of a partition, if there is one. A request that gets `None` must ask the engine.
    #[expect(clippy::inline_always, reason = "measured: the slot is made where it stays")]
    #[inline(always)]
    pub(in crate::runtime) fn enter(
        &self,
        partition: PartitionId,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<LentSlot> {
        let (number, entered) = if self.per_partition == 0 {
            let number = partition.index();
            (number, self.lanes.get(number)?.state.enter()?)
        } else {
            self.enter_any(partition, this_thread())?
        };
        let lane = self.lanes.get(number)?;
        Some(self.slot(number, lane, entered, now))
    }

    /// Returns the slot of a request that has entered the lane of this number.
    #[expect(clippy::inline_always, reason = "measured: the slot is made where it stays")]
    #[inline(always)]
    fn slot(&self, number: usize, lane: &Lane, entered: Entered, now: impl FnOnce() -> Timestamp) -> LentSlot {
        let is_timed = u64::from(entered.number) & self.untimed.load(Ordering::Relaxed) == 0;
        if !is_timed {
            return LentSlot::new(Timestamp::NEVER, u32::MAX, 0, number);
        }
        let start = now();
        if lane.busy_since.load(Ordering::Relaxed) == u64::MAX {
            lane.busy_since.store(start.as_nanos(), Ordering::Relaxed);
        }
        let in_flight = self.running_with(lane, number, entered.used);
        LentSlot::new(start, low(self.default_deadline_us.load(Ordering::Relaxed)), in_flight, number)
    }

    /// Enters any lane of a partition, that of this thread first. Returns the number of the lane.
    ///
    /// A request may have counted as running for a moment in a lane where it gave up. If it gets in elsewhere it need not ask
    /// the engine: a turn that saw it there has lent again since, or else it saw it gone. Kept out of the way of requests whose
    /// partition has a single lane.
    #[inline(never)]
    fn enter_any(&self, partition: PartitionId, thread: usize) -> Option<(usize, Entered)> {
        let first = partition.index() << self.per_partition;
        let last = (1 << self.per_partition) - 1;
        (0..=last).find_map(|step| {
            let number = first + (thread.wrapping_add(step) & last);
            Some((number, self.lanes.get(number)?.state.enter()?))
        })
    }

    /// Returns the lane of a request.
    #[inline]
    fn lane(&self, slot: &LentSlot) -> Option<&Lane> {
        let number = slot.lane();
        self.lanes.get(number).or_else(|| self.label_lane(number))
    }

    /// Whether slots may be scarce in the lane of a request, so that the time for which it held its own says something.
    #[inline]
    pub(in crate::runtime) fn are_tight(&self, slot: &LentSlot) -> bool {
        self.lane(slot).is_some_and(|lane| lane.state.is_tight())
    }

    /// Does what a request does that was slow to write its sample, while a ring of others left.
    #[cfg(test)]
    pub(in crate::runtime) fn overwrite_newest(&self) {
        let lane = &self.lanes[0];
        let number = lane.state.look().left.wrapping_sub(1 + RING) & NUMBERS;
        lane.at_end.write(number, &lane.at_end.read(lane.state.look().left.wrapping_sub(1) & NUMBERS).unwrap());
    }

    /// Gives a lent slot back, with its sample.
    #[inline]
    pub(in crate::runtime) fn leave(&self, slot: &LentSlot, end: Timestamp, outcome: Outcome) -> Next {
        let Some(lane) = self.lane(slot) else { return Next::Recall };
        lane.busy_since.store(u64::MAX, Ordering::Relaxed);
        self.note_end(slot);
        let seen = lane.state.leave();
        let outcome = if slot.is_observed { None } else { Some(outcome) };
        let is_plain = !slot.is_timed() && outcome == Some(Outcome::Success);
        lane.at_end.note(seen.left, is_plain, || slot.sample(end, self.running_at(lane, slot, seen), outcome));
        if seen.is_closed { Next::Recall } else { lane.next(seen.left, end) }
    }

    /// Notes that a request does not go on here any more.
    #[inline]
    fn note_end(&self, slot: &LentSlot) {
        if slot.is_observed {
            self.answering.fetch_sub(slot.answering(), Ordering::Relaxed);
        }
    }

    /// Takes the sample of a request that goes on.
    #[inline]
    pub(in crate::runtime) fn observe(&self, slot: &mut LentSlot, end: Timestamp, outcome: Outcome) -> Next {
        let Some(lane) = self.lane(slot) else { return Next::Recall };
        slot.is_observed = true;
        self.answering.fetch_add(slot.answering(), Ordering::Relaxed);
        let seen = lane.state.look();
        let number = low(lane.observed.fetch_add(1, Ordering::AcqRel));
        let is_plain = !slot.is_timed() && outcome == Outcome::Success;
        lane.at_head.note(number, is_plain, || slot.sample(end, self.running_at(lane, slot, seen), Some(outcome)));
        if seen.is_closed { Next::Recall } else { lane.next(number, end) }
    }

    /// Returns how many requests run in all, as a request sees the state of its lane; 0 where the engine knows better.
    #[inline]
    fn running_at(&self, lane: &Lane, slot: &LentSlot, seen: Seen) -> u32 {
        if seen.is_closed { 0 } else { self.running_with(lane, slot.lane(), seen.used) }
    }

    /// Returns how many requests run in all, given how many run in the lane of this number.
    #[inline]
    fn running_with(&self, lane: &Lane, number: usize, used: u32) -> u32 {
        if self.per_partition > 0 {
            // As of the last collection.
            return low(lane.others.load(Ordering::Relaxed)) + used;
        }
        let elsewhere = low(self.elsewhere.load(Ordering::Relaxed)) + used;
        if self.lanes.len() == 1 && self.for_labels().next().is_none() {
            return elsewhere;
        }
        let others = self.all().enumerate().filter(|&(other, _)| other != number);
        others.fold(elsewhere, |sum, (_, lane)| sum + lane.state.look().used)
    }

    /// Tells the lanes how many requests run elsewhere, where a partition has several of them. Under the lock of the engine.
    pub(in crate::runtime) fn tell_what_runs_elsewhere(&self) {
        if self.per_partition == 0 {
            return;
        }
        let used = |lane: &Lane| lane.state.look().used;
        let running = low(self.elsewhere.load(Ordering::Relaxed)) + self.all().map(used).sum::<u32>();
        for lane in self.all() {
            // Requests come and go meanwhile.
            lane.others.store(u64::from(running.saturating_sub(used(lane))), Ordering::Relaxed);
        }
    }
}

/// The lanes of each of these partitions.
fn number_of_lanes(partitions: usize, per_partition: usize) -> usize {
    partitions.saturating_mul(per_partition).min(MOST_LANES)
}

/// The lower half of a count.
#[inline]
const fn low(count: u64) -> u32 {
    (count & u32::MAX as u64) as u32
}
