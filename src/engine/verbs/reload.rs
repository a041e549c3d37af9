//! Other settings for a handle that is at work.
//!
//! Nobody is evicted and nothing is forgotten that still counts: what runs keeps its slot, what waits keeps its place, and
//! what was used of a rate stays used. Partitions, labels and classes are known by name. One that is gone drains and comes
//! back as it was if it is named again; a bound that shrank is honoured by the next decision.

use std::sync::Arc;

use crate::engine::{
    Engine, Partition,
    journal::Event,
    plan::{Discipline, PartitionMode, PartitionPlan, Plan},
};
use crate::time::Timestamp;

impl Engine {
    /// How many partitions there would be with these settings, those included that are gone.
    pub(crate) fn partitions_with(&self, plan: &Plan) -> usize {
        let known = |it: &&PartitionPlan| self.capacity.partitions.iter().any(|known| known.plan.name == it.name);
        self.capacity.partitions.len() + plan.partitions.iter().filter(|it| !known(it)).count()
    }

    /// Takes other settings. Answers the names of the partitions that are new, in the order of their numbers.
    pub(crate) fn reload(&mut self, now: Timestamp, plan: Plan) -> Vec<Arc<str>> {
        let now = self.advance(now);
        let Plan { law, partitions, line, gate, queue, discipline, aging, labels, rules, .. } = plan;
        let Plan { time_to_live, journal, shadow, .. } = plan;
        self.controller.replace(law, shadow);
        let added = self.replace_partitions(partitions);
        (self.queue.line, self.queue.gate, self.queue.queue) = (line, gate, queue);
        self.queue.discipline = discipline;
        self.slot_ttl.replace(time_to_live);
        let by_arrival = discipline == Discipline::Fifo;
        self.queue.waiting.reorder(self.capacity.partitions.len(), by_arrival, aging);
        self.quotas.rules.replace(now, rules);
        let controller = &mut self.controller;
        self.quotas.rules.number_classes(|name| controller.class(name));
        self.quotas.labels.replace(now, labels, &mut self.quotas.rules);
        for label in self.quotas.labels.ids() {
            self.queue.waiting.weigh(label, self.quotas.labels.get(label).rule.weight);
            self.queue.waiting.park(label, self.quotas.labels.is_full(label));
        }
        self.clear_reserved();
        self.reserve_series();
        self.telemetry.reloads += 1;
        self.expect_anew();
        let from = self.limit_as_noted();
        self.resize(self.controller.limit());
        self.telemetry.journal.resize(journal);
        self.note_change(now, Event::Reload { from });
        self.settle(now);
        added
    }

    fn replace_partitions(&mut self, plans: Vec<PartitionPlan>) -> Vec<Arc<str>> {
        for it in &mut self.capacity.partitions {
            it.retired = true;
            it.plan.part = 0;
            it.plan.mode = PartitionMode::Burst;
            it.plan.observes = false;
        }
        let mut added = Vec::new();
        for plan in plans {
            match self.capacity.partitions.iter_mut().find(|it| it.plan.name == plan.name) {
                Some(it) => (it.plan, it.retired) = (plan, false),
                None => {
                    added.push(plan.name.clone());
                    self.capacity.partitions.push(Partition::new(plan));
                }
            }
        }
        self.capacity.parts = self.capacity.partitions.iter().map(|it| it.plan.part).collect();
        self.capacity.shares = vec![0; self.capacity.parts.len()];
        self.capacity.overcommits = self.capacity.partitions.iter().any(|it| it.plan.passes_limit());
        added
    }
}
