//! What laws are told of requests: whether an answer came too late, and whether others were refused beside free slots.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    Arrival, Ask, Engine, PartitionId, Slot,
    limit::{LimitAlgorithm, Sample},
    plan::{Bound, PartitionMode, PartitionPlan, Places, Plan},
    shares::WHOLE,
};
use crate::{Outcome, Timestamp};

/// A law that keeps its samples.
#[derive(Clone, Debug, Default)]
struct Keeps(Arc<Mutex<Vec<Sample>>>);

impl LimitAlgorithm for Keeps {
    fn limit(&self) -> usize {
        4
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.0.lock().unwrap().push(sample.clone());
    }
}

fn engine(mode: PartitionMode, law: &Keeps) -> Engine {
    let half = |name: &str| PartitionPlan { name: name.into(), part: WHOLE / 2, mode, observes: false, withheld: 0 };
    let none = || Bound { places: Places::Exactly(0), wait: None };
    Engine::new(Plan::plain(Box::new(law.clone()), vec![half("default"), half("other")], none(), none()))
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO.after(Duration::from_millis(millis))
}

fn arrive(engine: &mut Engine, now: Timestamp, deadline: Timestamp) -> Option<Slot> {
    match engine.arrive(now, &Ask { deadline, ..Ask::of(PartitionId::DEFAULT) }) {
        Arrival::Admit(slot) => Some(slot),
        _ => None,
    }
}

/// Runs a request that takes 10 ms, and returns its sample.
fn sample_of(engine: &mut Engine, law: &Keeps, mut slot: Slot, outcome: Outcome) -> Sample {
    engine.observe(at(10), &mut slot, outcome);
    engine.finish(at(10), &mut slot);
    law.0.lock().unwrap().pop().unwrap()
}

#[test]
fn an_answer_after_its_deadline_is_no_answer_for_a_law() {
    let ended = |deadline, outcome| {
        let law = Keeps::default();
        let mut engine = engine(PartitionMode::Burst, &law);
        let slot = arrive(&mut engine, at(0), deadline).unwrap();
        sample_of(&mut engine, &law, slot, outcome).outcome
    };
    assert_eq!(ended(at(9), Outcome::Success), Outcome::Cancelled);
    assert_eq!(ended(at(9), Outcome::Overload), Outcome::Overload, "what the service says itself stands");
    for in_time in [at(10), at(11), Timestamp::NEVER] {
        assert_eq!(ended(in_time, Outcome::Success), Outcome::Success, "{in_time:?}");
    }
}

#[test]
fn a_law_hears_of_a_refusal_beside_free_slots_once() {
    let law = Keeps::default();
    let mut engine = engine(PartitionMode::HardCap, &law);
    let mut slots: Vec<_> = (0..2).filter_map(|_| arrive(&mut engine, at(0), Timestamp::NEVER)).collect();
    for _ in 0..2 {
        assert!(arrive(&mut engine, at(0), Timestamp::NEVER).is_none(), "two of four slots are its cap");
    }
    assert!(sample_of(&mut engine, &law, slots.remove(0), Outcome::Success).refused);
    assert!(!sample_of(&mut engine, &law, slots.remove(0), Outcome::Success).refused, "none was refused since");
}

/// The control of the test above: without free slots the law sees by itself that the limit is met.
#[test]
fn a_refusal_by_the_limit_itself_is_nothing_new() {
    let law = Keeps::default();
    let mut engine = engine(PartitionMode::Burst, &law);
    let mut slots: Vec<_> = (0..4).filter_map(|_| arrive(&mut engine, at(0), Timestamp::NEVER)).collect();
    assert!(arrive(&mut engine, at(0), Timestamp::NEVER).is_none());
    let sample = sample_of(&mut engine, &law, slots.remove(0), Outcome::Success);
    assert_eq!((sample.refused, sample.in_flight, sample.running), (false, 1, 4));
    slots.iter_mut().for_each(|slot| engine.finish(at(11), slot));
}
