//! Where a request waits that can't run at once.

use crate::{
    engine::{
        Engine,
        ids::{FlowKey, Key, LabelId},
        plan::Mode,
        telemetry::Event,
        tokens::{Arrival, Ask, Place, Refusal, Stage},
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Gives a request that can't run at once a place in line, a place at the gate, or a rejection.
    #[cold]
    pub(super) fn wait_or_reject(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Arrival {
        if self.lifecycle.mode() == Mode::Observe {
            return Arrival::Admit(self.run_uncounted(now, ask, label));
        }
        let observed = self.observe_arrival(now, label);
        let joined = self.place_for(now, ask, label).and_then(|found| self.join(now, ask, label, found));
        let arrival = match joined {
            Ok(key) => {
                let blocker = self.if_noted(|engine| engine.obstacle(now, ask.partition, label));
                self.record(now, self.request_of(now, ask, label), Event::Queued(blocker));
                observed.into_iter().for_each(|full| self.mark_beyond(now, key, full));
                Arrival::Wait(Place::new(key))
            }
            Err(reason) => Arrival::Reject(self.reject_arrival(now, ask, label, reason)),
        };
        if matches!(arrival, Arrival::Wait(_)) && self.quotas.has_rules() {
            // The waiter's turn may have come already, with only a rule in the way: the driver has to know when that
            // ends.
            self.dispatch(now);
        }
        #[cfg(test)]
        self.check();
        arrival
    }

    fn reject_arrival(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, reason: Reason) -> Refusal {
        let request = self.request_of(now, ask, label);
        self.record_rejected(now, request, reason, false);
        let full = self.hard_block(now, label).or_else(|| self.exhausted_rule(now, label));
        if let Some(full) = full.filter(|it| it.reason == reason) {
            return self.refusal_by_rule(now, ask.partition, label, full);
        }
        match reason {
            Reason::Deadline => self.refusal_too_late(now, ask, label),
            // The request ran into a bound of its own: nothing needs to be held back for it.
            Reason::LabelCap | Reason::LabelQueueFull | Reason::RunCap => {
                self.refusal(now, ask.partition, label, reason)
            }
            _ => {
                self.reserve(now, ask, label);
                self.refusal(now, ask.partition, label, reason)
            }
        }
    }

    /// Returns where a request may wait, and which waiter has to make room for it there.
    pub(super) fn place_for(
        &self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
    ) -> Result<(Stage, Option<Key>), Reason> {
        if ask.deadline <= now {
            return Err(Reason::Deadline);
        }
        if let Some(full) = self.hard_block(now, label) {
            return Err(full.reason);
        }
        if let Some(subject) = ask.subject.as_ref().filter(|subject| !subject.label.is_empty()) {
            let plan = self.quotas.label_plan();
            if self.quotas.label(label).waiting() >= plan.max_waiting {
                return Err(Reason::LabelQueueFull);
            }
            if subject.run.is_some_and(|run| self.queue.of_job(subject.namespace, run) >= plan.max_waiting_per_run) {
                return Err(Reason::RunCap);
            }
        }
        let found = if self.line_has_room(ask.partition) {
            (Stage::Line, None)
        } else if let Some(victim) = self.victim_for(ask, label) {
            (Stage::Line, Some(victim))
        } else if self.queue.has_room_at_gate(self.capacity.limit()) {
            (Stage::Gate, None)
        } else {
            let rule = self.exhausted_rule(now, label).map(|full| full.reason);
            return Err(rule.unwrap_or_else(|| self.reason_for_rejecting(ask.partition, label)));
        };
        if self.will_miss_deadline(now, ask, label) { Err(Reason::Deadline) } else { Ok(found) }
    }

    /// Returns the waiter that would have to make room for a request in a full line.
    pub(in crate::engine) fn victim_for(&self, ask: &Ask<'_>, label: LabelId) -> Option<Key> {
        // A line that has no places any more, since a reload, empties: slots may be held back for labels and levels
        // then, and a waiter would take such a slot.
        if self.queue.places(self.capacity.limit()) == 0 {
            return None;
        }
        let key = FlowKey { label, partition: ask.partition, level: ask.criticality.level() };
        self.queue.victim(key, self.quotas.label(label).weight())
    }

    /// Whether a further request of this partition may wait in line. Beyond its share, a partition leaves the places
    /// alone that are held back for others.
    pub(in crate::engine) fn line_has_room(&self, partition: u16) -> bool {
        let (limit, running) = (self.capacity.limit(), self.capacity.running());
        let used = self.queue.in_line_of(partition);
        let reserved = self.capacity.places_reserved_from(partition, used, self.queue.places(limit));
        self.queue.has_room(limit, running, reserved)
    }

    fn join(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        (mut stage, victim): (Stage, Option<Key>),
    ) -> Result<Key, Reason> {
        let range = self.telemetry.journal_range();
        let key = self.queue.join(now, ask, label, range).ok_or(Reason::QueueFull)?;
        if let Some(victim) = victim {
            self.reject_waiter(now, victim, Reason::PushedOut);
            // The place is for the waiter of the flow that came first, which may be at the gate.
            if let Some(first) = self.queue.first_of_flow_at_gate(self.queue.get(key).flow_key()) {
                self.enter_line(now, first);
                stage = Stage::Gate;
            }
        }
        let throttle = self.quotas.waits(label);
        self.throttle(label, throttle);
        self.stand(now, key, stage);
        Ok(key)
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now.
    fn stand(&mut self, now: Timestamp, key: Key, stage: Stage) {
        let waiter = self.queue.get(key);
        let (label, partition) = (waiter.label, waiter.partition);
        if stage == Stage::Line {
            let (used, places) = (self.queue.in_line_of(partition), self.queue.places(self.capacity.limit()));
            self.capacity.draw_on_places(partition, used, places, places.saturating_sub(self.queue.in_line()));
        }
        self.queue.stand(now, key, stage, self.quotas.standing(label), self.quotas.longest_wait(label));
    }

    /// Takes a waiter out of the line or the gate, unless its wait ended before.
    pub(super) fn leave(&mut self, key: Key) {
        if let Some(left) = self.queue.leave(key, self.telemetry.newest_entry()) {
            let throttle = self.quotas.left(left.label, left.is_beyond, left.start);
            self.throttle(left.label, throttle);
        }
    }

    /// Moves a waiter from the gate into the line.
    pub(super) fn enter_line(&mut self, now: Timestamp, key: Key) {
        let label = self.queue.get(key).label;
        if let Some(start) = self.queue.leave_gate(key) {
            self.quotas.goes_on_at(label, start);
        }
        self.stand(now, key, Stage::Line);
    }
}
