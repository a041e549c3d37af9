//! What holds after every verb, computed anew from the waiters and the tokens: slow, and for tests alone.

use std::collections::BTreeMap;

use crate::engine::{
    Engine, Key, Partition, Stage, ids::LabelId, plan::Mode, runs, slot::OUTSIDE, tokens::Holder, waiters::Waiter,
};
use crate::time::Timestamp;

impl Engine {
    /// Asserts what holds after every verb. See the module `engine`.
    pub(crate) fn check(&self) {
        let sum = |count: fn(&Partition) -> usize| self.capacity.partitions.iter().map(count).sum::<usize>();
        assert_eq!(self.capacity.running, sum(|it| it.running), "running requests are conserved");
        let all = || (0..=u16::MAX).take(self.capacity.partitions.len());
        assert_eq!(
            self.queue.in_line,
            all().map(|it| self.queue.waiting.in_line(it)).sum::<usize>(),
            "waiters in line are conserved"
        );
        assert_eq!(
            self.queue.at_gate,
            all().map(|it| self.queue.waiting.at_gate(it)).sum::<usize>(),
            "waiters at the gate are conserved"
        );
        assert_eq!(self.capacity.outside, sum(|it| it.outside), "requests outside of the limit are conserved");
        assert!(self.queue.waiting.len() >= self.queue.in_line + self.queue.at_gate, "every waiter has an entry");
        assert_eq!(
            self.capacity.running,
            self.capacity.running_by_level.iter().sum::<usize>(),
            "running requests have a level"
        );
        assert!(self.capacity.limit >= 1, "the limit is never below 1");
        for partition in all() {
            let stuck = self.partition_is_served(partition) && self.queue.waiting.next(partition).is_some();
            assert!(!stuck || !self.lifecycle.enforces(), "a free slot and a waiter that may take it coexist");
            let enters = self.queue.waiting.first_at_gate(partition).is_some() && self.line_has_room(partition);
            assert!(!enters, "room in the line and a waiter at the gate coexist");
        }
        assert!(
            self.lifecycle.enforces() || self.queue.in_line + self.queue.at_gate == 0,
            "nobody waits for what doesn't bind"
        );
    }

    /// Asserts everything that is kept twice, once as it is and once as a sum, a set or a heap.
    pub(crate) fn check_all(&self) {
        self.check();
        // Rules park flows as well, whatever the standing of their label.
        if self.quotas.rules.is_empty() {
            self.queue.waiting.check_all(|label| self.quotas.labels.standing(label));
        }
        self.quotas.labels.check_all();
        let live = self.queue.waiting.live();
        let standing = || live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Line | Stage::Gate));
        let count = |stage| standing().filter(|(_, waiter)| waiter.stage == stage).count();
        assert_eq!(
            (self.queue.in_line, self.queue.at_gate),
            (count(Stage::Line), count(Stage::Gate)),
            "waiters are conserved"
        );
        for id in self.quotas.labels.ids() {
            let waiting = standing().filter(|(_, waiter)| waiter.label == id).count();
            assert_eq!(self.quotas.labels.get(id).waiting, waiting, "a label's waiters are counted");
            let one = self.quotas.labels.get(id);
            assert!(one.outside <= one.running && one.beyond_running <= one.beyond, "marks are counted");
        }
        let outside: usize = self.quotas.labels.ids().map(|id| self.quotas.labels.get(id).outside).sum();
        assert_eq!(self.capacity.outside, outside, "what runs outside of the limit has a label");
        self.check_deadlines(&live);
        self.check_runs(&live);
        self.check_holders(&live);
        self.check_reserved();
    }

    fn check_deadlines(&self, live: &[(Key, &Waiter)]) {
        let expected: BTreeMap<_, _> = live
            .iter()
            .filter(|(_, waiter)| waiter.deadline != Timestamp::NEVER)
            .map(|(key, waiter)| (key.index, waiter.deadline))
            .collect();
        assert_eq!(self.queue.deadlines.members(), expected, "exactly those whose wait can end have a deadline");
        for (_, waiter) in live {
            let waits = matches!(waiter.stage, Stage::Line | Stage::Gate);
            assert!(waits || waiter.deadline == Timestamp::NEVER, "the wait of one that was answered can't end");
            assert!(!waits || waiter.deadline <= waiter.caller_deadline, "nobody waits longer than its caller");
        }
        let first_worker = self.quotas.labels.ids().filter_map(|id| self.quotas.labels.get(id).workers.as_ref());
        let first_worker = first_worker.map(|workers| workers.next_silence()).min().unwrap_or(Timestamp::NEVER);
        assert!(self.quotas.workers_due <= first_worker, "no worker falls silent unseen");
    }

    fn check_runs(&self, live: &[(Key, &Waiter)]) {
        let mut expected: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, waiter) in live.iter().filter(|(_, waiter)| waiter.run != runs::NONE) {
            assert!(matches!(waiter.stage, Stage::Line | Stage::Gate), "who waits no more is not counted for its run");
            *expected.entry(waiter.run).or_default() += 1;
        }
        assert_eq!(self.queue.runs.counts(), expected, "the waiters of each run are counted");
    }

    /// Where slots are lent, every slot is somebody's: one that was granted and not fetched, or one that is lent.
    fn check_holders(&self, live: &[(Key, &Waiter)]) {
        let granted = live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Granted { .. }));
        let mut holders: Vec<Holder> = granted.map(|(_, it)| it.holder()).collect();
        let by_label: usize = self.quotas.labels.ids().map(|id| self.quotas.labels.get(id).running).sum();
        assert_eq!(self.capacity.running + self.capacity.outside, by_label, "running requests have a label");
        if self.slot_ttl.time_to_live().is_some() {
            holders.extend(self.slot_ttl.holders());
            assert_eq!(self.capacity.running + self.capacity.outside, holders.len(), "every slot is somebody's");
            for id in self.quotas.labels.ids() {
                let running = holders.iter().filter(|holder| holder.label == id).count();
                assert_eq!(self.quotas.labels.get(id).running, running, "a label's slots are counted");
            }
        }
        let at_most = |sum: usize, found: usize| assert!(found <= sum, "what was granted is counted as running");
        for id in self.quotas.labels.ids() {
            at_most(self.quotas.labels.get(id).running, holders.iter().filter(|it| it.label == id).count());
        }
        holders.retain(|holder| holder.shadow & OUTSIDE == 0);
        for (level, &running) in self.capacity.running_by_level.iter().enumerate() {
            at_most(running, holders.iter().filter(|it| usize::from(it.level) == level).count());
        }
        for (partition, it) in (0..).zip(&self.capacity.partitions) {
            at_most(it.running, holders.iter().filter(|holder| holder.partition == partition).count());
        }
    }

    fn check_reserved(&self) {
        self.capacity.reserved.check_all(self.capacity.limit);
        let nobody_can_wait = self.queue.line.places.count(self.capacity.limit) == 0;
        assert!(
            nobody_can_wait || !self.capacity.reserved.are_for_labels_or_levels(),
            "held back for labels that can wait"
        );
        let default = self.quotas.labels.get(LabelId::DEFAULT);
        assert!(default.workers.is_none() && default.rule.cap.is_none(), "who has no label has no bound of its own");
    }
}
