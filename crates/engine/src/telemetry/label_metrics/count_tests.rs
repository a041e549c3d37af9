//! LabelMetrics by label: which label each belongs to, and what it counts.

use std::{collections::HashMap, task::Poll, time::Duration};

use proptest::prelude::*;

use super::LabelOutcome;
use crate::{
    Arrival, Ask, Engine, LabelMetricsView, Outcome, PartitionId, Place, Refusal, Slot, Subject, Timestamp,
    kept_tests::seeds,
    limit::{Fixed, Limit},
    plan::{Bound, LabelRule, Mode, PartitionPlan, Places, Plan},
    rules::{ClassPlan, RulesPlan},
    shares::WHOLE,
};

const SECOND: Duration = Duration::from_secs(1);

/// Two slots and two places in line; metrics of so many labels, and a table of `max_labels`.
fn plan(metrics: usize, max_labels: usize, named: &[&str]) -> Plan {
    let partition = PartitionPlan::burst("default", WHOLE);
    let line = Bound { places: Places::Exactly(2), wait: Some(5 * SECOND) };
    let gate = Bound { places: Places::Exactly(0), wait: None };
    let mut plan = Plan::plain(Limit::from(Fixed::new(2)).into_law(), vec![partition], line, gate);
    plan.labels.metrics = metrics;
    plan.labels.max_labels = max_labels;
    for &name in named {
        plan.labels.named.push(("".into(), name.into()));
        plan.labels.rules.insert((None, name.into()), LabelRule { cap: Some(2), weight: 1 });
    }
    plan
}

fn ask<'a>(namespace: &'a str, label: &'a str) -> Ask<'a> {
    Ask { subject: Some(Subject::new(namespace, label, None)), ..Ask::of(PartitionId::DEFAULT) }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_secs(seconds))
}

/// One request that comes, runs and succeeds.
fn request(engine: &mut Engine, namespace: &str, label: &str) {
    let now = engine.now();
    let mut slot = engine.arrive_without_waiting(now, &ask(namespace, label)).unwrap();
    engine.observe(now, &mut slot, Outcome::Success);
    engine.finish(now, &mut slot);
}

/// Requests that came, by namespace and label.
fn requests(engine: &Engine) -> Vec<(String, u64)> {
    let all = engine.label_metrics(0, usize::MAX).into_iter();
    all.map(|it| (format!("{}/{}", it.name.namespace, it.name.label), it.counts.requests)).collect()
}

fn counted(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
}

fn label_metrics_of(engine: &Engine, label: &str) -> LabelMetricsView {
    engine.label_metrics(0, usize::MAX).into_iter().find(|it| *it.name.label == *label).unwrap()
}

fn outcome(metrics: &LabelMetricsView, outcome: LabelOutcome) -> u64 {
    metrics.counts.outcomes[LabelOutcome::ALL.iter().position(|it| *it == outcome).unwrap()]
}

#[test]
fn named_labels_have_places_and_of_the_others_the_first_ones() {
    let mut engine = Engine::new(plan(3, 100, &["gold"]));
    assert_eq!(requests(&engine), counted(&[("/", 0), ("/gold", 0)]), "there from the start");
    for label in ["a", "b", "c", "a", "gold", "d"] {
        request(&mut engine, "", label);
    }
    assert_eq!(requests(&engine), counted(&[("/", 2), ("/gold", 1), ("/a", 2), ("/b", 1)]));
    // Strangers may invent namespaces: the setting names the label without a namespace.
    request(&mut engine, "invented", "gold");
    assert_eq!(requests(&engine)[..2], counted(&[("/", 3), ("/gold", 1)]));
}

#[test]
fn a_label_that_was_forgotten_goes_on_where_it_stopped() {
    let mut engine = Engine::new(plan(2, 1, &[]));
    for label in ["a", "b", "c", "a", "c", "a"] {
        request(&mut engine, "", label);
    }
    assert!(engine.quotas.table().evicted >= 5, "each of them made the one before be forgotten");
    assert_eq!(requests(&engine), counted(&[("/", 2), ("/a", 3), ("/b", 1)]));
    assert_eq!(label_metrics_of(&engine, "a").counts.times.rtt.count(), 3);
}

#[test]
fn ten_thousand_names_make_no_more_metrics_than_allowed() {
    let mut engine = Engine::new(plan(50, 1_000, &["gold"]));
    for number in 0..10_000 {
        request(&mut engine, "", &format!("stranger {number}"));
        request(&mut engine, "", "gold");
    }
    let all = requests(&engine);
    assert_eq!(all.len(), 51);
    assert_eq!(all[0].1, 10_000 - 49, "what is left is counted together");
    assert_eq!(all[1], ("/gold".to_owned(), 10_000));
}

