//! The naive model: all requests in one list in order of arrival, all slots in another one, all labels in a third.

use super::{
    super::super::plan::{Discipline, Mode},
    labels::Label,
    queue::Flow,
    reserved::AllReserved,
    setup::{At, Mistake, Setup},
};
use crate::Reason;

#[derive(Debug)]
pub(super) struct Person {
    pub(super) id: u64,
    /// Number that decides which wait ends first among those that end at the same time.
    pub(super) entry: u32,
    pub(super) partition: usize,
    pub(super) label: usize,
    pub(super) level: usize,
    /// Its namespace and its run.
    pub(super) run: Option<(usize, usize)>,
    pub(super) deadline_at: u64,
    /// Time when the request came.
    pub(super) since: u64,
    pub(super) wait_ends: u64,
    pub(super) at: At,
}

impl Person {
    pub(super) const fn waits(&self) -> bool {
        matches!(self.at, At::Gate | At::Line)
    }
}

/// A slot that is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) id: u64,
    pub(super) partition: usize,
    pub(super) label: usize,
    pub(super) level: usize,
    /// Time when the slot is taken back.
    pub(super) ends: u64,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) setup: Setup,
    pub(super) mistake: Mistake,
    pub(super) limit: usize,
    pub(super) mode: Mode,
    /// Whether the handle drains.
    pub(super) closed: bool,
    /// Partitions that a reload took away.
    pub(super) retired: Vec<bool>,
    pub(super) now: u64,
    pub(super) used: Vec<Used>,
    /// Reservations for requests that were refused below their share.
    pub(super) held: AllReserved,
    /// Time that a request holds its slot, and time that work takes, both of which the engine takes from its
    /// measurements.
    pub(super) hold: u64,
    pub(super) likely: Option<u64>,
    /// Requests in order of arrival.
    pub(super) people: Vec<Person>,
    pub(super) ids: u64,
    /// Time when the line was empty last.
    pub(super) last_empty: u64,
    pub(super) newest_first: bool,
    pub(super) flows: Vec<Flow>,
    pub(super) stamp: u64,
    /// Whether the last turn passed over a waiter that came earlier.
    pub(super) passed_one_over: bool,
    /// By partition and level: the start tag that was served last, and how often the level was passed over.
    pub(super) served: Vec<[u64; 4]>,
    pub(super) passed_over: Vec<[u32; 4]>,
    /// Labels: first the entry for requests without a label, second the entry for labels that found no room.
    pub(super) labels: Vec<Label>,
    pub(super) verbs: u64,
    pub(super) forgotten: u64,
    pub(super) overflowed: u64,
    pub(super) expired_slots: u64,
}

impl Model {
    pub(super) fn new(setup: &Setup, mistake: Mistake) -> Self {
        let partitions = setup.parts.len();
        Self {
            setup: setup.clone(),
            mistake,
            limit: setup.limit,
            mode: Mode::Enforce,
            closed: false,
            retired: vec![false; partitions],
            now: 0,
            used: Vec::new(),
            held: AllReserved::default(),
            hold: 0,
            likely: None,
            people: Vec::new(),
            ids: 0,
            last_empty: 0,
            newest_first: false,
            flows: Vec::new(),
            stamp: 0,
            passed_one_over: false,
            served: vec![[0; 4]; partitions],
            passed_over: vec![[0; 4]; partitions],
            labels: vec![Label::default(), Label::default()],
            verbs: 0,
            forgotten: 0,
            overflowed: 0,
            expired_slots: 0,
        }
    }

    pub(super) fn count(&self, at: At) -> usize {
        self.people.iter().filter(|person| person.at == at).count()
    }

    pub(super) fn refuse(&mut self, index: usize, reason: Reason) {
        self.people[index].at = At::Refused(reason);
        self.end_unless_there(Self::key_of(&self.people[index]));
    }

