//! The verbs of the engine that a capture writes down: each does what the engine's own does and, while a capture runs, notes
//! what the engine was told.
//!
//! A verb that is not here is not written down: looks that change nothing a decision depends on, and all about shared rules,
//! since a handle that has any is not recorded.

use std::{sync::Arc, task::Poll, time::Duration};

use super::state::State;
#[cfg(feature = "introspect")]
use super::tape::{Reload, Step, Worker};
use crate::{
    clock::TimeSource,
    engine::{
        Arrival, Ask, Place, Refusal, Slot, Subject,
        plan::{Mode, Plan},
    },
    outcome::Outcome,
    ticket::Ticket,
    time::Timestamp,
};

/// Settings in words, or what there are no words for.
#[cfg(feature = "introspect")]
pub(in crate::runtime) type Words = Result<serde_json::Value, String>;
/// Nothing: there is no capture that would want them.
#[cfg(not(feature = "introspect"))]
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Words;

impl State {
    /// Notes what the engine is told in this turn, while a capture runs.
    #[cfg(feature = "introspect")]
    #[inline]
    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(tape) = &mut self.tape {
            tape.note(step());
        }
    }

    /// How many waits have ended and were not told, where a capture wants to know.
    #[inline]
    pub(super) fn open_row(&self) -> usize {
        #[cfg(feature = "introspect")]
        if self.tape.is_some() {
            return self.engine.pending_notices();
        }
        0
    }

    /// The turn is over: what it brought about is known.
    #[inline]
    pub(super) fn close_row(&mut self, untold: usize) {
        #[cfg(feature = "introspect")]
        if let Some(tape) = &mut self.tape
            && !tape.close(&self.engine, untold)
        {
            self.tape = None;
        }
        #[cfg(not(feature = "introspect"))]
        let _ = (self, untold);
    }

    /// A request comes that waits if it has to.
    pub(in crate::runtime) fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>, ticket: &Ticket<'_>) -> Arrival {
        let arrival = self.engine.arrive(now, ask);
        self.note_arrival(true, ask, ticket, &arrival);
        arrival
    }

    /// A request comes that doesn't wait.
    pub(in crate::runtime) fn arrive_now(&mut self, now: Timestamp, ask: &Ask<'_>, ticket: &Ticket<'_>) -> Arrival {
        let arrival = self.engine.arrive_now(now, ask);
        self.note_arrival(false, ask, ticket, &arrival);
        arrival
    }

    #[inline]
    fn note_arrival(&mut self, waits: bool, ask: &Ask<'_>, ticket: &Ticket<'_>, arrival: &Arrival) {
        #[cfg(feature = "introspect")]
        self.note(|| Step::arrive(waits, ticket, ask, arrival.into()));
        #[cfg(not(feature = "introspect"))]
        let _ = (self, waits, ask, ticket, arrival);
    }

    /// The answer to a waiter, if its wait ended.
    pub(in crate::runtime) fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let answer = self.engine.claim(now, place);
        #[cfg(feature = "introspect")]
        if let Poll::Ready(answer) = &answer {
            self.note(|| Step::claim(place, answer));
        }
        answer
    }

    /// A waiter leaves.
    pub(in crate::runtime) fn cancel(&mut self, now: Timestamp, place: &Place) {
        self.engine.cancel(now, place);
        #[cfg(feature = "introspect")]
        self.note(|| Step::leave(place));
    }

    /// Work went this way; the slot stays taken.
    pub(in crate::runtime) fn observe(&mut self, now: Timestamp, slot: &mut Slot, outcome: Outcome) {
        #[cfg(feature = "introspect")]
        self.note(|| Step::Observe { slot: slot.fingerprint(), outcome });
        self.engine.observe(now, slot, outcome);
    }

    /// An overload showed after the work was observed.
    pub(in crate::runtime) fn observe_late_overload(&mut self, now: Timestamp, slot: &Slot) {
        #[cfg(feature = "introspect")]
        self.note(|| Step::Overload { slot: slot.fingerprint() });
        self.engine.observe_late_overload(now, slot);
    }

    /// A slot is given back. Where the work was not observed yet, it is now: at this time, with this outcome.
    pub(in crate::runtime) fn finish(
        &mut self,
        time: &TimeSource,
        slot: &mut Slot,
        told: Option<(Timestamp, Outcome)>,
    ) {
        #[cfg(feature = "introspect")]
        self.note(|| Step::Finish { slot: slot.fingerprint(), outcome: told.map(|(_, outcome)| outcome) });
        let engine = &mut self.engine;
        if let Some((now, outcome)) = told {
            engine.observe(now, slot, outcome);
            engine.finish(engine.now(), slot);
        } else {
            let now = if engine.is_saturated() { time.now() } else { engine.now() };
            engine.finish(now, slot);
        }
    }

    /// Time has passed.
    pub(in crate::runtime) fn tick(&mut self, now: Timestamp) {
        self.engine.tick(now);
        #[cfg(feature = "introspect")]
        self.note(|| Step::Tick);
    }

    /// Decisions bind, or don't, from now on.
    pub(in crate::runtime) fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        self.engine.set_mode(now, mode);
        #[cfg(feature = "introspect")]
        self.note(|| Step::Mode(mode));
    }

    /// No request is admitted any more.
    pub(in crate::runtime) fn close(&mut self, now: Timestamp, serves_waiting: bool) {
        self.engine.close(now, serves_waiting);
        #[cfg(feature = "introspect")]
        self.note(|| Step::Drain { serves_waiting });
    }

    /// A worker says how much it can take, and for how long.
    pub(in crate::runtime) fn report_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
        (slots, valid_for): (usize, Duration),
    ) -> bool {
        #[cfg(feature = "introspect")]
        self.note(|| Step::Worker(Worker::new(subject, class, worker, slots, valid_for)));
        self.engine.report_worker(now, class, subject, worker, slots, valid_for)
    }

    /// A worker stops.
    pub(in crate::runtime) fn remove_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
    ) {
        #[cfg(feature = "introspect")]
        self.note(|| Step::WorkerGone(Worker::new(subject, class, worker, 0, Duration::ZERO)));
        self.engine.remove_worker(now, class, subject, worker);
    }

    /// Other settings. Answers the names of the partitions that came with them.
    pub(in crate::runtime) fn reload(&mut self, now: Timestamp, plan: Plan, words: Words) -> Vec<Arc<str>> {
        let added = self.engine.reload(now, plan);
        #[cfg(feature = "introspect")]
        self.note(|| Step::Reload(Box::new(Reload { words, added: added.clone() })));
        #[cfg(not(feature = "introspect"))]
        let _ = words;
        added
    }
}
