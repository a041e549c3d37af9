//! The engine against a naive model: random verbs, and rules that are looked up in lists of all running requests and of
//! all starts.
//!
//! The order of turns is not the model's business. It is told which requests were granted or rejected, in which order,
//! and says whether the rules allow that. After each verb it says whether a waiter may run.

mod setup;

use proptest::{prelude::*, strategy::ValueTree};

use self::setup::{Bounded, CLASSES, NAMES, Of, Setup, Verb, setups, verbs};
use super::{
    super::{super::tokens::Stage, cases},
    *,
};

/// A deliberate mistake, for the negative controls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    ChargesOnArrival,
    KeepsWhatEnded,
    CountsGroupsByClass,
    CountsNamespacesTogether,
    ForgetsTheBurst,
}

struct Model {
    setup: Setup,
    mistake: Mistake,
    now: u64,
    running: Vec<Of>,
    waiting: Vec<(Of, Place)>,
    starts: Vec<(u64, Of)>,
}

impl Model {
    /// Whether a rate has room for one more request, judged from all starts that it counts.
    fn has_room(&self, (max, mode): (u32, RateMode), counts: impl Fn(Of) -> bool) -> bool {
        let starts = || self.starts.iter().filter(|&&(_, of)| counts(of)).map(|&(at, _)| at);
        match mode {
            RateMode::Window => starts().filter(|at| at / MINUTE == self.now / MINUTE).count() < max as usize,
            RateMode::Smooth { burst } => {
                let interval = MINUTE.div_ceil(u64::from(max));
                let due = starts().fold(0, |due: u64, at| due.max(at) + interval);
                let burst = if self.mistake == Mistake::ForgetsTheBurst { 1 } else { u64::from(burst.get()) };
                self.now + interval * (burst - 1) >= due
            }
        }
    }

