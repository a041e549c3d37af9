//! The engine against a naive model: the same random verbs, the same answers.
//!
//! The model keeps everybody in one list in order of arrival and looks at all of them each time. It shares nothing with
//! the engine but the arithmetic of shares, which has tests of its own. That the comparison can fail is shown at the
//! end, with models that are wrong on purpose.

use std::time::Duration;

use proptest::{prelude::*, strategy::ValueTree};

use super::{
    Arrival, Engine, Place, Slot,
    limit::{Fixed, Limit},
    plan::{Bound, Mode, PartitionMode, PartitionPlan, Places, Plan},
    shares::{WHOLE, allocate, ceil_share},
};
use crate::{rejection::Reason, time::Timestamp};

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
enum Verb {
    Arrive { partition: usize, patience: Option<u64> },
    ArriveWithoutWaiting { partition: usize },
    Claim(usize),
    Cancel(usize),
    Finish(usize),
    Resize(usize),
    SetMode(Mode),
    Tick,
    Pass(u64),
}

#[derive(Clone, Debug)]
struct Setup {
    limit: usize,
    parts: Vec<(u32, PartitionMode)>,
    /// `None` is the legacy mode.
    queue: Option<usize>,
    extra: usize,
    line_wait: Option<u64>,
    gate_wait: u64,
}

impl Setup {
    fn plan(&self) -> Plan {
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

    fn line_places(&self) -> usize {
        self.queue.unwrap_or(self.extra)
    }

    fn gate_places(&self) -> usize {
        if self.queue.is_some() { self.extra } else { 0 }
    }
}

/// What both sides answer to a verb.
#[derive(Debug, PartialEq)]
enum Answer {
    Admitted,
    Waits,
    Rejected(Reason),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Gate,
    Line,
    Granted,
    Refused(Reason),
}

#[derive(Debug)]
struct Person {
    id: u64,
    partition: usize,
    patience_ends: u64,
    wait_ends: u64,
    at: At,
}

/// A deliberate mistake, for the negative controls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    LastComeFirstServed,
    ForgetsWhoIsOwed,
    KeepsNothing,
    LetsOneTooManyIn,
}

#[derive(Debug)]
struct Model {
    setup: Setup,
    mistake: Mistake,
    limit: usize,
    mode: Mode,
    now: u64,
    running: Vec<usize>,
    /// Up to how many running requests slots are kept for a partition that was turned away below its share, until when.
    kept: Vec<(usize, u64)>,
    /// The same for places in line.
    kept_places: Vec<(usize, u64)>,
    /// How long that is, which the engine takes from what it measured.
    keep_time: u64,
    /// In order of arrival.
    people: Vec<Person>,
    ids: u64,
}

