//! What holds for waiters, computed anew: slow, and for tests alone.

use std::collections::BTreeMap;

use super::WaitQueue;
use crate::{
    Timestamp,
    ids::{Key, LabelId, PartitionId, RunId},
    tokens::{FlowTag, Stage, Waiter},
};

impl WaitQueue {
    /// Asserts what is counted in every verb.
    pub(crate) fn check(&self, partitions: impl Iterator<Item = PartitionId> + Clone) {
        let in_line: usize = partitions.clone().map(|it| self.in_line_of(it)).sum();
        assert_eq!(self.in_line, in_line, "waiters in line are conserved");
        assert_eq!(self.at_gate, partitions.map(|it| self.at_gate_of(it)).sum::<usize>(), "and at the gate");
        assert!(self.entries() >= self.len(), "every waiter has an entry");
    }

    /// Asserts everything that is stored twice, once as it is and once as a sum, a set or a heap. `flow_tag` of the
    /// labels, if nothing but their caps throttles them.
    pub(crate) fn check_all(&self, flow_tag: Option<impl Fn(LabelId) -> FlowTag>) {
        if let Some(flow_tag) = flow_tag {
            self.flows.check_all(flow_tag);
        }
        let live = self.flows.live();
        let count = |stage| live.iter().filter(|(_, waiter)| waiter.stage == stage).count();
        assert_eq!((self.in_line, self.at_gate), (count(Stage::Line), count(Stage::Gate)), "waiters are conserved");
        let with_end = live.iter().filter(|(_, waiter)| waiter.deadline != Timestamp::NEVER);
        let expected: BTreeMap<_, _> = with_end.map(|(key, waiter)| (key.index, waiter.deadline)).collect();
        assert_eq!(self.deadlines.members(), expected, "exactly those whose wait can end have a deadline");
        let mut runs: BTreeMap<RunId, usize> = BTreeMap::new();
        for (_, waiter) in live {
            let waits = matches!(waiter.stage, Stage::Line | Stage::Gate);
            assert!(waits || waiter.deadline == Timestamp::NEVER, "the wait of a waiter that was answered can't end");
            assert!(!waits || waiter.deadline <= waiter.caller_deadline, "no waiter waits longer than its caller");
            if waiter.run != RunId::NONE {
                *runs.entry(waiter.run).or_default() += usize::from(waits);
            }
        }
        assert_eq!(self.runs.counts(), runs, "each run that has a place is known, and its waiters are counted");
    }

    /// Returns all waiters that have a place, including those that were answered and have not asked yet.
    pub(crate) fn live(&self) -> Vec<(Key, &Waiter)> {
        self.flows.live()
    }

    /// Whether nothing is left of any waiter.
    pub(crate) fn is_clean(&self) -> bool {
        self.entries() == 0 && self.deadlines.members().is_empty() && self.runs.counts().is_empty()
    }
}
