//! Which waiter runs next.

use crate::{
    Engine, Timestamp,
    ids::Key,
    telemetry::Decided,
    tokens::{Claim, Stage},
    verbs::decide::TurnDecision,
};

impl Engine {
    /// Restores what holds after every verb: no waiter may run, and none at the gate may wait in line.
    pub(crate) fn dispatch(&mut self, now: Timestamp) {
        if self.capacity.next_decay() <= now {
            self.capacity.decay(now);
        }
        if self.queue.pass(now) {
            while let Some(label) = self.quotas.take_due(now) {
                self.unthrottle(label);
            }
            loop {
                if let Some((key, passes_over)) = self.next_to_run() {
                    self.take_turn(now, key, passes_over);
                } else if !self.capacity.slots().is_closed_to_all
                    && let Some(label) = self.quotas.take_freed(now)
                {
                    // The next label that waits at a rule has its turns, since the rule has room now.
                    self.unthrottle(label);
                } else if self.queue.lengths().at_gate > 0
                    && self.room().in_line
                    && let Some(key) = self.queue.first_at_gate(None)
                {
                    // Where no waiter in line may run, the waiter that came to the gate first may, if there is room in line.
                    self.enter_line(now, key);
                } else {
                    break;
                }
            }
        }
        #[cfg(test)]
        self.check();
    }

    /// Does what was decided about the waiter whose turn it is. Written within the loop, it took each turn twenty instructions more.
    fn take_turn(&mut self, now: Timestamp, key: Key, passes_over: bool) {
        match self.decide_turn(now, key) {
            TurnDecision::Run => self.grant(now, key, passes_over),
            TurnDecision::AwaitRoom(full) => self.await_room(now, self.queue.get(key).label, &full),
            TurnDecision::Reject(obstacle) => self.end_wait(now, key, &obstacle),
        }
    }

    fn grant(&mut self, now: Timestamp, key: Key, passes_over: bool) {
        let waiter = self.queue.get(key);
        let mut holder = waiter.holder();
        holder.marks = self.observe_turn(now, key);
        self.queue.note_turn(now, key, passes_over);
        self.leave(key, true);
        if waiter.claim == Claim::Share {
            let hold = self.estimates.hold().reservation_time();
            self.capacity.waited(now, waiter.partition, now.since(waiter.since), hold);
        }
        let in_flight = self.take_slots(&mut holder, 1, Some(now));
        self.quotas.charge(now, &holder, None);
        let asks = self.needs_remote(holder.label).is_some();
        self.record(now, waiter.request(), Decided::Granted { asks });
        let until = Some(waiter.deadline);
        self.queue.answer(key, Stage::Granted { in_flight, until }, holder.marks);
        self.notices.waiters.push_back(key);
    }

    /// Returns the waiter that takes the next free slot, and whether a waiter came earlier whose partition is owed it too.
    fn next_to_run(&self) -> Option<(Key, bool)> {
        if !self.lifecycle.enforces() {
            return self.queue.anyone().map(|key| (key, false));
        }
        let slots = self.capacity.slots();
        if slots.is_closed_to_all || slots.is_spaced_out {
            return None;
        }
        self.queue.next(
            |partition| self.is_served(partition),
            |partition| self.capacity.partition(partition).is_owed(),
            |one, other| self.capacity.partition(one).compare_use(self.capacity.partition(other)),
        )
    }
}