    /// Ends the waits that are over, or one of them.
    pub(super) fn expire(&mut self, only: Option<u64>, is_its_turn: bool) {
        loop {
            let over = (0..self.people.len()).filter(|&index| {
                let person = &self.people[index];
                person.waits() && person.wait_ends <= self.now && only.is_none_or(|id| id == person.id)
            });
            let first = over.min_by_key(|&index| (self.people[index].wait_ends, self.people[index].entry));
            let Some(index) = first else { return };
            let person = &self.people[index];
            let reason = match person.at {
                _ if person.deadline_at <= self.now => Reason::Deadline,
                at => match self.why_full(person.partition, person.label) {
                    reason @ (Reason::LabelCap | Reason::PartitionCap) => reason,
                    // The slot that is free now was that of the label, or the server was full.
                    _ if is_its_turn && self.has_one_left(person.label) && self.used.len() + 1 < self.limit => {
                        Reason::LabelCap
                    }
                    _ if at == At::Gate => Reason::GateTimeout,
                    _ => Reason::QueueTimeout,
                },
            };
            self.refuse(index, reason);
        }
    }

    pub(super) fn tick(&mut self) {
        self.expire(None, false);
        while let Some(late) = self.used.iter().position(|used| used.ends <= self.now) {
            self.expired_slots += 1;
            self.stop(late);
        }
        self.sweep_workers();
        self.settle();
    }

    /// Has a waiter fetch its slot.
    pub(super) fn fetch(&mut self, id: u64) {
        let ends = self.end_of_tenure();
        self.used.iter_mut().filter(|used| used.id == id).for_each(|used| used.ends = ends);
    }

    /// Gives a slot back, which may have been taken back before.
    pub(super) fn give_back(&mut self, id: u64, partition: usize) {
        let mine = self.used.iter().position(|used| used.id == id);
        let another = || self.used.iter().position(|used| used.partition == partition);
        let found = if self.mistake == Mistake::GivesBackTwice { mine.or_else(another) } else { mine };
        if let Some(index) = found {
            self.stop(index);
        }
    }

    fn stop(&mut self, index: usize) {
        let label = self.used[index].label;
        self.change(label, |model| {
            model.used.remove(index);
        });
    }

    /// Grants and moves until nothing changes.
    pub(super) fn settle(&mut self) {
        if self.count(At::Line) == 0 {
            self.last_empty = self.now;
        }
        if self.people.iter().any(Person::waits) {
            self.newest_first = match self.setup.discipline {
                Discipline::AdaptiveLifo { interval, .. } => {
                    let backed_up = u128::from(self.now - self.last_empty) > interval.as_nanos();
                    self.count(At::Line) > 0 && backed_up && self.mistake != Mistake::NeverTurnsRound
                }
                Discipline::BurstCredit { .. } | Discipline::Fair | Discipline::Fifo => false,
            };
        }
        while let Some((next, passes_over)) = self.next() {
            if self.people[next].wait_ends <= self.now {
                self.expire(Some(self.people[next].id), true);
            } else if self.is_hopeless(next) {
                self.refuse(next, Reason::Deadline);
            } else {
                self.passed_one_over = passes_over;
                self.grant(next);
            }
        }
        while self.room_in_line()
            && let Some(next) = self.people.iter().position(|person| person.at == At::Gate)
        {
            self.let_in(next);
        }
    }

    fn is_hopeless(&self, index: usize) -> bool {
        let ends = self.people[index].deadline_at;
        let waiting = self.people.iter().filter(|person| person.waits()).count();
        self.mistake != Mistake::HopesForEver
            && self.mode == Mode::Enforce
            && ends != u64::MAX
            && waiting > 1
            && self.likely.is_some_and(|likely| ends - self.now < likely)
    }

    fn grant(&mut self, index: usize) {
        let key = Self::key_of(&self.people[index]);
        self.serve(key);
        self.people[index].at = At::Granted;
        self.end_unless_there(key);
        let Person { id, partition, label, level, .. } = self.people[index];
        self.take_held(partition, label, level);
        self.used.push(Used { id, partition, label, level, ends: u64::MAX });
    }

    pub(super) fn let_in(&mut self, index: usize) {
        let key = Self::key_of(&self.people[index]);
        if self.flow_members(key).count() == 1 {
            self.end(key);
            self.begin_unless_there(key);
        }
        let Person { since, label, deadline_at, .. } = self.people[index];
        let ends = self.end_of_wait(At::Line, since).min(self.own_end(since, label)).min(deadline_at);
        let person = &mut self.people[index];
        person.at = At::Line;
        person.wait_ends = ends;
    }
}
