//! What the lock guards.

use std::task::Waker;

use super::{
    abandoned_slots::{AbandonedSlots, Along},
    drivers::{DriverSeat, Look, Schedule},
    quiet::{Lanes, Lending, LentSlot},
    slots::{SlotNumber, SlotRef, Slots},
    standing_refusals::StandingRefusals,
    wakers::Wakers,
};
#[cfg(feature = "capture")]
use super::{checkpoint::Checkpoint, tape::Tape};
use crate::{
    Outcome, Timestamp,
    clock::TimeSource,
    engine::{Engine, PartitionId, Snapshot},
};

/// What the lock guards.
///
/// The verbs that a capture records are methods of this; all others are the engine's own.
#[derive(Debug)]
pub(crate) struct State {
    pub(in crate::runtime) engine: Engine,
    /// Wakers to wake when a wait ends.
    pub(in crate::runtime) wakers: Wakers,
    /// Times when the drivers will look at the engine again.
    pub(in crate::runtime) schedule: Schedule,
    /// Slots of requests that the engine admitted.
    pub(in crate::runtime) slots: Slots,
    /// Slots of requests that were given up while their work may go on.
    pub(in crate::runtime) abandoned: AbandonedSlots,
    /// Slots that are kept for work that outlived its request.
    pub(in crate::runtime) kept: usize,
    /// Slots that the engine lent to the lanes.
    pub(in crate::runtime) lending: Lending,
    /// Refusals that stand.
    pub(super) standing_refusals: StandingRefusals,
    /// Partition of a request that was rejected as it came in this turn.
    pub(super) rejected: Option<PartitionId>,
    #[cfg(test)]
    pub(super) never_lends: bool,
    /// Record of all inputs of the engine, while a capture runs.
    #[cfg(feature = "capture")]
    pub(in crate::runtime) tape: Option<Box<Tape>>,
}

impl State {
    pub(super) fn new(engine: Engine, lanes: &Lanes) -> Self {
        Self {
            engine,
            slots: Slots::default(),
            abandoned: AbandonedSlots::default(),
            kept: 0,
            lending: Lending::new(lanes),
            standing_refusals: StandingRefusals::new(lanes),
            rejected: None,
            #[cfg(test)]
            never_lends: false,
            wakers: Wakers::default(),
            schedule: Schedule::default(),
            #[cfg(feature = "capture")]
            tape: None,
        }
    }

    /// Withdraws the refusals that stand and recalls what is lent, so that the engine sees what runs.
    #[inline]
    pub(super) fn recall(&mut self, lanes: &Lanes) {
        self.standing_refusals.withdraw(lanes, &mut self.engine);
        self.lending.recall(lanes, &mut self.engine);
    }

    /// Collects the samples of requests on lent slots. What was lent by another limit is called back.
    pub(super) fn collect(&mut self, lanes: &Lanes) {
        if self.lending.collect(lanes, &mut self.engine) {
            self.recall(lanes);
        }
    }

    /// Lends free slots, if all is quiet and no capture wants to see each request.
    #[inline]
    pub(super) fn lend(&mut self, lanes: &Lanes) {
        #[cfg(feature = "capture")]
        let may_lend = self.tape.is_none();
        #[cfg(not(feature = "capture"))]
        let may_lend = true;
        #[cfg(test)]
        let may_lend = may_lend && !self.never_lends;
        if self.standing_refusals.stands {
            // The turn that takes the lock next withdraws it.
            return;
        }
        self.lending.lend(lanes, &mut self.engine, may_lend);
        let rejected = self.rejected.take();
        if !self.lending.is_open() {
            self.standing_refusals.note_turn(lanes, &self.engine, rejected.filter(|_| may_lend));
        }
    }

    /// Has a request of the quiet path run on a slot that the engine knows of. An overload that it met and that can't wait
    /// for its time, since it has none, is learned.
    pub(super) fn take_over(
        &mut self,
        lanes: &Lanes,
        lent: &LentSlot,
        now: Timestamp,
        outcome: Option<Outcome>,
    ) -> SlotRef {
        self.lending.take_over(lanes, lent);
        let is_learned = !lent.is_timed() && outcome == Some(Outcome::Overload);
        let (start, in_flight) = if lent.is_timed() {
            (lent.start, lent.in_flight())
        } else {
            (now, u32::try_from(self.engine.running()).unwrap_or(u32::MAX))
        };
        let is_observed = lent.is_observed || is_learned;
        let slot = self.engine.take_over(self.lending.borrower(lent), start, lent.deadline(), in_flight, is_observed);
        if is_learned {
            self.engine.observe_overload(now, &slot, false);
        }
        self.slots.keep(slot)
    }

