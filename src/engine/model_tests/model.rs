//! The naive model: everybody in one list, in order of arrival.

use std::time::Duration;

use super::super::{
    limit::{Fixed, Limit},
    plan::{Bound, Mode, PartitionMode, PartitionPlan, Places, Plan},
    shares::{WHOLE, allocate, ceil_share},
};
use crate::rejection::Reason;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) limit: usize,
    pub(super) parts: Vec<(u32, PartitionMode)>,
    /// `None` is the legacy mode.
    pub(super) queue: Option<usize>,
    pub(super) extra: usize,
    pub(super) line_wait: Option<u64>,
    pub(super) gate_wait: u64,
}

impl Setup {
    pub(super) fn plan(&self) -> Plan {
        let wait = |seconds| Some(Duration::from_secs(seconds));
        let partitions = self.parts.iter().enumerate();
        let name = |index: usize| std::sync::Arc::from(index.to_string());
        Plan {
            law: Limit::from(Fixed::new(self.limit)).into_law(),
            partitions: partitions.map(|(i, &(part, mode))| PartitionPlan { name: name(i), part, mode }).collect(),
            line: Bound { places: Places::Exactly(self.line_places()), wait: self.line_wait.and_then(wait) },
            gate: Bound { places: Places::Exactly(self.gate_places()), wait: wait(self.gate_wait) },
            queue: self.queue,
        }
    }

    pub(super) fn line_places(&self) -> usize {
        self.queue.unwrap_or(self.extra)
    }

    pub(super) fn gate_places(&self) -> usize {
        if self.queue.is_some() { self.extra } else { 0 }
    }
}

/// What both sides answer to a verb.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Admitted,
    Waits,
    Rejected(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum At {
    Gate,
    Line,
    Granted,
    Refused(Reason),
}

#[derive(Debug)]
pub(super) struct Person {
    pub(super) id: u64,
    pub(super) partition: usize,
    pub(super) patience_ends: u64,
    pub(super) wait_ends: u64,
    pub(super) at: At,
}

/// A deliberate mistake, for the negative controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mistake {
    None,
    LastComeFirstServed,
    ForgetsWhoIsOwed,
    KeepsNothing,
    LetsOneTooManyIn,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) setup: Setup,
    pub(super) mistake: Mistake,
    pub(super) limit: usize,
    pub(super) mode: Mode,
    pub(super) now: u64,
    pub(super) running: Vec<usize>,
    /// Up to how many running requests slots are kept for a partition that was turned away below its share, until when.
    pub(super) kept: Vec<(usize, u64)>,
    /// The same for places in line.
    pub(super) kept_places: Vec<(usize, u64)>,
    /// How long that is, which the engine takes from what it measured.
    pub(super) keep_time: u64,
    /// In order of arrival.
    pub(super) people: Vec<Person>,
    pub(super) ids: u64,
}

impl Model {
    pub(super) fn new(setup: &Setup, mistake: Mistake) -> Self {
        let running = vec![0; setup.parts.len()];
        let kept = vec![(0, 0); setup.parts.len()];
        let (kept_places, keep_time) = (kept.clone(), 0);
        let (limit, mode) = (setup.limit, Mode::Enforce);
        Self {
            setup: setup.clone(),
            mistake,
            limit,
            mode,
            now: 0,
            running,
            kept,
            kept_places,
            keep_time,
            people: Vec::new(),
            ids: 0,
        }
    }

    pub(super) fn share(&self, partition: usize) -> usize {
        let (part, mode) = self.setup.parts[partition];
        if mode == PartitionMode::Overcommit {
            return ceil_share(self.limit, part);
        }
        let parts: Vec<u32> = self.setup.parts.iter().map(|&(part, _)| part).collect();
        let mut shares = vec![0; parts.len()];
        allocate(self.limit, &parts, &mut shares);
        if part > 0 { shares[partition].max(1) } else { 0 }
    }

