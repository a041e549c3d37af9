//! How the model decides about arrivals, by looking at every request.

use super::{
    super::super::plan::{Discipline, Mode},
    model::{Model, Person, Used},
    setup::{Answer, At, Hints, Mistake, Request, SECOND},
};
use crate::Reason;

/// Where a request may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    at: At,
    victim: Option<usize>,
    in_room: bool,
}

impl Model {
    /// Lets a request arrive.
    pub(super) fn arrive(&mut self, ask: &Request, hints: &Hints) -> Answer {
        if self.mode == Mode::Off && (!self.closed || self.mistake == Mistake::ReopensADrain) {
            return Answer::Admitted;
        }
        let label = self.intern(ask.name, hints.forgotten);
        if self.closed {
            return Answer::Rejected(Reason::Draining);
        }
        if self.runs_at_once(ask, label) {
            return Answer::Admitted;
        }
        match self.place_for(ask, label, hints) {
            // Beyond the limit it runs uncounted.
            Ok(_) if self.mode == Mode::Observe => Answer::Admitted,
            Ok(spot) => {
                self.join(ask, label, spot, hints);
                Answer::Waits
            }
            Err(reason) => {
                let own = matches!(reason, Reason::LabelCap | Reason::LabelQueueFull | Reason::RunCap);
                if !own && reason != Reason::Deadline {
                    self.hold_back(ask, label);
                }
                if self.mode == Mode::Observe { Answer::Admitted } else { Answer::Rejected(reason) }
            }
        }
    }

    /// Lets a request arrive that doesn't wait.
    pub(super) fn arrive_without_waiting(&mut self, ask: &Request, hints: &Hints) -> Answer {
        if self.mode != Mode::Enforce {
            return self.arrive(ask, hints);
        }
        let label = self.intern(ask.name, hints.forgotten);
        if self.closed {
            return Answer::Rejected(Reason::Draining);
        }
        self.settle();
        if ask.deadline_in == Some(0) {
            return Answer::Rejected(Reason::Deadline);
        }
        if self.runs_at_once(ask, label) {
            return Answer::Admitted;
        }
        match self.why_full(ask.partition, label) {
            Reason::LabelCap => Answer::Rejected(Reason::LabelCap),
            reason => {
                self.hold_slot_back(ask, label, false);
                Answer::Rejected(if reason == Reason::PartitionCap { reason } else { Reason::Limit })
            }
        }
    }

    fn runs_at_once(&mut self, ask: &Request, label: usize) -> bool {
        // Reservations that are too old are dropped first.
        self.settle();
        if self.mode == Mode::Enforce && ask.deadline_in == Some(0) {
            return false;
        }
        if !self.may_run(ask, label) {
            return false;
        }
        self.ids += 1;
        let ends = self.end_of_tenure();
        let Request { partition, level, .. } = *ask;
        self.take_held(partition, label, level);
        self.used.push(Used { id: self.ids, partition, label, level, ends });
        if label > 0 {
            self.labels[label].start = self.served[partition][level] + self.turn_of(label);
        }
        true
    }

    pub(super) fn end_of_tenure(&self) -> u64 {
        self.setup.time_to_live.map_or(u64::MAX, |seconds| self.now + seconds * SECOND)
    }

