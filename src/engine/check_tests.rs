//! What holds after every verb, computed anew from the waiters and the tokens: slow, and for tests alone.

use std::collections::BTreeMap;

use super::{Engine, Key, Stage, labels::LabelId, runs, slot::OUTSIDE, tenure::Holder, waiters::Waiter};
use crate::time::Timestamp;

impl Engine {
    /// Asserts everything that is kept twice, once as it is and once as a sum, a set or a heap.
    pub(super) fn check_all(&self) {
        self.check();
        self.waiting.check_all(|label| self.labels.standing(label));
        self.labels.check_all();
        let live = self.waiting.live();
        let standing = || live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Line | Stage::Gate));
        let count = |stage| standing().filter(|(_, waiter)| waiter.stage == stage).count();
        assert_eq!((self.in_line, self.at_gate), (count(Stage::Line), count(Stage::Gate)), "waiters are conserved");
        for id in self.labels.ids() {
            let waiting = standing().filter(|(_, waiter)| waiter.label == id).count();
            assert_eq!(self.labels.get(id).waiting, waiting, "a label's waiters are counted");
            let one = self.labels.get(id);
            assert!(one.outside <= one.running && one.beyond_running <= one.beyond, "marks are counted");
        }
        let outside: usize = self.labels.ids().map(|id| self.labels.get(id).outside).sum();
        assert_eq!(self.outside, outside, "what runs outside of the limit has a label");
        self.check_deadlines(&live);
        self.check_runs(&live);
        self.check_holders(&live);
        self.check_kept();
    }

    fn check_deadlines(&self, live: &[(Key, &Waiter)]) {
        let expected: BTreeMap<_, _> = live
            .iter()
            .filter(|(_, waiter)| waiter.deadline != Timestamp::NEVER)
            .map(|(key, waiter)| (key.index, waiter.deadline))
            .collect();
        assert_eq!(self.deadlines.members(), expected, "exactly those whose wait can end have a deadline");
        for (_, waiter) in live {
            let waits = matches!(waiter.stage, Stage::Line | Stage::Gate);
            assert!(waits || waiter.deadline == Timestamp::NEVER, "the wait of one that was answered can't end");
            assert!(!waits || waiter.deadline <= waiter.caller_deadline, "nobody waits longer than its caller");
        }
        let first_worker = self.labels.ids().filter_map(|id| self.labels.get(id).workers.as_ref());
        let first_worker = first_worker.map(|workers| workers.next_silence()).min().unwrap_or(Timestamp::NEVER);
        assert!(self.workers_due <= first_worker, "no worker falls silent unseen");
    }

    fn check_runs(&self, live: &[(Key, &Waiter)]) {
        let mut expected: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, waiter) in live.iter().filter(|(_, waiter)| waiter.run != runs::NONE) {
            assert!(matches!(waiter.stage, Stage::Line | Stage::Gate), "who waits no more is not counted for its run");
            *expected.entry(waiter.run).or_default() += 1;
        }
        assert_eq!(self.runs.counts(), expected, "the waiters of each run are counted");
    }

    /// Where slots are lent, every slot is somebody's: one that was granted and not fetched, or one that is lent.
    fn check_holders(&self, live: &[(Key, &Waiter)]) {
        let granted = live.iter().filter(|(_, waiter)| matches!(waiter.stage, Stage::Granted { .. }));
        let mut holders: Vec<Holder> = granted.map(|(_, it)| it.holder()).collect();
        let by_label: usize = self.labels.ids().map(|id| self.labels.get(id).running).sum();
        assert_eq!(self.running + self.outside, by_label, "running requests have a label");
        if self.time_to_live.is_some() {
            holders.extend(self.tenures.holders());
            assert_eq!(self.running + self.outside, holders.len(), "every slot is somebody's");
            for id in self.labels.ids() {
                let running = holders.iter().filter(|holder| holder.label == id).count();
                assert_eq!(self.labels.get(id).running, running, "a label's slots are counted");
            }
        }
        let at_most = |sum: usize, found: usize| assert!(found <= sum, "what was granted is counted as running");
        for id in self.labels.ids() {
            at_most(self.labels.get(id).running, holders.iter().filter(|it| it.label == id).count());
        }
        holders.retain(|holder| holder.shadow & OUTSIDE == 0);
        for (level, &running) in self.levels.running.iter().enumerate() {
            at_most(running, holders.iter().filter(|it| usize::from(it.level) == level).count());
        }
        for (partition, it) in (0..).zip(&self.partitions) {
            at_most(it.running, holders.iter().filter(|holder| holder.partition == partition).count());
        }
    }

    fn check_kept(&self) {
        let of_partitions = self.partitions.iter().flat_map(|it| [it.slots.until(), it.places.until()]);
        let of_labels = self.labels.ids().map(|id| self.labels.get(id).kept.until());
        let first = of_partitions.chain(of_labels).min().unwrap_or(Timestamp::NEVER);
        assert!(self.lets_go_at <= first, "whatever is kept is let go in time");
        let nobody_waits = self.in_line + self.at_gate == 0;
        assert!(nobody_waits || !self.keeps_for_some(), "room is kept for labels and levels where nobody can wait");
        let default = self.labels.get(LabelId::DEFAULT);
        assert!(default.workers.is_none() && default.rule.cap.is_none(), "who has no label has no bound of its own");
    }
}
