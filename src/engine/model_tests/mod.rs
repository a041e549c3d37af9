//! The engine against a naive model: the same random verbs, the same answers.
//!
//! The model keeps everybody in one list in order of arrival and looks at all of them each time. It shares nothing with
//! the engine but the arithmetic of shares, which has tests of its own. That the comparison can fail is shown at the
//! end, with models that are wrong on purpose.

mod model;

use std::time::Duration;

use proptest::{prelude::*, strategy::ValueTree};

use self::model::{Answer, At, Mistake, Model, Setup};
use super::{
    Arrival, Engine, Place, Slot,
    plan::{Mode, PartitionMode},
    shares::WHOLE,
};
use crate::time::Timestamp;

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
            // Nobody is there to do it.
            Verb::Claim(_) | Verb::Cancel(_) | Verb::Finish(_) => {}
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