    fn place_for(&self, ask: &Request, label: usize, hints: &Hints) -> Result<Spot, Reason> {
        if ask.deadline_in == Some(0) {
            return Err(Reason::Deadline);
        }
        let bounds = &self.setup.labels;
        let waiting = |who: &dyn Fn(&Person) -> bool| self.people.iter().filter(|it| it.waits() && who(it)).count();
        if label > 0 {
            let is_capped = self.rule(label).cap.is_some_and(|cap| self.running_of(label) >= cap);
            if bounds.caps_reject() && is_capped && self.mistake != Mistake::IgnoresCapsThatReject {
                return Err(Reason::LabelCap);
            }
            let of_label = waiting(&|person| person.label == label);
            if of_label >= bounds.max_waiting && self.mistake != Mistake::IgnoresLabelBound {
                return Err(Reason::LabelQueueFull);
            }
            let of_run = ask.run_key().map_or(0, |run| waiting(&|person| person.run == Some(run)));
            if of_run >= bounds.max_waiting_per_run && self.mistake != Mistake::IgnoresRunBound {
                return Err(Reason::RunCap);
            }
        }
        let found = if self.room_in_line() {
            Spot { at: At::Line, victim: None, in_room: false }
        } else if self.setup.line_places() > 0
            && let Some(victim) = self.victim(ask, label, hints.pushed_out)
        {
            Spot { at: At::Line, victim: Some(victim), in_room: false }
        } else if self.count(At::Gate) < self.setup.gate_places() {
            Spot { at: At::Gate, victim: None, in_room: false }
        } else if self.has_claim(ask.partition, label, hints.pays) {
            Spot { at: At::Line, victim: None, in_room: true }
        } else {
            return Err(self.why_full(ask.partition, label));
        };
        if hints.late { Err(Reason::Deadline) } else { Ok(found) }
    }

    fn join(&mut self, ask: &Request, label: usize, spot: Spot, hints: &Hints) {
        let Spot { mut at, victim, mut in_room } = spot;
        let key = (label, ask.partition, ask.level);
        if self.count(At::Line) == 0 {
            self.last_empty = self.now;
        }
        if let Some(victim) = victim {
            let Person { partition, label, .. } = self.people[victim];
            let own = Some(self.why_full(partition, label));
            let own = own.filter(|reason| matches!(reason, Reason::LabelCap | Reason::PartitionCap));
            self.refuse(victim, own.unwrap_or(Reason::PushedOut));
        }
        if victim.is_some() || in_room {
            let first = self.people.iter().position(|it| it.at == At::Gate && Self::key_of(it) == key);
            if let Some(first) = first.filter(|_| self.mistake != Mistake::OvertakesItsOwnGate) {
                self.let_in(first);
                (at, in_room) = (At::Gate, false);
            }
        }
        self.begin_unless_there(key);
        self.ids += 1;
        let deadline_at = ask.deadline_in.map_or(u64::MAX, |deadline_in| self.now + deadline_in);
        self.people.push(Person {
            id: self.ids,
            entry: hints.entry,
            partition: ask.partition,
            label,
            level: ask.level,
            run: ask.run_key(),
            since: self.now,
            deadline_at,
            wait_ends: if in_room { self.end_in_room(deadline_at) } else { self.end_of_wait(at, self.now) }
                .min(self.own_end(self.now, label))
                .min(deadline_at),
            at,
        });
    }

    /// Returns when the wait of a request that came then ends because of its label: one bound for gate and line
    /// together, of the settings that hold when the request joins either.
    pub(super) fn own_end(&self, since: u64, label: usize) -> u64 {
        let is_bound = label > 0 && self.mistake != Mistake::IgnoresLabelWait;
        self.setup.labels.wait.filter(|_| is_bound).map_or(u64::MAX, |wait| since + wait * SECOND)
    }

    /// Returns when a wait that begins now ends, of a request that came then: the bound of the line holds for gate and line
    /// together.
    pub(super) fn end_of_wait(&self, at: At, since: u64) -> u64 {
        let together = self.setup.line_wait.map_or(u64::MAX, |seconds| since + seconds * SECOND);
        let nanos = |it: std::time::Duration| u64::try_from(it.as_nanos()).unwrap();
        match self.setup.discipline {
            _ if at == At::Gate => together.min(self.now + self.setup.gate_wait * SECOND),
            Discipline::AdaptiveLifo { interval, short_wait } => {
                let backed_up = self.now - self.last_empty > nanos(interval);
                let bound = nanos(if backed_up { short_wait } else { interval });
                together.min(self.now + bound)
            }
            Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => together,
        }
    }
}
