//! New settings for a handle that is at work.
//!
//! No request is evicted and nothing is forgotten that still counts: running requests keep their slots, waiters keep
//! their places, and what was used of a rate stays used. Partitions, labels and classes are known by name. A partition
//! that is gone drains, and comes back as it was if it is named again. A bound that shrank is honoured by the next
//! decision.

use std::sync::Arc;

use crate::{
    engine::{
        Engine,
        plan::{PartitionPlan, Plan},
        telemetry::{ChangeEvent, short},
    },
    time::Timestamp,
};

impl Engine {
    /// Returns how many partitions there would be with these settings, those included that are gone.
    pub(crate) fn partitions_with(&self, plan: &Plan) -> usize {
        let known = |it: &&PartitionPlan| self.capacity.partitions().any(|(_, known)| *known.name() == it.name);
        self.capacity.len() + plan.partitions.iter().filter(|it| !known(it)).count()
    }

    /// Takes new settings. Returns the names of the partitions that are new, in the order of their numbers.
    pub(crate) fn reload(&mut self, now: Timestamp, plan: Plan) -> Vec<Arc<str>> {
        let now = self.advance(now);
        let queue = plan.queue();
        let Plan { law, shadow, partitions, labels, rules, time_to_live, journal, .. } = plan;
        let from = short(self.capacity.limit());
        self.controller.replace(law, shadow);
        let added = self.capacity.replace(partitions);
        self.capacity.resize(self.controller.limit());
        self.queue.replace(self.capacity.len(), queue);
        self.slot_ttl.replace(time_to_live);
        let controller = &mut self.controller;
        self.quotas.replace(now, labels, rules, |name| controller.class(name));
        for label in self.quotas.ids() {
            self.queue.weigh(label, self.quotas.label(label).weight());
            self.queue.throttle(label, self.quotas.is_full(label));
        }
        self.telemetry.replace(self.capacity.len(), journal);
        self.open_series();
        self.find_extras();
        self.note_change(now, ChangeEvent::Reload { from });
        self.dispatch(now);
        added
    }
}