#[test]
fn no_name_is_taken_for_another() {
    let mut engine = Engine::new(plan(10, 100, &[]));
    let hostile = ["overflow", "true", "(other)", "\"},evil{x=\"", "\n", "a/b"];
    for name in hostile {
        request(&mut engine, "", name);
    }
    request(&mut engine, "a", "b");
    // A request without a label is not in this table.
    let now = engine.now();
    let mut slot = engine.arrive_without_waiting(now, &Ask::of(PartitionId::DEFAULT)).unwrap();
    engine.finish(now, &mut slot);
    let all = engine.label_metrics(0, usize::MAX);
    assert_eq!(all.len(), 1 + hostile.len() + 1);
    assert_eq!(all[0].counts.requests, 0, "nobody gets into the shared one by name");
    assert!(all[0].name.label.is_empty() && all[1..].iter().all(|it| !it.name.label.is_empty()));
    assert!(all[1..].iter().all(|it| it.counts.requests == 1));
}

#[test]
fn a_late_request_is_counted_for_the_label_that_it_came_with() {
    let plan = Plan { time_to_live: Some(SECOND), ..plan(2, 1, &[]) };
    let mut engine = Engine::new(plan);
    let mut late = engine.arrive_without_waiting(at(0), &ask("", "late")).unwrap();
    engine.tick(at(2));
    let mut next = engine.arrive_without_waiting(at(2), &ask("", "next")).unwrap();
    assert_eq!(late.label, next.label, "it has the entry of the one that was taken back");
    engine.observe(at(3), &mut late, Outcome::Overload);
    engine.finish(at(3), &mut late);
    engine.observe(at(3), &mut next, Outcome::Success);
    engine.finish(at(3), &mut next);
    assert_eq!(outcome(&label_metrics_of(&engine, "late"), LabelOutcome::Overload), 1);
    assert_eq!(outcome(&label_metrics_of(&engine, "next"), LabelOutcome::Overload), 0);
    assert_eq!(outcome(&label_metrics_of(&engine, "next"), LabelOutcome::Success), 1);
}

#[test]
fn a_reload_can_add_metrics_and_takes_none_away() {
    let mut engine = Engine::new(plan(0, 100, &["gold"]));
    request(&mut engine, "", "a");
    assert_eq!(engine.label_metrics_count(), 0, "nothing is counted unless asked for");
    engine.reload(at(1), plan(2, 100, &["gold"]));
    for label in ["gold", "a", "b"] {
        request(&mut engine, "", label);
    }
    assert_eq!(requests(&engine), counted(&[("/", 1), ("/gold", 1), ("/a", 1)]));
    engine.reload(at(2), plan(0, 100, &["silver"]));
    for label in ["gold", "a", "b", "silver"] {
        request(&mut engine, "", label);
    }
    assert_eq!(requests(&engine), counted(&[("/", 3), ("/gold", 2), ("/a", 2)]), "goes on");
    assert_eq!(label_metrics_of(&engine, "gold").slots, None, "has no cap any more");
    engine.reload(at(3), plan(3, 100, &["silver"]));
    assert_eq!(requests(&engine).last().unwrap().0, "/silver");
}

#[test]
fn slots_are_those_of_a_cap_or_of_workers() {
    let mut engine = Engine::new(plan(3, 100, &["gold"]));
    let see = |engine: &Engine, label| {
        let metrics = label_metrics_of(engine, label);
        (metrics.slots, metrics.available(), metrics.utilisation())
    };
    assert_eq!(see(&engine, "gold"), (Some(2), Some(2), Some(0.0)), "known before it came");
    let slot = engine.arrive_without_waiting(at(0), &ask("", "gold")).unwrap();
    let other = engine.arrive_without_waiting(at(0), &ask("", "a")).unwrap();
    assert_eq!(see(&engine, "gold"), (Some(2), Some(1), Some(0.5)));
    assert_eq!(see(&engine, "a"), (None, None, None));
    let subject = Subject::new("", "a", None);
    assert!(engine.report_worker(at(0), None, &subject, "worker", Some((4, SECOND))));
    assert_eq!(see(&engine, "a"), (Some(4), Some(3), Some(0.25)));
    engine.tick(at(1));
    assert_eq!(see(&engine, "a"), (Some(0), Some(0), Some(1.0)), "the worker fell silent");
    drop((slot, other));
}

