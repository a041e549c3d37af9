//! Who runs next, and who waits where.

use super::{
    Arrival, Ask, Engine, Place, Refusal, Slot,
    fair_queue::FlowKey,
    journal::{Cause, Verdict},
    labels::LabelId,
    plan::{Discipline, Mode},
    rules::WhenFull,
    runs,
    slot::{BEYOND, COUNTED, OUTSIDE},
    tenure::{self, Holder},
    waiters::{Key, Stage, Waiter},
};
use crate::{rejection::Reason, time::Timestamp};

impl Engine {
    /// The token of a slot that was taken, lent for a time if that is what permits are.
    pub(super) fn lend(&mut self, now: Timestamp, class: u8, holder: Holder, in_flight: u32) -> Slot {
        let tenure = match self.time_to_live {
            Some(time) => self.tenures.lend(holder, self.series.of(holder.label), now.after(time)),
            None => tenure::NONE,
        };
        Slot::new(now, in_flight, holder, class, tenure, COUNTED)
    }

    /// Counts one more running and answers how many that are.
    pub(super) fn take_slot(&mut self, holder: &mut Holder) -> u32 {
        if holder.shadow != 0 {
            self.enter_shadow(*holder);
        }
        if self.shadow.is_on() {
            holder.shadow |= self.shadow.enter(self.line.places.count(self.limit) > 0);
        }
        let outside = usize::from(holder.shadow & OUTSIDE != 0);
        if outside == 0 {
            self.draw_on_slots(*holder);
        }
        self.change(holder.label, |label| {
            label.running += 1;
            label.outside += outside;
        });
        if outside > 0 {
            return u32::try_from(self.running + self.outside).unwrap_or(u32::MAX);
        }
        self.running += 1;
        let it = &mut self.partitions[holder.partition as usize];
        it.running += 1;
        #[cfg(test)]
        assert!(
            self.mode != Mode::Enforce || self.running <= self.limit || it.running <= it.overcommit,
            "more run than the limit allows"
        );
        self.running_by_level[usize::from(holder.level)] += 1;
        u32::try_from(self.running).unwrap_or(u32::MAX)
    }

    pub(super) fn vacate(&mut self, holder: Holder) {
        if holder.shadow & OUTSIDE == 0 {
            let it = &mut self.partitions[holder.partition as usize];
            self.running -= 1;
            it.running -= 1;
            it.stall.freed();
            self.drain.stall.freed();
            self.running_by_level[usize::from(holder.level)] -= 1;
        }
        if holder.shadow != 0 {
            self.leave_shadow(holder);
        }
        let outside = usize::from(holder.shadow & OUTSIDE != 0);
        self.change(holder.label, |label| {
            label.running -= 1;
            label.outside -= outside;
            label.stall.freed();
        });
        if !self.rules.is_empty() {
            self.rules.release(self.labels.get(holder.label), holder.shadow & BEYOND != 0);
        }
    }

