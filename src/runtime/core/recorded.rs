//! The verbs of the engine that a capture records: each does what the engine's own does and, while a capture runs, notes its input.
//!
//! Other verbs are not recorded: looks that change nothing a decision depends on, and verbs of shared rules, since a handle that has any is
//! not recorded.

use std::{sync::Arc, task::Poll, time::Duration};

#[cfg(feature = "capture")]
use super::tape::{Reload, Step};
use super::{slots::SlotNumber, state::State};
#[cfg(feature = "capture")]
use crate::engine::WorkerDescription;
use crate::{
    Outcome, Timestamp,
    clock::TimeSource,
    engine::{
        AbandonedKind, Arrival, Ask, Place, Refusal, Slot, Subject,
        plan::{Mode, Plan},
    },
    ticket::Ticket,
};

/// Settings as text, or the setting that there is no text for.
#[cfg(feature = "capture")]
pub(in crate::runtime) type SettingsText = Result<serde_json::Value, String>;
/// Nothing: there is no capture that would want them.
#[cfg(not(feature = "capture"))]
#[derive(Clone, Copy)]
pub(in crate::runtime) struct SettingsText;

/// Notes an input of the engine, while a capture runs.
macro_rules! note {
    ($state:ident, $step:expr) => {
        #[cfg(feature = "capture")]
        if let Some(tape) = &mut $state.tape {
            tape.note($step);
        }
    };
}

impl State {
    /// Begins the row of a turn, if a capture runs.
    #[inline]
    pub(super) fn open_row(&mut self) {
        #[cfg(feature = "capture")]
        if let Some(tape) = &mut self.tape {
            tape.open(self.engine.pending_notices());
        }
    }

    /// Completes the row of a turn, after its results are known.
    #[inline]
    pub(super) fn close_row(&mut self) {
        #[cfg(feature = "capture")]
        if let Some(tape) = &mut self.tape
            && !tape.close(&self.engine, &self.slots)
        {
            self.tape = None;
        }
    }

    /// Completes the row of a step, before another step of the same turn.
    #[inline]
    pub(super) fn next_row(&mut self) {
        self.close_row();
        self.open_row();
    }

    /// Lets a request arrive, which `waits` if it has to.
    pub(in crate::runtime) fn arrive(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        ticket: &Ticket<'_>,
        waits: bool,
    ) -> Arrival {
        let arrival = if waits { self.engine.arrive(now, ask) } else { self.engine.arrive_now(now, ask) };
        if waits && matches!(arrival, Arrival::Reject(_)) {
            self.rejected = Some(ask.partition);
        }
        note!(self, Step::arrive(waits, ticket, ask, (&arrival).into()));
        #[cfg(not(feature = "capture"))]
        let _ = ticket;
        arrival
    }

    /// Returns the answer to a waiter, if its wait ended.
    pub(in crate::runtime) fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let answer = self.engine.claim(now, place);
        if let Poll::Ready(_answer) = &answer {
            note!(self, Step::Claim { place: place.key().index, gets: _answer.into() });
        }
        answer
    }

    /// Cancels the wait of a waiter that leaves.
    pub(in crate::runtime) fn cancel(&mut self, now: Timestamp, place: &Place) {
        self.engine.cancel(now, place);
        note!(self, Step::Leave { place: place.key().index });
    }

    /// Takes the outcome of a request; its slot stays taken.
    pub(in crate::runtime) fn observe(&mut self, now: Timestamp, number: SlotNumber, outcome: Outcome) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        note!(self, Step::Observe { slot: slot.fingerprint(), outcome });
        self.engine.observe(now, slot, outcome);
        self.engine.go_on(now);
    }

    /// Notes that the answer to a request begins. Returns the deadline of the caller, if there is one and it has not passed by this
    /// time.
    pub(in crate::runtime) fn answer(
        &mut self,
        time: &TimeSource,
        number: SlotNumber,
        by: Timestamp,
    ) -> Option<Timestamp> {
        let slot = self.slots.get_mut(number)?;
        let deadline = Some(slot.deadline).filter(|&deadline| deadline < Timestamp::MET && by <= deadline)?;
        note!(self, Step::Answer { slot: slot.fingerprint() });
        self.engine.answer(time.now(), slot);
        Some(deadline)
    }

    /// Takes the outcome of a request that was given up; its slot stays taken. Returns the kind of its work, when that began, and
    /// whether its slot is one of the limit.
    pub(in crate::runtime) fn note_abandoned(
        &mut self,
        now: Timestamp,
        number: SlotNumber,
        outcome: Outcome,
    ) -> Option<(AbandonedKind, Timestamp, bool)> {
        let slot = self.slots.get_mut(number)?;
        note!(self, Step::Abandon { slot: slot.fingerprint(), was_observed: slot.is_observed(), outcome });
        let kind = self.engine.abandon(now, slot, outcome);
        Some((kind, slot.start, slot.is_counted()))
    }

    /// Takes an overload that showed after the work was observed.
    pub(in crate::runtime) fn observe_late_overload(&mut self, now: Timestamp, number: SlotNumber) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        note!(self, Step::Overload { slot: slot.fingerprint() });
        self.engine.observe_overload(now, slot, true);
    }

    /// Gives a slot back. Where the work was not observed yet, it is now: at this time, with this outcome.
    pub(in crate::runtime) fn finish(
        &mut self,
        time: &TimeSource,
        number: SlotNumber,
        sample: Option<(Timestamp, Outcome)>,
    ) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        note!(self, Step::Finish { slot: slot.fingerprint(), outcome: sample.map(|(_, outcome)| outcome) });
        let engine = &mut self.engine;
        if let Some((now, outcome)) = sample {
            engine.observe(now, slot, outcome);
            engine.finish(engine.now(), slot);
        } else {
            let now = if engine.is_saturated() { time.now() } else { engine.now() };
            engine.finish(now, slot);
        }
        self.slots.free(number);
    }

    /// Moves the time on.
    pub(in crate::runtime) fn tick(&mut self, now: Timestamp) {
        self.engine.tick(now);
        note!(self, Step::Tick);
    }

    /// Sets whether decisions bind from now on.
    pub(in crate::runtime) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        self.engine.set_mode(now, mode);
        note!(self, Step::Mode(mode));
    }

    /// Begins to drain: no request is admitted any more.
    pub(in crate::runtime) fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        self.engine.close(now, serves_waiting);
        note!(self, Step::Drain { serves_waiting });
    }

    /// Notes how many requests a worker can take and for how long, or removes a worker that stops.
    pub(in crate::runtime) fn report_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
        report: Option<(usize, Duration)>,
    ) -> bool {
        note!(self, Step::Worker(Box::new(WorkerDescription::new(subject, class, worker, report))));
        self.engine.report_worker(now, class, subject, worker, report)
    }

    /// Takes new settings. Returns the names of the partitions that came with them.
    pub(in crate::runtime) fn reload(
        &mut self,
        now: Timestamp,
        plan: Plan,
        settings_text: SettingsText,
    ) -> Vec<Arc<str>> {
        let added = self.engine.reload(now, plan);
        note!(self, Step::Reload(Box::new(Reload { settings_text, added: added.clone() })));
        #[cfg(not(feature = "capture"))]
        let _ = settings_text;
        added
    }
}
