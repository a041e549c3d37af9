//! The promises to waiters, as properties and tried with random callers.

mod conservation;
mod deadlines;
mod labels;
mod turns;

use std::{task::Poll, time::Duration};

use crate::{
    Arrival, Ask, Engine, PartitionId, Place, Refusal, Slot, Subject,
    limit::{Fixed, Limit},
    plan::{Bound, Discipline, LabelPlan, LabelRule, PartitionPlan, Places, Plan},
    shares::WHOLE,
};
use crate::{Criticality, Timestamp};

const SECOND: Duration = Duration::from_secs(1);
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A caller, and its number in the order of arrival.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Caller {
    label: &'static str,
    level: usize,
    number: u64,
}

/// An engine and its callers. A caller that is granted a slot fetches it at once.
struct Room {
    engine: Engine,
    now: Timestamp,
    waiting: Vec<(Caller, Place)>,
    running: Vec<(Caller, Slot)>,
    /// Callers in the order of their grants; callers that didn't have to wait are not among them.
    granted: Vec<Caller>,
    refused: Vec<(Caller, Refusal)>,
    arrived: u64,
}

/// Returns a plan of one partition, a line of `places` in front of `slots`, and waits without a bound.
fn plan(slots: usize, places: usize) -> Plan {
    let partitions = vec![PartitionPlan::burst("default", WHOLE)];
    let labels =
        LabelPlan { max_waiting: usize::MAX, max_waiting_per_run: usize::MAX, wait: None, ..LabelPlan::default() };
    Plan {
        labels,
        ..Plan::plain(
            Limit::from(Fixed::new(slots)).into_law(),
            partitions,
            Bound::of(places, None),
            Bound::of(0, None),
        )
    }
}

/// Gives labels the rules of the same position.
fn with_rules(mut plan: Plan, rules: impl IntoIterator<Item = LabelRule>) -> Plan {
    plan.labels.rules = NAMES.into_iter().map(|name| (None, name.into())).zip(rules).collect();
    plan
}

impl Room {
    fn new(plan: Plan) -> Self {
        let (waiting, running, granted, refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { engine: Engine::new(plan), now: Timestamp::ZERO, waiting, running, granted, refused, arrived: 0 }
    }

    /// Sends a plain request of this label.
    fn ask(&mut self, label: &'static str) {
        self.arrive(label, 1, None, None);
    }

    fn arrive(&mut self, label: &'static str, level: usize, run: Option<&str>, deadline_in: Option<Duration>) {
        self.arrived += 1;
        let caller = Caller { label, level, number: self.arrived };
        let ask = Ask {
            criticality: Criticality::ALL[level],
            subject: Some(Subject::new("", label, run)),
            deadline: deadline_in.map_or(Timestamp::NEVER, |deadline_in| self.now.after(deadline_in)),
            ..Ask::of(PartitionId::DEFAULT)
        };
        match self.engine.arrive(self.now, &ask) {
            Arrival::Admit(slot) => self.running.push((caller, slot)),
            Arrival::Wait(place) => self.waiting.push((caller, place)),
            Arrival::Ask(..) => unreachable!("no rule is shared"),
            Arrival::Reject(refusal) => self.refused.push((caller, refusal)),
        }
        self.answer();
    }

    /// Gives back the slot of a caller.
    fn free(&mut self, which: usize) {
        if !self.running.is_empty() {
            let (_, mut slot) = self.running.remove(which % self.running.len());
            self.engine.finish(self.now, &mut slot);
            self.answer();
        }
    }

    /// Ends the wait of a caller that leaves.
    fn leave(&mut self, which: usize) {
        if !self.waiting.is_empty() {
            let (_, place) = self.waiting.remove(which % self.waiting.len());
            self.engine.cancel(self.now, &place);
            self.answer();
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.engine.tick(self.now);
        self.answer();
    }

    /// Has the callers whose wait ended fetch their answers, in the order in which the waits ended.
    fn answer(&mut self) {
        while let Some(key) = self.engine.take_notice() {
            let index = self.waiting.iter().position(|(_, place)| place.key() == key).unwrap();
            let (caller, place) = self.waiting.remove(index);
            match self.engine.claim(self.now, &place) {
                Poll::Ready(Ok(slot)) => {
                    self.running.push((caller, slot));
                    self.granted.push(caller);
                }
                Poll::Ready(Err(refusal)) => self.refused.push((caller, refusal)),
                Poll::Pending => panic!("a wait ended without an answer"),
            }
        }
        while self.engine.take_expired().is_some() {}
        self.engine.check_all();
    }

    fn waiting_of(&self, label: &str) -> usize {
        self.waiting.iter().filter(|(caller, _)| caller.label == label).count()
    }
}