impl Model {
    fn new(setup: &Setup, mistake: Mistake) -> Self {
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

    fn share(&self, partition: usize) -> usize {
        let (part, mode) = self.setup.parts[partition];
        if mode == PartitionMode::Overcommit {
            return ceil_share(self.limit, part);
        }
        let parts: Vec<u32> = self.setup.parts.iter().map(|&(part, _)| part).collect();
        let mut shares = vec![0; parts.len()];
        allocate(self.limit, &parts, &mut shares);
        if part > 0 { shares[partition].max(1) } else { 0 }
    }

    fn may_run(&self, partition: usize) -> bool {
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

    fn count(&self, at: At) -> usize {
        self.people.iter().filter(|person| person.at == at).count()
    }

    fn room_in_line(&self, partition: usize) -> bool {
        let inside = self.running.iter().sum::<usize>() + self.count(At::Line);
        let gate = self.setup.queue.map_or(usize::MAX, |queue| self.limit + queue);
        let below = self.in_line(partition) < self.share_of_places(partition);
        let others = (0..self.running.len()).filter(|&other| other != partition && !below);
        let kept: usize = others.map(|other| self.unused_places(other)).sum();
        self.count(At::Line) + kept < self.setup.line_places() && inside < gate
    }

    /// What is kept and not used.
    fn unused(&self, partition: usize) -> usize {
        self.kept[partition].0.min(self.share(partition)).saturating_sub(self.running[partition])
    }

    fn in_line(&self, partition: usize) -> usize {
        self.people.iter().filter(|person| person.partition == partition && person.at == At::Line).count()
    }

    fn share_of_places(&self, partition: usize) -> usize {
        self.setup.line_places() * self.setup.parts[partition].0 as usize / WHOLE as usize
    }

    fn unused_places(&self, partition: usize) -> usize {
        let level = self.kept_places[partition].0.min(self.share_of_places(partition));
        level.saturating_sub(self.in_line(partition))
    }

    fn keeps_anything(&self) -> bool {
        self.kept.iter().chain(&self.kept_places).any(|&(level, _)| level > 0)
    }

    /// Room is kept for whoever was turned away below its share: a place, if it `waits` and has some left, else a slot.
    fn keep(&mut self, partition: usize, waits: bool) {
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

    fn forget_kept(&mut self) {
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

    fn arrive(&mut self, partition: usize, patience: Option<u64>) -> Answer {
        if self.mode != Mode::Off && !self.may_run(partition) && self.keeps_anything() {
            self.settle();
        }
        let answer = self.answer(partition, patience);
        if matches!(answer, Answer::Rejected(_)) {
            self.keep(partition, true);
        }
        answer
    }

    fn answer(&mut self, partition: usize, patience: Option<u64>) -> Answer {
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

    fn full(&self, partition: usize) -> Reason {
        let capped = self.setup.parts[partition].1 == PartitionMode::HardCap;
        match self.setup.queue {
            _ if capped && self.running[partition] >= self.share(partition) => Reason::PartitionCap,
            Some(_) => Reason::GateFull,
            None if self.setup.line_places() == 0 => Reason::Limit,
            None => Reason::QueueFull,
        }
    }

    fn expire(&mut self, only: Option<u64>) {
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
    fn settle(&mut self) {
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
    fn next(&self) -> Option<usize> {
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

/// Runs the engine and the model side by side.
struct Pair {
    engine: Engine,
    model: Model,
    /// Those who wait, as both sides know them.
    waiting: Vec<(u64, Place)>,
    running: Vec<(usize, Slot)>,
    arrived: u64,
}

impl Pair {
    fn new(setup: &Setup, mistake: Mistake) -> Self {
        let engine = Engine::new(setup.plan());
        let model = Model::new(setup, mistake);
        Self { engine, model, waiting: Vec::new(), running: Vec::new(), arrived: 0 }
    }

    fn step(&mut self, verb: &Verb) -> Result<(), TestCaseError> {
        let now = Timestamp::from_nanos(self.model.now);
        let partitions = self.model.running.len();
        self.model.keep_time = u64::try_from(self.engine.keep_time().as_nanos()).unwrap();
        match *verb {
            Verb::Pass(nanos) => self.model.now += nanos,
            Verb::Tick => {
                self.engine.tick(now);
                self.model.expire(None);
                self.model.settle();
            }
            Verb::Resize(limit) => {
                self.engine.now = now.max(self.engine.now);
                self.engine.resize(limit);
                self.engine.settle(now);
                self.model.limit = limit;
                self.model.settle();
            }
            Verb::SetMode(mode) => {
                self.engine.set_mode(now, mode);
                self.model.mode = mode;
                self.model.settle();
            }
            Verb::Arrive { partition, patience } => {
                let partition = partition % partitions;
                self.arrived += u64::from(self.model.mode != Mode::Off);
                let until = patience.map_or(Timestamp::NEVER, |it| now.after(Duration::from_nanos(it)));
                let expected = self.model.arrive(partition, patience);
                let arrival = self.engine.arrive(now, u16::try_from(partition).unwrap(), until);
                let answer = match arrival {
                    Arrival::Admit(slot) => {
                        self.running.push((partition, slot));
                        Answer::Admitted
                    }
                    Arrival::Wait(place) => {
                        self.waiting.push((self.model.ids, place));
                        Answer::Waits
                    }
                    Arrival::Reject(refusal) => Answer::Rejected(refusal.reason),
                };
                prop_assert_eq!(answer, expected);
            }
            Verb::ArriveWithoutWaiting { partition } => {
                let partition = partition % partitions;
                self.arrived += u64::from(self.model.mode != Mode::Off);
                if self.model.mode != Mode::Off && !self.model.may_run(partition) && self.model.keeps_anything() {
                    self.model.settle();
                }
                let admits = self.model.mode != Mode::Enforce || self.model.may_run(partition);
                let counted = self.model.mode != Mode::Off && self.model.may_run(partition);
                let answer = self.engine.arrive_without_waiting(now, u16::try_from(partition).unwrap());
                prop_assert_eq!(answer.is_ok(), admits);
                match answer {
                    Ok(slot) => {
                        if counted {
                            self.model.running[partition] += 1;
                        }
                        self.running.push((partition, slot));
                    }
                    Err(_) => self.model.keep(partition, false),
                }
            }
            Verb::Claim(which) if !self.waiting.is_empty() => {
                let which = which % self.waiting.len();
                let id = self.waiting[which].0;
                let before = self.model.people.iter().find(|person| person.id == id).map(|person| person.at);
                self.model.expire(Some(id));
                let index = self.model.people.iter().position(|person| person.id == id).unwrap();
                let at = self.model.people[index].at;
                if before != Some(at) {
                    self.model.settle();
                }
                let answer = match self.engine.claim(now, &self.waiting[which].1) {
                    std::task::Poll::Pending => Answer::Waits,
                    std::task::Poll::Ready(answer) => {
                        let partition = self.model.people.remove(index).partition;
                        let (_, _answered) = self.waiting.remove(which);
                        match answer {
                            Ok(slot) => {
                                self.running.push((partition, slot));
                                Answer::Admitted
                            }
                            Err(refusal) => Answer::Rejected(refusal.reason),
                        }
                    }
                };
                let expected = match at {
                    At::Gate | At::Line => Answer::Waits,
                    At::Granted => Answer::Admitted,
                    At::Refused(reason) => Answer::Rejected(reason),
                };
                prop_assert_eq!(answer, expected);
            }
            Verb::Cancel(which) if !self.waiting.is_empty() => {
                let (id, place) = self.waiting.remove(which % self.waiting.len());
                let index = self.model.people.iter().position(|person| person.id == id).unwrap();
                let person = self.model.people.remove(index);
                if person.at == At::Granted {
                    self.model.running[person.partition] -= 1;
                }
                self.model.settle();
                self.engine.cancel(now, &place);
            }
            Verb::Finish(which) if !self.running.is_empty() => {
                let (partition, mut slot) = self.running.remove(which % self.running.len());
                let counted = slot.is_counted();
                self.engine.finish(now, &mut slot);
                self.model.keep_time = u64::try_from(self.engine.keep_time().as_nanos()).unwrap();
                if counted {
                    self.model.running[partition] -= 1;
                    self.model.settle();
                }
            }
            Verb::Claim(_) | Verb::Cancel(_) | Verb::Finish(_) => prop_assert_eq!(Answer::Done, Answer::Done),
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let snapshot = self.engine.snapshot();
        prop_assert_eq!(snapshot.in_flight, self.model.running.iter().sum::<usize>());
        prop_assert_eq!(snapshot.waiting, self.model.count(At::Line));
        prop_assert_eq!(snapshot.at_gate, self.model.count(At::Gate));
        for (partition, running) in snapshot.partitions.iter().zip(&self.model.running) {
            prop_assert_eq!(partition.in_flight, *running);
        }
        // Conservation: whoever arrived was admitted, rejected, left while waiting, or still is between the two.
        let left: u64 = snapshot.partitions.iter().map(|it| it.cancelled_waiting).sum();
        let between = self.model.people.iter().filter(|person| !matches!(person.at, At::Refused(_))).count() as u64;
        prop_assert_eq!(self.arrived, snapshot.admitted() + snapshot.rejected() + left + between);
        while self.engine.take_notice().is_some() {}
        Ok(())
    }
}

fn modes() -> impl Strategy<Value = PartitionMode> {
    prop_oneof![Just(PartitionMode::Burst), Just(PartitionMode::HardCap), Just(PartitionMode::Overcommit)]
}

fn setups() -> impl Strategy<Value = Setup> {
    let parts = prop_oneof![
        Just(vec![WHOLE]),
        Just(vec![0, WHOLE]),
        Just(vec![400_000, 600_000]),
        Just(vec![100_000, 300_000, 600_000]),
        Just(vec![0, 10_000, 490_000, 500_000]),
    ];
    let parts = parts.prop_flat_map(|parts| {
        let count = parts.len();
        prop::collection::vec(modes(), count).prop_map(move |modes| parts.iter().copied().zip(modes).collect())
    });
    let queue = prop::option::of(1usize..6);
    (1usize..8, parts, queue, 0usize..5, prop::option::of(1u64..10), 1u64..5).prop_map(
        |(limit, parts, queue, extra, line_wait, gate_wait)| Setup { limit, parts, queue, extra, line_wait, gate_wait },
    )
}

fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    let verb = prop_oneof![
        8 => (0usize..4, prop::option::of(0u64..8 * SECOND)).prop_map(|(partition, patience)| Verb::Arrive { partition, patience }),
        1 => (0usize..4).prop_map(|partition| Verb::ArriveWithoutWaiting { partition }),
        5 => (0usize..64).prop_map(Verb::Claim),
        2 => (0usize..64).prop_map(Verb::Cancel),
        5 => (0usize..64).prop_map(Verb::Finish),
        1 => (1usize..9).prop_map(Verb::Resize),
        1 => prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)].prop_map(Verb::SetMode),
        2 => Just(Verb::Tick),
        3 => (0..3 * SECOND).prop_map(Verb::Pass),
    ];
    prop::collection::vec(verb, 1..200)
}

fn run(setup: &Setup, verbs: &[Verb], mistake: Mistake) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(setup, mistake);
    verbs.iter().try_for_each(|verb| pair.step(verb))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_model_does(setup in setups(), verbs in verbs()) {
        run(&setup, &verbs, Mistake::None)?;
    }
}

/// 1,000 runs of up to 200 verbs, or what `PROPTEST_CASES` says.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_000)
}

#[test]
fn a_model_with_a_mistake_is_found_out() {
    for mistake in
        [Mistake::LastComeFirstServed, Mistake::ForgetsWhoIsOwed, Mistake::KeepsNothing, Mistake::LetsOneTooManyIn]
    {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let found = (0..1_000).any(|_| {
            let setup = setups().new_tree(&mut runner).unwrap().current();
            let verbs = verbs().new_tree(&mut runner).unwrap().current();
            let outcome = std::panic::catch_unwind(|| run(&setup, &verbs, mistake));
            !matches!(outcome, Ok(Ok(())))
        });
        assert!(found, "{mistake:?} went unnoticed in 1,000 runs");
    }
}
