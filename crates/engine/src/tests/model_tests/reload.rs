//! Reloads, modes and the end of the model, by looking at everything.

use super::{
    super::super::plan::{Discipline, Mode, PartitionMode},
    model::{Model, Person},
    queue::Flow,
    setup::{LabelSetup, Setup},
};
use crate::Reason;

impl Model {
    pub(super) fn set_mode(&mut self, mode: Mode) {
        if self.mode != mode {
            self.mode = mode;
            self.let_all_go();
        }
        self.settle();
    }

    pub(super) fn close(&mut self, serves_waiting: bool) {
        if !self.closed {
            self.closed = true;
            self.let_all_go();
        }
        if !serves_waiting {
            while let Some(index) = self.people.iter().position(Person::waits) {
                self.refuse(index, Reason::Draining);
            }
        }
        self.settle();
    }

    /// Returns the part of other settings that can be changed at work. How many labels are known and whether slots
    /// expire is checked as a whole; flows in order of arrival have no turns that could go on elsewhere.
    pub(super) fn reloaded(&self, other: &Setup) -> Setup {
        let (mine, mut setup) = (&self.setup, other.clone());
        if (mine.discipline == Discipline::Fifo) != (setup.discipline == Discipline::Fifo) {
            setup.discipline = mine.discipline;
        }
        let labels = LabelSetup { max_labels: mine.labels.max_labels, ..setup.labels };
        Setup { labels, time_to_live: mine.time_to_live, ..setup }
    }

    /// Takes other settings: partitions that are gone have no part any more, and no request is evicted.
    pub(super) fn reload(&mut self, mut setup: Setup) {
        let before: Vec<bool> = (0..self.labels.len()).map(|label| self.is_full(label)).collect();
        let known = self.retired.len().max(setup.parts.len());
        self.retired = (0..known).map(|partition| partition >= setup.parts.len()).collect();
        setup.parts.resize(known, (0, PartitionMode::Burst));
        self.served.resize(known, [0; 4]);
        self.passed_over.resize(known, [0; 4]);
        self.limit = setup.limit;
        self.setup = setup;
        for index in 0..self.flows.len() {
            let Flow { key, start, .. } = self.flows[index];
            self.flows[index].start = self.catch_up(key, start);
        }
        for (label, was_full) in before.into_iter().enumerate() {
            if was_full && !self.is_full(label) {
                self.unthrottle(label);
            }
        }
        self.let_all_go();
        self.settle();
    }
}
