//! What holds after every verb, computed anew from the waiters and the tokens: slow, and for tests alone.

use std::cmp::Ordering;

use crate::{
    Engine, Key,
    plan::Mode,
    tokens::{Holder, Marks, Stage, Waiter},
};

impl Engine {
    /// Asserts what holds after every verb. See the module `engine`.
    pub(crate) fn check(&self) {
        self.capacity.check(self.room().places > 0);
        self.queue.check(&self.capacity.numbers());
        for partition in self.capacity.numbers() {
            let has_next = || self.queue.next(|it| it == partition, |_| false, |_, _| Ordering::Equal).is_some();
            let stuck = self.is_served(partition) && has_next();
            let must_wait = self.capacity.slots().is_spaced_out || !self.lifecycle.enforces();
            assert!(!stuck || must_wait, "a free slot and a waiter that may take it coexist");
        }
        assert!(
            self.queue.lengths().at_gate == 0 || !self.room().in_line,
            "room in the line and a waiter at the gate coexist"
        );
        self.controller.check(self.capacity.running());
        let binds = self.lifecycle.standing().mode == Mode::Enforce;
        assert!(binds || self.queue.lengths().all() == 0, "no request waits for what doesn't bind");
    }

    /// Asserts everything that is stored twice, once as it is and once as a sum, a set or a heap.
    pub(crate) fn check_all(&self) {
        self.check();
        // Rules throttle flows as well, whatever the tag of their label.
        self.queue.check_all((!self.quotas.has_rules().any).then_some(|label| self.quotas.waits_by(label).0));
        self.quotas.check();
        let live = self.queue.live();
        let standing = || live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Line | Stage::Gate));
        for id in self.quotas.ids() {
            let waiting = standing().filter(|(_, waiter)| waiter.label == id).count();
            assert_eq!(self.quotas.label(id).waiting, waiting, "a label's waiters are counted");
        }
        assert_eq!(self.capacity.slots().over_limit, self.quotas.over_limit(), "what runs over the limit has a label");
        self.check_holders(&live);
        self.check_counts();
    }

    /// Asserts that every request that arrived was admitted, rejected or cancelled, or waits.
    fn check_counts(&self) {
        let granted = self.queue.live().iter().filter(|(_, it)| matches!(it.stage, Stage::Granted { .. })).count();
        let (mut arrived, mut ended) = (0, 0);
        for partition in self.capacity.numbers() {
            let counts = self.telemetry.counts(partition);
            arrived += counts.arrived;
            ended += counts.admitted + counts.cancelled_waiting + counts.rejected.iter().sum::<u64>();
        }
        assert_eq!(arrived, ended + (self.queue.lengths().all() + granted) as u64, "what arrived is accounted for");
    }

    /// Asserts that every slot that expires has a holder: a waiter that was granted it and has not fetched it, or a
    /// token.
    fn check_holders(&self, live: &[(Key, Waiter)]) {
        let granted = live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Granted { .. }));
        let mut holders: Vec<Holder> = granted.map(|(_, it)| it.holder()).collect();
        let by_label: usize = self.quotas.ids().map(|id| self.quotas.label(id).running).sum();
        let all = self.capacity.running() + self.capacity.slots().over_limit;
        assert_eq!(all, by_label, "running requests have a label");
        if self.slot_ttl.time_to_live().is_some() {
            holders.extend(self.slot_ttl.holders());
            assert_eq!(all, holders.len(), "every slot has a holder");
            for id in self.quotas.ids() {
                let running = holders.iter().filter(|holder| holder.label == id).count();
                assert_eq!(self.quotas.label(id).running, running, "a label's slots are counted");
            }
        }
        let at_most = |sum: usize, found: usize| assert!(found <= sum, "what was granted is counted as running");
        for id in self.quotas.ids() {
            at_most(self.quotas.label(id).running, holders.iter().filter(|it| it.label == id).count());
        }
        holders.retain(|holder| !holder.marks.has(Marks::OVER_LIMIT));
        for (level, running) in self.capacity.levels().into_iter().enumerate() {
            at_most(running, holders.iter().filter(|it| it.level.index() == level).count());
        }
        for (partition, it) in self.capacity.partitions() {
            at_most(it.running, holders.iter().filter(|holder| holder.partition == partition).count());
        }
    }
}