    pub(super) fn may_run(&self, partition: usize) -> bool {
        let limit = self.limit + usize::from(self.mistake == Mistake::LetsOneTooManyIn);
        let below = self.running[partition] < self.share(partition);
        let others = self.kept.iter().enumerate().filter(|&(other, _)| other != partition && !below);
        let kept: usize = others.map(|(other, _)| self.unused(other)).sum();
        let free = self.running.iter().sum::<usize>() + kept < limit;
        match self.setup.parts[partition].1 {
            PartitionMode::Burst => free,
            PartitionMode::HardCap => free && below,
            PartitionMode::Overcommit => free || below,
        }
    }

    pub(super) fn count(&self, at: At) -> usize {
        self.people.iter().filter(|person| person.at == at).count()
    }

    pub(super) fn room_in_line(&self, partition: usize) -> bool {
        let inside = self.running.iter().sum::<usize>() + self.count(At::Line);
        let gate = self.setup.queue.map_or(usize::MAX, |queue| self.limit + queue);
        let below = self.in_line(partition) < self.share_of_places(partition);
        let others = (0..self.running.len()).filter(|&other| other != partition && !below);
        let kept: usize = others.map(|other| self.unused_places(other)).sum();
        self.count(At::Line) + kept < self.setup.line_places() && inside < gate
    }

    /// What is kept and not used.
    pub(super) fn unused(&self, partition: usize) -> usize {
        self.kept[partition].0.min(self.share(partition)).saturating_sub(self.running[partition])
    }

    pub(super) fn in_line(&self, partition: usize) -> usize {
        self.people.iter().filter(|person| person.partition == partition && person.at == At::Line).count()
    }

    pub(super) fn share_of_places(&self, partition: usize) -> usize {
        self.setup.line_places() * self.setup.parts[partition].0 as usize / WHOLE as usize
    }

    pub(super) fn unused_places(&self, partition: usize) -> usize {
        let level = self.kept_places[partition].0.min(self.share_of_places(partition));
        level.saturating_sub(self.in_line(partition))
    }

    pub(super) fn keeps_anything(&self) -> bool {
        self.kept.iter().chain(&self.kept_places).any(|&(level, _)| level > 0)
    }

    /// Room is kept for whoever was turned away below its share: a place, if it `waits` and has some left, else a slot.
    pub(super) fn keep(&mut self, partition: usize, waits: bool) {
        let until = self.now + self.keep_time;
        let places = self.share_of_places(partition);
        let (part, mode) = self.setup.parts[partition];
        if self.mistake == Mistake::KeepsNothing {
        } else if waits && self.in_line(partition) < places {
            let level = self.kept_places[partition].0.min(places).max(self.in_line(partition)) + 1;
            if level <= places {
                self.kept_places[partition] = (level, until);
            }
        } else if mode != PartitionMode::Overcommit && part > 0 {
            let level = self.kept[partition].0.min(self.share(partition)).max(self.running[partition]) + 1;
            if level <= self.share(partition) {
                self.kept[partition] = (level, until);
            }
        }
    }

    pub(super) fn forget_kept(&mut self) {
        let until = self.now + self.keep_time;
        for partition in 0..self.running.len() {
            let half = |used, unused| if unused > 0 { used + unused / 2 } else { 0 };
            if self.kept[partition].1 <= self.now {
                self.kept[partition] = (half(self.running[partition], self.unused(partition)), until);
            }
            if self.kept_places[partition].1 <= self.now {
                self.kept_places[partition] = (half(self.in_line(partition), self.unused_places(partition)), until);
            }
        }
    }

    pub(super) fn arrive(&mut self, partition: usize, patience: Option<u64>) -> Answer {
        if self.mode != Mode::Off && !self.may_run(partition) && self.keeps_anything() {
            self.settle();
        }
        let answer = self.answer(partition, patience);
        if matches!(answer, Answer::Rejected(_)) {
            self.keep(partition, true);
        }
        answer
    }

