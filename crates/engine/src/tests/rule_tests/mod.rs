//! Caps, rates, budgets and pending bounds, on the engine and in virtual time.

mod counting;
mod model;
mod shared;
mod waiting;

use std::{task::Poll, time::Duration};

use crate::{
    Arrival, Ask, Engine, PartitionId, Place, Refusal, Slot, Subject,
    limit::{Fixed, Limit},
    plan::{Bound, LabelPlan, Mode, PartitionPlan, Plan},
    shares::WHOLE,
};
use crate::{
    Reason, RuleSnapshot, Timestamp,
    rules::{OnStoreFailure, RateMode, WhenFull},
    settings::{Cap, ClassLimits, Rate, Rules},
};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

fn plan(limit: usize, rules: Rules) -> Plan {
    plan_shared(limit, rules, None)
}

/// Like `plan`, where rules are counted for all instances.
fn plan_shared(limit: usize, rules: Rules, shared: Option<OnStoreFailure>) -> Plan {
    let whole = PartitionPlan::burst("default", WHOLE);
    let places = |count| Bound::of(count, None);
    let mut problems = Vec::new();
    let rules = rules.into_plan(shared, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    let law = Limit::from(Fixed::new(limit)).into_law();
    let labels = LabelPlan { max_waiting: 1_000_000, wait: None, ..LabelPlan::default() };
    Plan { labels, rules, ..Plan::plain(law, vec![whole], places(1_000_000), places(0)) }
}

/// An engine, and the time on its clock.
struct Desk {
    engine: Engine,
    now: Timestamp,
}

impl Desk {
    fn new(limit: usize, rules: Rules) -> Self {
        Self::of(plan(limit, rules))
    }

    fn of(plan: Plan) -> Self {
        Self { engine: Engine::new(plan), now: Timestamp::ZERO }
    }

    fn pass(&mut self, nanos: u64) {
        self.now = self.now.after(Duration::from_nanos(nanos));
        self.engine.tick(self.now);
    }

    fn ask<'a>(&mut self, class: &str, namespace: &'a str, label: &'a str) -> Ask<'a> {
        let subject = Subject::new(namespace, label, None);
        Ask { class: self.engine.class(class), subject: Some(subject), ..Ask::of(PartitionId::DEFAULT) }
    }

    fn arrive(&mut self, class: &str, namespace: &str, label: &str) -> Arrival {
        let ask = self.ask(class, namespace, label);
        self.engine.arrive(self.now, &ask)
    }

    /// Sends a request of namespace `ns` and of no class.
    fn one(&mut self, label: &str) -> Arrival {
        self.arrive("", "ns", label)
    }

    #[track_caller]
    fn runs(&mut self, label: &str) -> Slot {
        match self.one(label) {
            Arrival::Admit(slot) => slot,
            other => panic!("{label} does not run: {other:?}"),
        }
    }

    #[track_caller]
    fn waits(&mut self, label: &str) -> Place {
        match self.one(label) {
            Arrival::Wait(place) => place,
            other => panic!("{label} does not wait: {other:?}"),
        }
    }

    #[track_caller]
    fn refused(&mut self, label: &str) -> Refusal {
        match self.one(label) {
            Arrival::Reject(refusal) => refusal,
            other => panic!("{label} is not refused: {other:?}"),
        }
    }

    fn finish(&mut self, mut slot: Slot) {
        self.engine.finish(self.now, &mut slot);
    }

    fn claim(&mut self, place: &Place) -> Poll<Result<Slot, Refusal>> {
        self.engine.claim(self.now, place)
    }

    #[track_caller]
    fn granted(&mut self, place: &Place) -> Slot {
        match self.claim(place) {
            Poll::Ready(Ok(slot)) => slot,
            other => panic!("not granted: {other:?}"),
        }
    }

    fn is_pending(&mut self, place: &Place) -> bool {
        self.claim(place).is_pending()
    }

    /// Returns the rules of a label, as they are seen from outside.
    fn rules(&self, class: &str, namespace: &str, label: &str) -> Vec<RuleSnapshot> {
        let subject = Subject::new(namespace, label, None);
        self.engine.find_label(Some(class), &subject).map_or_else(Vec::new, |label| label.rules)
    }

    /// Returns the use of one of these rules.
    #[track_caller]
    fn used(&self, class: &str, namespace: &str, label: &str, rule: &str) -> usize {
        let rules = self.rules(class, namespace, label);
        rules.iter().find(|it| it.rule == rule).map(|it| it.used).expect("there is such a rule")
    }
}

/// Limits with one rule of each kind that is charged at the start, and the reason that each gives.
fn each_kind(bound: u32, mode: RateMode, when_full: WhenFull) -> [(Reason, ClassLimits); 5] {
    let cap = Cap::from(bound as usize).when_full(when_full);
    let rate = Rate::from(bound).mode(mode).when_full(when_full);
    [
        (Reason::LabelCap, ClassLimits::new().max_in_flight(cap)),
        (Reason::NamespaceCap, ClassLimits::new().max_in_flight_per_namespace(cap)),
        (Reason::Rate, ClassLimits::new().max_per_minute(rate)),
        (Reason::Rate, ClassLimits::new().max_per_minute_per_namespace(rate)),
        (Reason::Budget, ClassLimits::new().budget("shared", rate)),
    ]
}

const fn smooth(burst: u32) -> RateMode {
    RateMode::Smooth { burst: std::num::NonZeroU32::new(burst).expect("not zero") }
}
