//! A store, an instance that asks it, and others: random verbs, after each of which every waiter that was granted a
//! slot asks.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Desk, desk};
use crate::{Arrival, Counted, Place, Slot, settings::ClassLimits, tokens::Stage};

#[derive(Clone, Debug)]
enum Verb {
    Arrive(usize),
    Answer(usize),
    Finish(usize),
    Cancel(usize),
    LookAgain(usize),
    Others(usize, usize),
}

/// The store, an instance, and what others hold of a cap of 4 for each of three labels.
struct World {
    desk: Desk,
    others: [usize; 3],
    held: [usize; 3],
    places: VecDeque<(usize, u64, Place)>,
    slots: Vec<(usize, Slot)>,
    arrived: u64,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl World {
    fn new(limit: usize) -> Self {
        let desk = desk(limit, ClassLimits::new().max_in_flight(4));
        Self { desk, others: [0; 3], held: [0; 3], places: VecDeque::new(), slots: Vec::new(), arrived: 0 }
    }

    fn asking(&self, label: usize) -> Vec<usize> {
        let asking =
            self.places.iter().enumerate().filter(|(_, (it, _, place))| *it == label && self.desk.may_ask(place));
        asking.map(|(index, _)| index).collect()
    }

    /// Has the store answer a request.
    fn answer(&mut self, index: usize) {
        let (label, number, place) = self.places.remove(index).unwrap();
        if self.others[label] + self.held[label] < 4 {
            self.held[label] += 1;
            let slot = self.desk.granted(&place);
            self.slots.push((label, slot));
        } else {
            self.desk.put_back(&place);
            self.places.push_back((label, number, place));
        }
    }

    fn step(&mut self, verb: &Verb) {
        match *verb {
            Verb::Arrive(label) => {
                self.arrived += 1;
                match self.desk.one(NAMES[label]) {
                    Arrival::Ask(place, _) | Arrival::Wait(place) => {
                        self.places.push_back((label, self.arrived, place))
                    }
                    other => panic!("{other:?}"),
                }
            }
            Verb::Answer(which) => {
                let all: Vec<_> = (0..3).flat_map(|label| self.asking(label)).collect();
                if !all.is_empty() {
                    self.answer(all[which % all.len()]);
                }
            }
            Verb::Finish(which) if !self.slots.is_empty() => {
                let (label, slot) = self.slots.swap_remove(which % self.slots.len());
                self.held[label] -= 1;
                self.desk.finish(slot);
            }
            Verb::Cancel(which) if !self.places.is_empty() => {
                let (_, _, place) = self.places.remove(which % self.places.len()).unwrap();
                self.desk.engine.cancel(self.desk.now, &place);
            }
            Verb::LookAgain(which) if !self.places.is_empty() => {
                let place = &self.places[which % self.places.len()].2;
                let label = self.desk.engine.queue.get(place.key()).label;
                self.desk.engine.retry_remote(self.desk.now, label, Counted::LabelCap);
            }
            Verb::Others(label, held) => self.others[label] = held,
            Verb::Finish(_) | Verb::Cancel(_) | Verb::LookAgain(_) => {}
        }
        self.check();
    }

    fn check(&self) {
        self.desk.engine.check();
        let asking: usize = (0..3).map(|label| self.asking(label).len()).sum();
        assert_eq!(self.desk.in_flight(), self.slots.len() + asking, "who holds a slot runs or asks");
        let snapshot = self.desk.engine.snapshot();
        assert_eq!(snapshot.waiting, self.places.len() - asking);
        let named = self.desk.engine.all_labels();
        for (label, name) in NAMES.iter().enumerate() {
            let running = self.slots.iter().filter(|(it, _)| *it == label).count() + self.asking(label).len();
            let seen = named.iter().find(|it| it.name == *name).map_or(0, |it| it.in_flight);
            assert_eq!(seen, running);
        }
        for (label, _, place) in &self.places {
            let waits = !matches!(self.desk.engine.queue.get(place.key()).stage, Stage::Granted { .. });
            assert!(waits || self.desk.may_ask(place), "{label}: who was granted a slot has to ask");
        }
    }

    /// Asserts that all waiters get in after others give everything back and running requests end.
    fn all_get_in(&mut self) {
        self.others = [0; 3];
        for _ in 0..1_000 {
            while !self.slots.is_empty() {
                self.step(&Verb::Finish(0));
            }
            if self.places.is_empty() {
                return;
            }
            (0..self.places.len()).for_each(|which| self.step(&Verb::LookAgain(which)));
            self.step(&Verb::Answer(0));
        }
        panic!("somebody waits for ever: {:?}", self.places);
    }
}

fn verbs() -> impl Strategy<Value = Vec<Verb>> {
    let verb = prop_oneof![
        4 => (0..3usize).prop_map(Verb::Arrive),
        6 => any::<usize>().prop_map(Verb::Answer),
        3 => any::<usize>().prop_map(Verb::Finish),
        1 => any::<usize>().prop_map(Verb::Cancel),
        2 => any::<usize>().prop_map(Verb::LookAgain),
        1 => (0..3usize, 0..=4usize).prop_map(|(label, held)| Verb::Others(label, held)),
    ];
    proptest::collection::vec(verb, 1..120)
}

proptest! {
    #[test]
    fn slots_and_waiters_are_conserved_and_none_is_forgotten(limit in 1..8usize, verbs in verbs()) {
        let mut world = World::new(limit);
        for verb in &verbs {
            world.step(verb);
        }
        world.all_get_in();
        prop_assert_eq!(world.desk.in_flight(), 0);
    }
}

/// Found by the runs above.
#[test]
fn a_request_that_leaves_after_another_was_answered_leaves_no_slot_behind() {
    let mut world = World::new(3);
    for verb in [Verb::Arrive(0), Verb::Arrive(0), Verb::Answer(0), Verb::Cancel(0)] {
        world.step(&verb);
    }
    world.all_get_in();
    assert_eq!(world.desk.in_flight(), 0);
}