    /// Returns the waker of the next waiter whose wait ended, or of the next holder whose slot expired. There is none where
    /// that future has not been polled yet.
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        if let Some(key) = self.engine.take_notice() {
            return self.wakers.waiters.unregister(key.index);
        }
        let slot = self.engine.take_expired()?;
        self.wakers.holders.unregister(slot.number())
    }

    /// Returns some of these wakers. More of them may be left.
    pub(super) fn take_batch(&mut self) -> Vec<Waker> {
        const AT_ONCE: usize = 32;
        let mut batch = Vec::with_capacity(AT_ONCE);
        while batch.len() < AT_ONCE && self.engine.has_notices() {
            batch.extend(self.take_waker());
        }
        batch
    }

    /// Returns when there is something to do, if ever.
    #[inline]
    pub(in crate::runtime) fn next_wakeup(&self) -> Timestamp {
        self.engine.next_wakeup().unwrap_or(Timestamp::NEVER).min(self.abandoned.next_end)
    }

    /// Records the inputs of the engine from now on, unless they are recorded already. Returns what is there now.
    #[cfg(feature = "capture")]
    pub(in crate::runtime) fn record(&mut self, tape: Tape) -> Option<Checkpoint> {
        if self.tape.is_some() {
            return None;
        }
        self.tape = Some(Box::new(tape));
        Some(Checkpoint::of(&self.engine, &self.slots, 0))
    }

    /// Returns the present state.
    pub(in crate::runtime) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.engine.snapshot();
        snapshot.abandoned = self.abandoned.count() + self.kept;
        snapshot
    }

    /// Keeps the slot of a request that was given up for as long as its work may go on. A slot that counts for nothing is given
    /// back at once, and so is the slot of work that took longer than that.
    ///
    /// Returns what came along if it is not kept, to be dropped outside of the lock.
    pub(in crate::runtime) fn abandon(
        &mut self,
        time: &TimeSource,
        number: SlotNumber,
        (now, outcome): (Timestamp, Outcome),
        along: Option<Along>,
    ) -> Option<Along> {
        let (kind, start, is_counted) = self.note_abandoned(now, number, outcome)?;
        let ends = self.engine.abandoned_end(kind, start);
        self.next_row();
        if is_counted && ends > now {
            self.abandoned.add((kind, start), ends, (number, along));
            None
        } else {
            self.finish(time, number, None);
            along
        }
    }

    /// Gives the slots back of abandoned work that has ended.
    #[inline]
    pub(in crate::runtime) fn end_abandoned(&mut self, time: &TimeSource, now: Timestamp) {
        // A clock of the user's may have gone back. What is due by the time of the engine ends now: a driver asks when the next
        // of it is due, and would ask again at once.
        let now = now.max(self.engine.now());
        if self.abandoned.is_due(now) {
            self.end_some_abandoned(time, now);
        }
    }

    #[cold]
    fn end_some_abandoned(&mut self, time: &TimeSource, now: Timestamp) {
        let mut has_ticked = false;
        while let Some(number) = self.abandoned.take_ended(now, |kind, start| self.engine.abandoned_end(kind, start)) {
            // A slot whose own time is over at the same moment is taken back for that.
            if !std::mem::replace(&mut has_ticked, true) {
                self.tick(now);
                self.next_row();
            }
            self.finish(time, number, None);
            self.next_row();
        }
    }

    /// Ends the waits whose time is over, and agrees on when to look again.
    pub(in crate::runtime) fn look(&mut self, time: &TimeSource, now: Timestamp, seat: &DriverSeat) -> Look {
        let was_due = self.schedule.earliest(self.next_wakeup());
        self.end_abandoned(time, now);
        self.tick(now);
        let next = self.next_wakeup();
        self.schedule.looked(self.engine.now(), seat, was_due, next)
    }
}