#[test]
fn classes_are_told_apart_and_requests_without_a_label_are_in_none() {
    let work = ClassPlan { name: "work".into(), ..ClassPlan::default() };
    let rules = RulesPlan { classes: vec![ClassPlan::default(), work] };
    let mut engine = Engine::new(Plan { rules, ..plan(5, 100, &["gold"]) });
    let class = engine.class("work");
    let asks = [Ask { class, ..ask("", "gold") }, Ask { class, ..Ask::of(PartitionId::DEFAULT) }];
    let slots = asks.map(|ask| engine.arrive_without_waiting(at(0), &ask).unwrap());
    let all = engine.label_metrics(0, usize::MAX).into_iter();
    let seen: Vec<_> = all
        .map(|it| (it.name.class.to_string(), it.name.label.to_string(), it.counts.requests, it.in_flight))
        .collect();
    let expected = [("", "", 0, 0), ("", "gold", 0, 0), ("work", "gold", 1, 1)];
    assert_eq!(seen, expected.map(|(class, label, count, in_flight)| (class.into(), label.into(), count, in_flight)));
    drop(slots);
}

/// What the engine is told, in random order.
#[derive(Clone, Debug)]
enum Step {
    Arrive { label: usize, deadline_in: Option<u64>, waits: bool },
    Observe { which: usize, outcome: Outcome },
    Finish { which: usize, outcome: Outcome },
    Leave { which: usize },
    Pass { seconds: u64 },
    Mode(Mode),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = || {
        prop::sample::select(&[Outcome::Success, Outcome::Overload, Outcome::Cancelled, Outcome::Ignore][..]).boxed()
    };
    prop_oneof![
        8 => (0..NAMES.len(), prop::option::of(0u64..6), any::<bool>())
            .prop_map(|(label, deadline_in, waits)| Step::Arrive { label, deadline_in, waits }),
        2 => (any::<usize>(), outcome()).prop_map(|(which, outcome)| Step::Observe { which, outcome }),
        5 => (any::<usize>(), outcome()).prop_map(|(which, outcome)| Step::Finish { which, outcome }),
        1 => any::<usize>().prop_map(|which| Step::Leave { which }),
        2 => (0u64..4).prop_map(|seconds| Step::Pass { seconds }),
        1 => prop::sample::select(&[Mode::Enforce, Mode::Observe, Mode::Off][..]).prop_map(Step::Mode),
    ]
}

/// The last name stands for no label at all.
const NAMES: [&str; 8] = ["gold", "a", "b", "c", "d", "e", "f", ""];

