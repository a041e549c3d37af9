//! Other settings for a handle that is at work.
//!
//! Nobody is evicted and nothing is forgotten that still counts: what runs keeps its slot, what waits keeps its place, and
//! what was used of a rate stays used. Partitions, labels and classes are known by name. One that is gone drains and comes
//! back as it was if it is named again; a bound that shrank is honoured by the next decision.

use std::sync::Arc;

use super::{
    Engine, Partition,
    journal::Event,
    plan::{Discipline, PartitionMode, PartitionPlan, Plan},
};
use crate::time::Timestamp;

impl Engine {
    /// How many partitions there would be with these settings, those included that are gone.
    pub(crate) fn partitions_with(&self, plan: &Plan) -> usize {
        let known = |it: &&PartitionPlan| self.partitions.iter().any(|known| known.plan.name == it.name);
        self.partitions.len() + plan.partitions.iter().filter(|it| !known(it)).count()
    }

    /// Takes other settings. Answers the names of the partitions that are new, in the order of their numbers.
    pub(crate) fn reload(&mut self, now: Timestamp, plan: Plan) -> Vec<Arc<str>> {
        let now = self.advance(now);
        let Plan { mut law, partitions, line, gate, queue, discipline, aging, labels, rules, .. } = plan;
        let Plan { time_to_live, journal, shadow, .. } = plan;
        if law.kind() == self.law.kind() {
            law.adopt(self.law.limit());
        }
        self.law = law;
        self.shadow.replace(shadow);
        let added = self.replace_partitions(partitions);
        (self.line, self.gate, self.queue) = (line, gate, queue);
        (self.discipline, self.time_to_live) = (discipline, time_to_live);
        let by_arrival = discipline == Discipline::Fifo;
        self.waiting.reorder(self.partitions.len(), by_arrival, aging);
        self.rules.replace(now, rules);
        let classes = &mut self.classes;
        self.rules.number_classes(|name| classes.number(name));
        self.labels.replace(now, labels, &mut self.rules);
        for label in self.labels.ids() {
            self.waiting.weigh(label, self.labels.get(label).rule.weight);
            self.waiting.park(label, self.labels.is_full(label));
        }
        self.clear_reserved();
        self.reserve_series();
        self.reloads += 1;
        self.expect_anew();
        let from = self.limit_as_noted();
        self.resize(self.law.limit());
        self.journal.resize(journal);
        self.note_change(now, Event::Reload { from });
        self.settle(now);
        added
    }

    fn replace_partitions(&mut self, plans: Vec<PartitionPlan>) -> Vec<Arc<str>> {
        for it in &mut self.partitions {
            it.retired = true;
            it.plan.part = 0;
            it.plan.mode = PartitionMode::Burst;
            it.plan.observes = false;
        }
        let mut added = Vec::new();
        for plan in plans {
            match self.partitions.iter_mut().find(|it| it.plan.name == plan.name) {
                Some(it) => (it.plan, it.retired) = (plan, false),
                None => {
                    added.push(plan.name.clone());
                    self.partitions.push(Partition::new(plan));
                }
            }
        }
        self.parts = self.partitions.iter().map(|it| it.plan.part).collect();
        self.shares = vec![0; self.parts.len()];
        self.overcommits = self.partitions.iter().any(|it| it.plan.passes_limit());
        added
    }
}
