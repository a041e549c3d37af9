//! The pure state machine that decides.
//!
//! Every verb takes the time as an argument, so the engine runs in virtual time as it stands. It calls nobody: those
//! whose wait ended are listed by [`Engine::take_notice`], and whoever drives the engine wakes them.
//!
//! ```text
//!            arrive                      settle                    claim
//! request ──────────▶ Admit ────────────────────────────────────────────▶ Slot ──▶ observe, finish
//!            │  └────▶ Wait ─▶ [gate] ─▶ [line] ─▶ granted ───────────────▲
//!            └───────▶ Reject                 └──▶ refused (deadline, longest wait)
//! ```
//!
//! What holds after every verb:
//!
//! 1. No more run than the limit allows, except what a shrunk limit left over and what a partition may overcommit.
//! 2. A free slot and a waiter that may take it never coexist.
//! 3. Room in the line and a waiter at the gate never coexist.
//! 4. Every request that arrived is running, waiting, finished, rejected or cancelled: exactly one of them.

mod classes;
mod deadlines;
mod drain;
mod histogram;
mod kept;
mod learn;
pub(crate) mod limit;
mod partition;
pub(crate) mod plan;
mod scheduler;
pub(crate) mod shares;
mod snapshot;
mod waiters;

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod incident_tests;
#[cfg(test)]
mod model_tests;

use std::{collections::VecDeque, task::Poll, time::Duration};

pub(crate) use histogram::Histogram;
pub(crate) use partition::Counts;
pub use snapshot::{PartitionSnapshot, Quantiles, Snapshot};
pub(crate) use waiters::Key;

use self::{
    classes::Classes,
    deadlines::Deadlines,
    drain::Drain,
    limit::Law,
    partition::Partition,
    plan::{Bound, Mode, Plan},
    waiters::{Stage, Waiter, Waiters},
};
use crate::{rejection::Reason, time::Timestamp};

/// Decides who runs, who waits and who is turned away. See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Changes when the law says so, or by hand.
    limit: usize,
    running: usize,
    /// How many wait, in line and at the gate.
    in_line: usize,
    at_gate: usize,
    mode: Mode,
    now: Timestamp,
    partitions: Vec<Partition>,
    /// The part of each partition, and room to compute its share: a limit moves without an allocation.
    parts: Vec<u32>,
    shares: Vec<usize>,
    law: Box<dyn Law>,
    line: Bound,
    gate: Bound,
    queue: Option<usize>,
    /// How many slots are kept for partitions that were turned away below their share.
    kept: usize,
    /// When some of what is kept, slots or places, is let go; never, where nothing is.
    lets_go_at: Timestamp,
    /// Whether any partition may run beyond the limit.
    overcommits: bool,
    waiters: Waiters,
    deadlines: Deadlines,
    sequence: u64,
    notices: VecDeque<Key>,
    drain: Drain,
    classes: Classes,
    law_panics: u64,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(crate) enum Arrival {
    Admit(Slot),
    Reject(Refusal),
    Wait(Place),
}

/// The right to run. Must be given back with [`Engine::finish`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) start: Timestamp,
    /// Requests in flight when this one was admitted, itself included.
    in_flight: u32,
    partition: u16,
    /// The kind of work; see [`Engine::class`].
    class: u8,
    marks: u8,
}

/// Occupies a slot of the limit: not so while decisions don't bind, and not after it was given back.
const COUNTED: u8 = 1;
/// Its sample was taken.
const OBSERVED: u8 = 2;

impl Slot {
    const fn new(start: Timestamp, in_flight: u32, partition: u16, marks: u8) -> Self {
        Self { start, in_flight, partition, class: 0, marks }
    }

    pub(crate) const fn set_class(&mut self, class: u8) {
        self.class = class;
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.marks & OBSERVED != 0
    }

    /// Whether there is nothing left to tell the engine.
    pub(crate) const fn is_finished(&self) -> bool {
        self.marks == OBSERVED
    }

    const fn is_counted(&self) -> bool {
        self.marks & COUNTED != 0
    }
}

/// A place in line. Must be given back with [`Engine::claim`] or [`Engine::cancel`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Place(Key);

impl Place {
    pub(crate) const fn key(&self) -> Key {
        self.0
    }
}

/// Why a request was turned away, in the engine's own words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) retry_after: Duration,
    pub(crate) partition: u16,
    /// How many requests the bound allows that was hit.
    pub(crate) bound: usize,
}