    /// For a request that can't run at once: a place in line, a place at the gate, or a refusal.
    #[cold]
    pub(super) fn queue_or_refuse(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Arrival {
        if self.mode == Mode::Observe {
            return Arrival::Admit(self.run_uncounted(now, ask, label));
        }
        let observed = self.observe_arrival(now, label);
        let joined = self.place_for(now, ask, label).and_then(|found| self.join(now, ask, label, found));
        let arrival = match joined {
            Ok(key) => {
                self.note_queued(now, ask, label);
                observed.into_iter().for_each(|full| self.note_arrival(now, key, full));
                Arrival::Wait(Place(key))
            }
            Err(reason) => Arrival::Reject(self.turn_away(now, ask, label, reason)),
        };
        if matches!(arrival, Arrival::Wait(_)) && !self.rules.is_empty() {
            // Its turn may have come already, and only a rule be in the way: the driver has to know when that ends.
            self.settle(now);
        }
        #[cfg(test)]
        self.check();
        arrival
    }

    fn turn_away(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, reason: Reason) -> Refusal {
        self.note_refused(now, ask, label, reason);
        if let Some(full) = self.bar(now, label).or_else(|| self.full_rule(now, label)).filter(|it| it.reason == reason)
        {
            return self.refuse_by(now, ask.partition, label, full);
        }
        match reason {
            Reason::Deadline => self.refuse_too_late(now, ask, label),
            // It ran into a bound of its own: nothing needs to be kept for it.
            Reason::LabelCap | Reason::LabelQueueFull | Reason::RunCap => {
                self.refuse(now, ask.partition, label, reason)
            }
            _ => {
                self.reserve(now, ask, label);
                self.refuse(now, ask.partition, label, reason)
            }
        }
    }

    /// Where a request may wait, and who has to make room for it there.
    pub(super) fn place_for(
        &self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
    ) -> Result<(Stage, Option<Key>), Reason> {
        if ask.deadline <= now {
            return Err(Reason::Deadline);
        }
        if let Some(full) = self.bar(now, label) {
            return Err(full.reason);
        }
        if let Some(subject) = ask.subject.as_ref().filter(|subject| !subject.label.is_empty()) {
            let plan = self.labels.plan();
            if self.labels.get(label).waiting >= plan.max_waiting {
                return Err(Reason::LabelQueueFull);
            }
            if subject.run.is_some_and(|run| self.runs.waiting(subject.namespace, run) >= plan.max_waiting_per_run) {
                return Err(Reason::RunCap);
            }
        }
        let found = if self.line_has_room(ask.partition) {
            (Stage::Line, None)
        } else if let Some(victim) = self.victim_for(ask, label) {
            (Stage::Line, Some(victim))
        } else if self.at_gate < self.gate.places.count(self.limit) {
            (Stage::Gate, None)
        } else {
            let rule = self.full_rule(now, label).map(|full| full.reason);
            return Err(rule.unwrap_or_else(|| self.reason_for_refusing(ask.partition, label)));
        };
        if self.comes_too_late(now, ask, label) { Err(Reason::Deadline) } else { Ok(found) }
    }

    fn victim_for(&self, ask: &Ask<'_>, label: LabelId) -> Option<Key> {
        let key = FlowKey { label, partition: ask.partition, level: ask.criticality.level() };
        self.waiting.victim(key, self.labels.get(label).rule.weight)
    }

    /// Whether one more of this partition may wait in line. What waits there is bounded by the queue, and together with
    /// what runs by the gate: both matter, for a partition at its hard cap waits while the server runs less than its
    /// limit, and a limit that shrank runs more. Beyond its share a partition leaves alone what is held back for others.
    pub(super) fn line_has_room(&self, partition: u16) -> bool {
        let places = self.line.places.count(self.limit);
        if self.in_line >= places {
            return false;
        }
        let reserved = self.places_reserved_from(partition, places);
        let within_gate = self.queue.is_none_or(|queue| {
            let gate = self.limit.saturating_add(queue);
            self.running.saturating_add(self.in_line) < gate
        });
        self.in_line.saturating_add(reserved) < places && within_gate
    }

    fn join(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        (mut stage, victim): (Stage, Option<Key>),
    ) -> Result<Key, Reason> {
        if self.in_line == 0 {
            // As long as nobody waits, nobody takes note of the time.
            self.last_empty = now;
        }
        self.sequence += 1;
        let run = ask.subject.and_then(|subject| Some((subject.namespace, subject.run?)));
        let forgotten = self.journal.forgotten_until();
        let run = run.map_or(runs::NONE, |(namespace, run)| self.runs.join(namespace, run, forgotten));
        let waiter = Waiter::new(ask, label, run, self.sequence, now);
        let Some(key) = self.waiting.insert(waiter) else {
            self.runs.leave(run, self.journal.sequence());
            return Err(Reason::QueueFull);
        };
        if let Some(victim) = victim {
            self.end_wait(now, victim, Reason::PushedOut);
            // The place is for whoever of the flow came first, which may be somebody at the gate.
            if let Some(first) = self.waiting.first_of_flow_at_gate(self.waiting.get(key).flow_key()) {
                self.let_in(now, first);
                stage = Stage::Gate;
            }
        }
        self.change(label, |label| label.waiting += 1);
        self.enlist(now, key, stage);
        Ok(key)
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now.
    fn enlist(&mut self, now: Timestamp, key: Key, stage: Stage) {
        let &Waiter { label, partition, .. } = self.waiting.get(key);
        if stage == Stage::Line {
            self.draw_on_places(partition);
        }
        self.waiting.enlist(key, stage, self.labels.standing(label));
        *(if stage == Stage::Line { &mut self.in_line } else { &mut self.at_gate }) += 1;
        self.begin_wait(now, key, stage);
    }

    /// Starts the wait of one who stands in line or at the gate now.
    pub(super) fn begin_wait(&mut self, now: Timestamp, key: Key, stage: Stage) {
        let label = self.waiting.get(key).label;
        let wait = if stage == Stage::Line { self.wait_in_line(now) } else { self.gate.wait };
        // The bound of its label is one for gate and line together.
        let own = self.labels.plan().wait.filter(|_| self.labels.is_explicit(label));
        let waiter = self.waiting.get_mut(key);
        let ends = wait.map(|wait| now.after(wait)).into_iter().chain(own.map(|wait| waiter.since.after(wait)));
        waiter.deadline = ends.min().unwrap_or(Timestamp::NEVER).min(waiter.caller_deadline);
        self.deadlines.set(key.index, waiter.deadline);
    }

    /// Takes a waiter out of the line or the gate.
    pub(super) fn leave(&mut self, key: Key) {
        let waiter = self.waiting.get(key);
        let (stage, label, run, beyond) = (waiter.stage, waiter.label, waiter.run, waiter.shadow != 0);
        match stage {
            Stage::Line => self.in_line -= 1,
            Stage::Gate => self.at_gate -= 1,
            Stage::Granted { .. } | Stage::Refused(_) => return,
        }
        if let Some(start) = self.waiting.leave(key) {
            self.labels.get_mut(label).start = start;
        }
        self.runs.leave(run, self.journal.sequence());
        self.change(label, |label| {
            label.waiting -= 1;
            label.beyond -= usize::from(beyond);
        });
        self.forget_parked(label);
        self.deadlines.remove(key.index);
        let waiter = self.waiting.get_mut(key);
        (waiter.deadline, waiter.run) = (Timestamp::NEVER, runs::NONE);
    }

    /// Moves a waiter from the gate into the line.
    fn let_in(&mut self, now: Timestamp, key: Key) {
        let label = self.waiting.get(key).label;
        self.at_gate -= 1;
        if let Some(start) = self.waiting.leave(key) {
            self.labels.get_mut(label).start = start;
        }
        self.enlist(now, key, Stage::Line);
    }

    /// Restores what holds after every verb: nobody waits who may run, and nobody is at the gate who may wait inside.
    pub(super) fn settle(&mut self, now: Timestamp) {
        if self.reserved.next_decay() <= now {
            self.decay(now);
        }
        if self.in_line == 0 {
            self.last_empty = now;
            if let Discipline::BurstCredit { longest, .. } = self.discipline {
                self.credit.empty(now, longest);
            }
        }
        if self.in_line + self.at_gate > 0 {
            self.unpark_due(now);
            self.waiting.newest_first = self.is_backed_up(now);
            loop {
                match self.next_to_run() {
                    Some(key) => self.serve(now, key),
                    None if (self.running < self.limit || self.overcommits) && self.unpark_freed(now) => {}
                    // Where those in line may not run, somebody who comes in from the gate may.
                    None => match self.next_to_enter() {
                        Some(key) => self.let_in(now, key),
                        None => break,
                    },
                }
            }
        }
        #[cfg(test)]
        self.check();
    }

    /// Ends the wait of whoever's turn it is, one way or the other; or lets its label wait until a rule has room.
    fn serve(&mut self, now: Timestamp, key: Key) {
        let label = self.waiting.get(key).label;
        if self.waiting.get(key).deadline <= now {
            self.expire(now, key);
        } else if self.is_hopeless(now, key) {
            self.end_wait(now, key, Reason::Deadline);
        } else {
            match self.full_rule(now, label).filter(|_| self.mode == Mode::Enforce) {
                Some(full) if full.when_full == WhenFull::Queue => self.park(now, label, full),
                Some(full) => self.end_wait_by(now, key, full),
                None => self.grant(now, key),
            }
        }
    }

    fn grant(&mut self, now: Timestamp, key: Key) {
        let waiter = self.waiting.get(key);
        let mut holder = waiter.holder();
        let party = waiter.party();
        if let Discipline::BurstCredit { longest, standing } = self.discipline {
            self.credit.served(now, now.since(waiter.since), longest, standing);
        }
        let until = Some(waiter.deadline);
        holder.shadow = self.observe_turn(now, key);
        self.waiting.serve(key);
        self.leave(key);
        let in_flight = self.take_slot(&mut holder);
        let label = self.labels.get_mut(holder.label);
        label.admitted += u64::from(holder.label != LabelId::DEFAULT);
        label.stall.started(now);
        self.charge_turn(now, holder);
        if self.has_to_ask(holder.label).is_none() {
            self.note(now, Verdict::GRANTED, party, Cause::NOTHING);
        }
        if holder.shadow & OUTSIDE == 0 {
            self.note_started(now, holder.partition);
        }
        let waiter = self.waiting.get_mut(key);
        (waiter.stage, waiter.shadow) = (Stage::Granted { in_flight, until }, holder.shadow);
        self.notices.push_back(key);
    }

    /// The waiter that takes the next free slot: of the partitions below their share the one that came first, else
    /// whoever's turn it is among all that may run.
    fn next_to_run(&self) -> Option<Key> {
        if self.mode != Mode::Enforce {
            return self.waiting.anyone();
        }
        if self.running >= self.limit && !self.overcommits {
            return None;
        }
        let candidates = || {
            let partitions = (0..=u16::MAX).take(self.partitions.len());
            partitions
                .filter(|&partition| self.partition_is_served(partition))
                .filter_map(|partition| Some((partition, self.waiting.next(partition)?)))
        };
        let owed = candidates().filter(|&(partition, _)| {
            let it = &self.partitions[partition as usize];
            it.running < it.owed
        });
        let owed = owed.min_by_key(|&(_, (key, _))| self.waiting.get(key).sequence);
        let (_, (key, _)) = owed.or_else(|| candidates().min_by_key(|&(_, (_, rank))| rank))?;
        Some(key)
    }

    /// The waiter at the gate that came first among those who may enter.
    fn next_to_enter(&self) -> Option<Key> {
        if self.at_gate == 0 {
            return None;
        }
        (0..=u16::MAX)
            .take(self.partitions.len())
            .filter_map(|partition| {
                let key = self.waiting.first_at_gate(partition)?;
                self.line_has_room(partition).then_some(key)
            })
            .min_by_key(|&key| self.waiting.get(key).sequence)
    }
}