    pub(super) fn answer(&mut self, partition: usize, patience: Option<u64>) -> Answer {
        let patience_ends = patience.map_or(u64::MAX, |patience| self.now + patience);
        if self.mode != Mode::Enforce {
            // Beyond the limit it runs uncounted.
            if self.mode == Mode::Observe && self.may_run(partition) {
                self.running[partition] += 1;
            }
            return Answer::Admitted;
        }
        if self.may_run(partition) {
            self.running[partition] += 1;
            return Answer::Admitted;
        }
        let (at, wait) = if patience_ends <= self.now {
            return Answer::Rejected(Reason::Deadline);
        } else if self.room_in_line(partition) {
            (At::Line, self.setup.line_wait)
        } else if self.count(At::Gate) < self.setup.gate_places() {
            (At::Gate, Some(self.setup.gate_wait))
        } else {
            return Answer::Rejected(self.full(partition));
        };
        self.ids += 1;
        let wait_ends = wait.map_or(u64::MAX, |wait| self.now + wait * SECOND).min(patience_ends);
        self.people.push(Person { id: self.ids, partition, patience_ends, wait_ends, at });
        Answer::Waits
    }

    pub(super) fn full(&self, partition: usize) -> Reason {
        let capped = self.setup.parts[partition].1 == PartitionMode::HardCap;
        match self.setup.queue {
            _ if capped && self.running[partition] >= self.share(partition) => Reason::PartitionCap,
            Some(_) => Reason::GateFull,
            None if self.setup.line_places() == 0 => Reason::Limit,
            None => Reason::QueueFull,
        }
    }

    pub(super) fn expire(&mut self, only: Option<u64>) {
        for person in &mut self.people {
            if matches!(person.at, At::Gate | At::Line)
                && person.wait_ends <= self.now
                && only.is_none_or(|id| id == person.id)
            {
                person.at = At::Refused(match person.at {
                    _ if person.patience_ends <= self.now => Reason::Deadline,
                    At::Gate => Reason::GateTimeout,
                    _ => Reason::QueueTimeout,
                });
            }
        }
    }

    /// Grants and moves until nothing changes.
    pub(super) fn settle(&mut self) {
        self.forget_kept();
        while let Some(next) = self.next() {
            let id = self.people[next].id;
            self.expire(Some(id));
            if matches!(self.people[next].at, At::Gate | At::Line) {
                self.people[next].at = At::Granted;
                self.running[self.people[next].partition] += 1;
            }
        }
        while let Some(next) = (0..self.people.len())
            .find(|&i| self.people[i].at == At::Gate && self.room_in_line(self.people[i].partition))
        {
            let person = &mut self.people[next];
            person.at = At::Line;
            let wait_ends = self.setup.line_wait.map_or(u64::MAX, |wait| self.now + wait * SECOND);
            person.wait_ends = wait_ends.min(person.patience_ends);
        }
    }

    /// Whose turn it is: those inside before those at the gate of the same partition, partitions below their share
    /// before others, then by arrival.
    pub(super) fn next(&self) -> Option<usize> {
        let heads = (0..self.running.len()).filter_map(|partition| {
            let first = |at: At| {
                let mut found = (0..self.people.len())
                    .filter(|&i| self.people[i].partition == partition && self.people[i].at == at);
                if self.mistake == Mistake::LastComeFirstServed { found.next_back() } else { found.next() }
            };
            let head = first(At::Line).or_else(|| first(At::Gate))?;
            (self.mode != Mode::Enforce || self.may_run(partition)).then_some(head)
        });
        heads.min_by_key(|&head| {
            let partition = self.people[head].partition;
            let owed = self.running[partition] < self.share(partition);
            let honoured = self.mode == Mode::Enforce && self.mistake != Mistake::ForgetsWhoIsOwed;
            (honoured && !owed, self.people[head].id)
        })
    }
}