impl Engine {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut engine = Self {
            limit: 0,
            running: 0,
            in_line: 0,
            at_gate: 0,
            mode: Mode::Enforce,
            now: Timestamp::ZERO,
            overcommits: plan.partitions.iter().any(|it| it.mode == plan::PartitionMode::Overcommit),
            parts: plan.partitions.iter().map(|it| it.part).collect(),
            shares: vec![0; plan.partitions.len()],
            partitions: plan.partitions.into_iter().map(Partition::new).collect(),
            law: plan.law,
            line: plan.line,
            gate: plan.gate,
            queue: plan.queue,
            kept: 0,
            lets_go_at: Timestamp::NEVER,
            waiters: Waiters::default(),
            deadlines: Deadlines::default(),
            sequence: 0,
            notices: VecDeque::new(),
            drain: Drain::default(),
            classes: Classes::default(),
            law_panics: 0,
        };
        engine.resize(engine.law.limit());
        engine
    }

    /// A request of `partition` arrives whose caller gives up at `caller_deadline`.
    pub(crate) fn arrive(&mut self, now: Timestamp, partition: u16, caller_deadline: Timestamp) -> Arrival {
        let now = self.advance(now);
        if self.mode == Mode::Off {
            return Arrival::Admit(Slot::new(now, 0, partition, OBSERVED));
        }
        if self.finds_room(now, partition) {
            return Arrival::Admit(self.occupy(now, partition));
        }
        self.queue_or_refuse(now, partition, caller_deadline)
    }

    /// Like [`arrive`](Self::arrive) for a request that doesn't wait.
    pub(crate) fn arrive_without_waiting(&mut self, now: Timestamp, partition: u16) -> Result<Slot, Refusal> {
        let now = self.advance(now);
        if self.mode == Mode::Enforce && !self.finds_room(now, partition) {
            return Err(self.refuse_at_once(now, partition));
        }
        match self.arrive(now, partition, Timestamp::NEVER) {
            Arrival::Admit(slot) => Ok(slot),
            Arrival::Reject(_) | Arrival::Wait(_) => unreachable!("it may run, or decisions don't bind"),
        }
    }

    /// The number of a kind of work, for [`Slot::set_class`]: round-trip times are compared within their kind.
    pub(crate) fn class(&mut self, name: &str) -> u8 {
        self.classes.number(name)
    }

    /// Asks for the slot of a waiter. Whatever the timers say, this answer counts.
    pub(crate) fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let now = self.advance(now);
        let key = place.0;
        if self.waiters.get(key).deadline <= now {
            self.expire(now, key);
            self.settle(now);
        }
        let &Waiter { stage, partition, since, .. } = self.waiters.get(key);
        let answer = match stage {
            Stage::Gate | Stage::Line => return Poll::Pending,
            // Its time starts now, not at the grant: how long the task took to wake up is no congestion.
            Stage::Granted { in_flight } => {
                let counts = &mut self.partitions[partition as usize].counts;
                counts.admitted += 1;
                counts.queued += 1;
                counts.wait.record(now.since(since));
                Ok(Slot::new(now, in_flight, partition, COUNTED))
            }
            Stage::Refused(refusal) => Err(refusal),
        };
        self.waiters.remove(key);
        self.check();
        Poll::Ready(answer)
    }

    /// Gives up a place, and the slot that may have been granted to it.
    pub(crate) fn cancel(&mut self, now: Timestamp, place: &Place) {
        let now = self.advance(now);
        let key = place.0;
        let (stage, partition) = (self.waiters.get(key).stage, self.waiters.get(key).partition);
        match stage {
            Stage::Gate | Stage::Line => self.leave(key),
            Stage::Granted { .. } => self.vacate(partition),
            Stage::Refused(_) => {}
        }
        if !matches!(stage, Stage::Refused(_)) {
            self.partitions[partition as usize].counts.cancelled_waiting += 1;
        }
        self.waiters.remove(key);
        self.settle(now);
    }

    /// Gives a slot back, once.
    pub(crate) fn finish(&mut self, now: Timestamp, slot: &mut Slot) {
        if !slot.is_counted() {
            return;
        }
        slot.marks &= !COUNTED;
        let now = self.advance(now);
        if self.is_saturated() {
            self.drain.finished(now.since(slot.start));
        }
        self.vacate(slot.partition);
        if self.in_line + self.at_gate > 0 || self.lets_go_at <= now {
            self.settle(now);
        }
    }

    /// Whether [`finish`](Self::finish) needs the exact time: there is nobody to serve and nothing to measure on a
    /// server that has room, and reading a clock costs more than the rest of it.
    pub(crate) const fn is_saturated(&self) -> bool {
        self.running >= self.limit || self.in_line + self.at_gate > 0
    }

    /// When [`tick`](Self::tick) has something to do, if it ever has.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        let deadline = self.deadlines.first().map(|(at, _)| at);
        // What is let go may be for those who wait.
        let waiting = self.in_line + self.at_gate > 0;
        let lets_go = Some(self.lets_go_at).filter(|&at| waiting && at != Timestamp::NEVER);
        deadline.into_iter().chain(lets_go).min()
    }

    /// Turns away whose wait is over.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        let now = self.advance(now);
        while let Some((at, index)) = self.deadlines.first()
            && at <= now
        {
            self.expire(now, self.waiters.key(index));
        }
        self.settle(now);
    }

    /// The next waiter whose wait ended since the last call, granted or refused: it should be woken.
    pub(crate) fn take_notice(&mut self) -> Option<Key> {
        self.notices.pop_front()
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// The latest time that any verb was given.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Makes decisions bind, or not. Those who wait when they stop to bind are admitted at once.
    pub(crate) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        let now = self.advance(now);
        self.mode = mode;
        self.settle(now);
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&str, &Counts)> {
        self.partitions.iter().map(|partition| (&*partition.plan.name, &partition.counts))
    }

    /// Time never runs backwards here, whatever the clock does, and never reaches "never".
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now).min(Timestamp::LATEST);
        self.now
    }
}