/// Counts on its own what the engine counts.
#[derive(Debug, Default)]
struct Expected {
    /// Labels with metrics of their own, in the order in which they came.
    own: Vec<&'static str>,
    requests: HashMap<&'static str, u64>,
    outcomes: HashMap<(&'static str, LabelOutcome), u64>,
}

/// The name here for labels without metrics of their own, and for requests without a label.
const OTHERS: &str = "";
const NOBODY: &str = "nobody";

impl Expected {
    fn come(&mut self, label: &'static str, has_entry: bool) -> &'static str {
        let metrics = match label {
            "" => NOBODY,
            _ if !has_entry => OTHERS,
            _ if self.own.contains(&label) => label,
            _ if self.own.len() < 3 => {
                self.own.push(label);
                label
            }
            _ => OTHERS,
        };
        *self.requests.entry(metrics).or_default() += 1;
        metrics
    }

    fn end(&mut self, metrics: &'static str, outcome: LabelOutcome) {
        *self.outcomes.entry((metrics, outcome)).or_default() += 1;
    }
}

fn outcome_of(refusal: &Refusal) -> LabelOutcome {
    if refusal.timed_out { LabelOutcome::Timeout } else { LabelOutcome::of_rejected(refusal.reason) }
}

#[derive(Debug)]
struct Running {
    metrics: &'static str,
    slot: Slot,
    until: Timestamp,
}

#[derive(Debug)]
struct Stage {
    engine: Engine,
    now: Timestamp,
    mode: Mode,
    expected: Expected,
    running: Vec<Running>,
    waiting: Vec<(&'static str, Place)>,
}

impl Stage {
    fn runs(&mut self, metrics: &'static str, slot: Slot) {
        let until = if slot.ttl().is_some() { self.now.after(3 * SECOND) } else { Timestamp::NEVER };
        self.running.push(Running { metrics, slot, until });
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Arrive { label, deadline_in, waits } => {
                let name = NAMES[label];
                let deadline = deadline_in
                    .map_or(Timestamp::NEVER, |deadline_in| self.now.after(Duration::from_secs(deadline_in)));
                let subject = (!name.is_empty()).then_some(Subject::new("", name, None));
                let ask = Ask { subject, deadline, ..Ask::of(PartitionId::DEFAULT) };
                let overflowed = self.engine.quotas.table().overflowed;
                let arrival =
                    if waits { self.engine.arrive(self.now, &ask) } else { self.engine.arrive_now(self.now, &ask) };
                let has_entry = self.engine.quotas.table().overflowed == overflowed;
                let metrics = if self.mode == Mode::Off { NOBODY } else { self.expected.come(name, has_entry) };
                match arrival {
                    Arrival::Admit(slot) => self.runs(metrics, slot),
                    Arrival::Wait(place) => self.waiting.push((metrics, place)),
                    Arrival::Reject(refusal) => self.expected.end(metrics, outcome_of(&refusal)),
                    Arrival::Ask(..) => unreachable!("no rule is shared"),
                }
            }
            Step::Observe { which, outcome } if !self.running.is_empty() => {
                let which = which % self.running.len();
                self.observe(which, outcome);
            }
            Step::Finish { which, outcome } if !self.running.is_empty() => {
                let which = which % self.running.len();
                self.observe(which, outcome);
                let mut done = self.running.swap_remove(which);
                self.engine.finish(self.now, &mut done.slot);
            }
            Step::Leave { which } if !self.waiting.is_empty() => {
                let (metrics, place) = self.waiting.swap_remove(which % self.waiting.len());
                self.engine.cancel(self.now, &place);
                self.expected.end(metrics, LabelOutcome::Cancelled);
            }
            Step::Pass { seconds } => {
                self.now = self.now.after(Duration::from_secs(seconds));
                self.engine.tick(self.now);
            }
            Step::Mode(mode) => {
                self.mode = mode;
                self.engine.set_mode(self.now, mode);
            }
            _ => {}
        }
        while let Some(key) = self.engine.take_notice() {
            let Some(which) = self.waiting.iter().position(|(_, place)| place.key() == key) else { continue };
            let (metrics, place) = self.waiting.swap_remove(which);
            match self.engine.claim(self.now, &place) {
                Poll::Ready(Ok(slot)) => self.runs(metrics, slot),
                Poll::Ready(Err(refusal)) => self.expected.end(metrics, outcome_of(&refusal)),
                Poll::Pending => panic!("a wait ended without an answer"),
            }
        }
        while self.engine.take_expired().is_some() {}
        self.engine.check_all();
    }

    fn observe(&mut self, which: usize, outcome: Outcome) {
        let one = &mut self.running[which];
        if !one.slot.is_observed() {
            self.engine.observe(self.now, &mut one.slot, outcome);
            self.expected.end(one.metrics, LabelOutcome::of_ended(outcome));
        }
    }

    fn compare(&self) {
        let all = self.engine.label_metrics(0, usize::MAX);
        assert!(all.len() <= 4, "{all:?}");
        for metrics in &all {
            let name = NAMES.into_iter().find(|name| **name == *metrics.name.label).unwrap();
            let requests = self.expected.requests.get(name).copied().unwrap_or(0);
            assert_eq!(metrics.counts.requests, requests, "requests of {name:?}");
            for (outcome, count) in LabelOutcome::ALL.into_iter().zip(metrics.counts.outcomes) {
                let expected = self.expected.outcomes.get(&(name, outcome)).copied().unwrap_or(0);
                assert_eq!(count, expected, "{outcome:?} of {name:?}");
            }
            let runs = |it: &&Running| it.metrics == name && it.slot.is_counted() && self.now < it.until;
            let running = self.running.iter().filter(runs);
            assert_eq!(metrics.in_flight, running.count(), "in flight of {name:?}");
            let waiting = self.waiting.iter().filter(|(metrics, _)| *metrics == name).count();
            assert_eq!(metrics.waiting, waiting, "waiting of {name:?}");
            assert_eq!(metrics.counts.times.rtt.count(), outcome(metrics, LabelOutcome::Success));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: seeds(), ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_counted_once_and_where_it_belongs(
        steps in prop::collection::vec(step(), 1..120),
        max_labels in 1usize..6,
        lends in any::<bool>(),
    ) {
        let time_to_live = lends.then_some(3 * SECOND);
        let engine = Engine::new(Plan { time_to_live, ..plan(3, max_labels, &["gold"]) });
        let expected = Expected { own: vec!["gold"], ..Expected::default() };
        let (running, waiting) = (Vec::new(), Vec::new());
        let mut stage = Stage { engine, now: at(0), mode: Mode::Enforce, expected, running, waiting };
        for step in &steps {
            stage.take(step);
            stage.compare();
        }
    }
}