    /// Returns all rules that have no room for one more request.
    fn full(&self, of: Of) -> Vec<(Reason, WhenFull)> {
        let class = &self.setup.classes[of.class];
        let same_label = |it: Of| (it.class, it.namespace, it.label) == (of.class, of.namespace, of.label);
        let together = self.mistake == Mistake::CountsNamespacesTogether;
        let same_namespace = |it: Of| it.class == of.class && (together || it.namespace == of.namespace);
        let by_class = self.mistake == Mistake::CountsGroupsByClass;
        let same_group = |it: Of| {
            it.namespace == of.namespace
                && self.setup.classes[it.class].budget.is_some()
                && (!by_class || it.class == of.class)
        };
        let running = |counts: &dyn Fn(Of) -> bool| self.running.iter().filter(|&&it| counts(it)).count();
        let namespace_cap =
            if NAMES[of.label] == "a" { class.wider.or(class.namespace_cap) } else { class.namespace_cap };
        let cap = |rule: Option<Bounded<usize>>, reason, counts: &dyn Fn(Of) -> bool| {
            let rule = rule.filter(|rule| running(counts) >= rule.max)?;
            Some((reason, rule.when_full))
        };
        let rate = |rule: Option<Bounded<(u32, RateMode)>>, reason, counts: &dyn Fn(Of) -> bool| {
            let rule = rule.filter(|rule| !self.has_room(rule.max, counts))?;
            Some((reason, rule.when_full))
        };
        let budget = class.budget.map(|when_full| Bounded { max: self.setup.group, when_full });
        [
            cap(class.cap, Reason::LabelCap, &same_label),
            cap(namespace_cap, Reason::NamespaceCap, &same_namespace),
            rate(class.rate, Reason::Rate, &same_label),
            rate(class.namespace_rate, Reason::Rate, &same_namespace),
            rate(budget, Reason::Budget, &same_group),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the rule that rejects a request.
    fn bar(&self, of: Of) -> Option<(Reason, WhenFull)> {
        let same = |it: &Of| (it.class, it.namespace, it.label) == (of.class, of.namespace, of.label);
        let pending =
            self.running.iter().filter(|it| same(it)).count() + self.waiting.iter().filter(|(it, _)| same(it)).count();
        let bound = self.setup.classes[of.class].pending;
        if bound.is_some_and(|bound| pending >= bound) {
            return Some((Reason::PendingFull, WhenFull::Reject));
        }
        self.full(of).into_iter().find(|&(_, when_full)| when_full != WhenFull::Queue)
    }

    fn start(&mut self, of: Of) {
        self.running.push(of);
        self.starts.push((self.now, of));
    }
}

struct Pair {
    desk: Desk,
    model: Model,
    running: Vec<(Of, Slot)>,
    /// Waiters whose wait ended, and that have not asked yet.
    answered: Vec<(Of, Place)>,
}

impl Pair {
    fn new(setup: &Setup, mistake: Mistake) -> Self {
        let (running, waiting, starts) = (Vec::new(), Vec::new(), Vec::new());
        let model = Model { setup: setup.clone(), mistake, now: 0, running, waiting, starts };
        let desk = Desk::new(setup.limit, setup.rules());
        Self { desk, model, running: Vec::new(), answered: Vec::new() }
    }

    fn step(&mut self, verb: &Verb) -> Result<(), TestCaseError> {
        match *verb {
            Verb::Pass(nanos) => {
                self.model.now += nanos;
                self.desk.pass(nanos);
            }
            Verb::Arrive(of) => {
                let (bar, full) = (self.model.bar(of), self.model.full(of));
                let has_slot = self.model.running.len() < self.model.setup.limit;
                match self.desk.arrive(CLASSES[of.class], NAMES[of.namespace], NAMES[of.label]) {
                    Arrival::Admit(slot) => {
                        prop_assert!(bar.is_none() && full.is_empty() && has_slot, "{bar:?} {full:?}");
                        self.model.start(of);
                        self.running.push((of, slot));
                    }
                    Arrival::Ask(..) => unreachable!("no rule is shared"),
                    Arrival::Reject(refusal) => {
                        prop_assert_eq!(Some(refusal.reason), bar.map(|(reason, _)| reason));
                        prop_assert_eq!(
                            Some(refusal.empty),
                            bar.map(|(_, when_full)| when_full == WhenFull::RespondEmpty)
                        );
                    }
                    Arrival::Wait(place) => {
                        prop_assert!(
                            bar.is_none() && (!full.is_empty() || !has_slot),
                            "{of:?} waits: {bar:?} {full:?} {has_slot}"
                        );
                        if self.model.mistake == Mistake::ChargesOnArrival {
                            self.model.starts.push((self.model.now, of));
                        }
                        self.model.waiting.push((of, place));
                    }
                }
            }
            // Where there is no slot, the engine would reserve one for the request, which is not the rules' business.
            Verb::ArriveWithoutWaiting(of) if self.model.running.len() < self.model.setup.limit => {
                let free = self.model.bar(of).is_none() && self.model.full(of).is_empty();
                let ask = self.desk.ask(CLASSES[of.class], NAMES[of.namespace], NAMES[of.label]);
                let answer = self.desk.engine.arrive_without_waiting(self.desk.now, &ask);
                prop_assert_eq!(answer.is_ok(), free);
                if let Ok(slot) = answer {
                    self.model.start(of);
                    self.running.push((of, slot));
                }
            }
            Verb::Claim(which) if !self.answered.is_empty() => {
                let (of, place) = self.answered.remove(which % self.answered.len());
                if let Poll::Ready(Ok(slot)) = self.desk.claim(&place) {
                    self.running.push((of, slot));
                }
            }
            Verb::Cancel(which) if !self.model.waiting.is_empty() => {
                let (_, place) = self.model.waiting.remove(which % self.model.waiting.len());
                self.desk.engine.cancel(self.desk.now, &place);
            }
            Verb::Finish(which) if !self.running.is_empty() => {
                let (of, slot) = self.running.remove(which % self.running.len());
                self.ended(of);
                self.desk.finish(slot);
            }
            Verb::ArriveWithoutWaiting(_) | Verb::Claim(_) | Verb::Cancel(_) | Verb::Finish(_) => {}
        }
        self.heed_notices()?;
        self.compare()
    }

    fn ended(&mut self, of: Of) {
        let same = |it: &Of| (it.class, it.namespace, it.label) == (of.class, of.namespace, of.label);
        let index = self.model.running.iter().position(same).expect("it runs");
        if self.model.mistake != Mistake::KeepsWhatEnded {
            self.model.running.swap_remove(index);
        }
    }

    /// Asserts that each wait ended as the rules say, one after the other.
    fn heed_notices(&mut self) -> Result<(), TestCaseError> {
        while let Some(key) = self.desk.engine.take_notice() {
            let index = self.model.waiting.iter().position(|(_, place)| place.key() == key).expect("somebody waited");
            let (of, place) = self.model.waiting.remove(index);
            let full = self.model.full(of);
            prop_assert!(self.model.running.len() < self.model.setup.limit, "there was a slot");
            match self.desk.engine.queue.get(key).stage {
                Stage::Granted { .. } => {
                    prop_assert!(full.is_empty(), "{of:?} was granted although {full:?}");
                    self.model.start(of);
                }
                Stage::Refused(refusal) => {
                    let found = full.iter().find(|&&(_, when_full)| when_full != WhenFull::Queue);
                    prop_assert_eq!(
                        found,
                        Some(&(refusal.reason, if refusal.empty { WhenFull::RespondEmpty } else { WhenFull::Reject }))
                    );
                }
                stage => prop_assert!(false, "{stage:?}"),
            }
            self.answered.push((of, place));
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let snapshot = self.desk.engine.snapshot();
        prop_assert_eq!(snapshot.in_flight, self.model.running.len());
        prop_assert_eq!(snapshot.waiting, self.model.waiting.len());
        if self.model.running.len() < self.model.setup.limit {
            for (of, _) in &self.model.waiting {
                let full = self.model.full(*of);
                let waits = full.iter().any(|&(_, when_full)| when_full == WhenFull::Queue);
                prop_assert!(waits, "{of:?} waits and might run or be turned away: {full:?}");
            }
        }
        // The use of caps and rates is what the lists say.
        for label in &snapshot.labels {
            let number = |name: &str, names: &[&str]| names.iter().position(|it| *it == name);
            let (Some(class), Some(namespace)) = (number(&label.class, &CLASSES), number(&label.namespace, &NAMES))
            else {
                continue;
            };
            for rule in &label.rules {
                let expected = match &*rule.rule {
                    "max_in_flight_per_namespace" => {
                        self.model.running.iter().filter(|it| it.class == class && it.namespace == namespace).count()
                    }
                    "budget" => self
                        .starts(|of| of.namespace == namespace && self.model.setup.classes[of.class].budget.is_some()),
                    "max_per_minute_per_namespace" => self.starts(|of| of.class == class && of.namespace == namespace),
                    _ => continue,
                };
                prop_assert_eq!(rule.used, expected, "{}", rule.rule);
            }
        }
        Ok(())
    }

    /// Returns how many of the counted requests started in this minute.
    fn starts(&self, counts: impl Fn(Of) -> bool) -> usize {
        let minute = self.model.now / MINUTE;
        self.model.starts.iter().filter(|&&(at, of)| at / MINUTE == minute && counts(of)).count()
    }
}

fn run(setup: &Setup, verbs: &[Verb], mistake: Mistake) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(setup, mistake);
    verbs.iter().try_for_each(|verb| pair.step(verb))?;
    // Nothing leaks: when all requests have left, nothing runs anywhere.
    for (_, place) in pair.model.waiting.drain(..).chain(pair.answered.drain(..)) {
        pair.desk.engine.cancel(pair.desk.now, &place);
        while pair.desk.engine.take_notice().is_some() {}
    }
    for (_, slot) in std::mem::take(&mut pair.running) {
        pair.desk.finish(slot);
    }
    let snapshot = pair.desk.engine.snapshot();
    prop_assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
    for rule in snapshot.labels.iter().flat_map(|label| &label.rules) {
        prop_assert!(
            !matches!(&*rule.rule, "max_in_flight" | "max_in_flight_per_namespace" | "max_pending") || rule.used == 0
        );
    }
    prop_assert_eq!(pair.desk.engine.next_wakeup(), None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_rules_do_what_the_model_does(setup in setups(), verbs in verbs()) {
        run(&setup, &verbs, Mistake::None)?;
    }
}

#[test]
fn a_model_with_a_mistake_is_found_out() {
    for mistake in [
        Mistake::ChargesOnArrival,
        Mistake::KeepsWhatEnded,
        Mistake::CountsGroupsByClass,
        Mistake::CountsNamespacesTogether,
        Mistake::ForgetsTheBurst,
    ] {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let found = (0..1_000).any(|_| {
            let setup = setups().new_tree(&mut runner).unwrap().current();
            let verbs = verbs().new_tree(&mut runner).unwrap().current();
            run(&setup, &verbs, mistake).is_err()
        });
        assert!(found, "{mistake:?} went unnoticed in 1,000 runs");
    }
}
