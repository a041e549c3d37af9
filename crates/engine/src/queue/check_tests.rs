//! What holds for waiters, computed anew: slow, and for tests alone.

use std::collections::BTreeMap;

use super::{Lengths, WaitQueue};
use crate::{
    Timestamp,
    ids::{LabelId, PartitionId, RunId},
    tokens::{Claim, FlowTag, Stage},
};

impl WaitQueue {
    /// Asserts what is counted in every verb.
    pub(crate) fn check(&self, partitions: &(impl Iterator<Item = PartitionId> + Clone)) {
        let sum = |of: fn(Lengths) -> usize| partitions.clone().map(|it| of(self.lengths_of(it))).sum::<usize>();
        assert_eq!(self.lengths().in_line, sum(|it| it.in_line), "waiters in line are conserved");
        assert_eq!(self.lengths().in_room, sum(|it| it.in_room), "and those of them in the room for guarantees");
        assert_eq!(self.lengths().at_gate, sum(|it| it.at_gate), "and at the gate");
        assert!(self.flows.waiters.len() >= self.lengths().all(), "every waiter has an entry");
    }

    /// Asserts everything that is stored twice, once as it is and once as a sum, a set or a heap. `flow_tag` of the
    /// labels, if nothing but their caps throttles them.
    pub(crate) fn check_all(&self, flow_tag: Option<impl Fn(LabelId) -> FlowTag>) {
        if let Some(flow_tag) = flow_tag {
            self.flows.check_all(flow_tag);
        }
        let live = self.flows.live();
        let count = |stage| live.iter().filter(|(_, waiter)| waiter.stage == stage).count();
        let in_room = live.iter().filter(|(_, waiter)| waiter.claim != Claim::None).count();
        let expected = Lengths { in_line: count(Stage::Line), in_room, at_gate: count(Stage::Gate) };
        assert_eq!(self.lengths(), expected, "waiters are conserved");
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

    /// Whether nothing is left of any waiter.
    pub(crate) fn is_clean(&self) -> bool {
        self.flows.waiters.len() == 0 && self.deadlines.members().is_empty() && self.runs.counts().is_empty()
    }
}
