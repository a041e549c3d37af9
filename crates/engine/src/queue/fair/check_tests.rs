//! What holds for waiters after every verb, computed anew from the waiters themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{FairQueue, flow::Flow};
use crate::{
    ids::{FlowKey, Key, LabelId, Level, PartitionId},
    tokens::{FlowTag, STRIDE, Stage, Waiter},
};

impl FairQueue {
    /// Returns all waiters that have an entry, including those that were answered and have not asked yet.
    pub(crate) fn live(&self) -> Vec<(Key, &Waiter)> {
        self.waiters.live().into_iter().map(|key| (key, self.waiters.get(key))).collect()
    }

    /// Asserts all that can be said of waiters, given what their labels bring along.
    pub(crate) fn check_all(&self, flow_tag: impl Fn(LabelId) -> FlowTag) {
        self.check_members();
        assert_eq!(self.numbers.len() + self.free.len(), self.flows.len(), "each entry is a flow's or free");
        for (key, &number) in &self.numbers {
            assert!(!self.free.contains(&number), "a free entry is nobody's");
            let flow = &self.flows[number as usize];
            assert_eq!(flow.key, *key, "a flow knows its key");
            self.check_flow(flow, flow_tag(key.label));
        }
        for partition in PartitionId::all().take(self.lines.len()) {
            self.check_line(partition);
        }
    }

    /// Asserts that every waiter stands in the one list that its stage and its flow say, in order of arrival.
    fn check_members(&self) {
        let mut expected: BTreeMap<(FlowKey, bool), BTreeMap<u64, u32>> = BTreeMap::new();
        for (key, waiter) in self.live() {
            if matches!(waiter.stage, Stage::Line | Stage::Gate) {
                let list = expected.entry((waiter.flow_key(), waiter.stage == Stage::Line)).or_default();
                list.insert(waiter.sequence, key.index);
            }
        }
        let mut found = BTreeMap::new();
        for (&key, &number) in &self.numbers {
            let flow = &self.flows[number as usize];
            for (list, in_line) in [(flow.line, true), (flow.gate, false)] {
                let members = self.waiters.members(list);
                let sequences = members.iter().map(|&member| self.waiters.get(member).sequence);
                assert!(sequences.is_sorted(), "within a flow, everybody stands in order of arrival");
                let members = members.into_iter().map(|member| (self.waiters.get(member).sequence, member.index));
                let members: BTreeMap<_, _> = members.collect();
                if !members.is_empty() {
                    found.insert((key, in_line), members);
                }
            }
        }
        assert_eq!(found, expected, "everybody stands where its stage says, and nobody else does");
    }

    fn check_flow(&self, flow: &Flow, flow_tag: FlowTag) {
        assert!(flow.line.len() + flow.gate.len() > 0, "a flow ends with its last waiter");
        assert_eq!((flow.weight, flow.throttled), (flow_tag.weight, flow_tag.throttled), "a flow is what its label is");
        assert_eq!(flow.stride, STRIDE / u64::from(flow.weight), "a flow moves on by its weight");
        let last_in_line = self.waiters.back(flow.line).map(|key| self.waiters.get(key).sequence);
        let first_at_gate = self.waiters.front(flow.gate).map(|key| self.waiters.get(key).sequence);
        if let (Some(inside), Some(outside)) = (last_in_line, first_at_gate) {
            assert!(inside < outside, "nobody overtakes its own flow at the gate");
        }
        if self.by_arrival {
            let first = self.waiters.front(flow.line).or_else(|| self.waiters.front(flow.gate)).unwrap();
            assert_eq!(flow.start, self.waiters.get(first).sequence, "a flow stands where its first one arrived");
        } else if !flow.throttled {
            let served = self.lines[flow.key.partition.index()].served[flow.key.level.index()];
            assert!(
                (served..=served + flow.stride).contains(&flow.start),
                "nobody is further than one turn ahead or behind"
            );
        }
    }

    fn check_line(&self, partition: PartitionId) {
        let line = &self.lines[partition.index()];
        let flows = || {
            let all = self.numbers.iter().filter(|(key, _)| key.partition == partition);
            all.map(|(_, &number)| (number, &self.flows[number as usize]))
        };
        let count = |list: fn(&Flow) -> usize| flows().map(|(_, flow)| list(flow)).sum::<usize>();
        assert_eq!(line.waiters.in_line, count(|flow| flow.line.len()), "those in line are counted");
        assert_eq!(line.waiters.at_gate, count(|flow| flow.gate.len()), "those at the gate are counted");
        let ready: BTreeSet<_> = flows().filter(|(_, flow)| !flow.throttled).map(|(i, flow)| flow.turn(i)).collect();
        assert_eq!(line.ready.members(), ready, "exactly the flows that aren't throttled are ready");
        let long = flows().filter(|(_, flow)| flow.line.len() > 0);
        let long = long.map(|(number, flow)| (flow.key.level, flow.length(), number)).collect::<BTreeSet<_>>();
        let ranks = long.into_iter().map(|(_, length, number)| self.flows[number as usize].rank(length, number));
        assert!(line.lengths.members().into_iter().eq(ranks), "flows stand by their levels and lengths, in this order");
        let first = |flow: &Flow| Some(self.waiters.get(self.waiters.front(flow.gate)?).sequence);
        let gates: BTreeSet<_> = flows().filter_map(|(number, flow)| Some((first(flow)?, number))).collect();
        assert_eq!(line.gates.members(), gates, "flows at the gate stand by the arrival of their first one");
        for level in 0..Level::COUNT {
            let of_level = || flows().filter(|(_, flow)| flow.key.level.index() == level && !flow.throttled);
            let waiting: usize = of_level().map(|(_, flow)| flow.line.len() + flow.gate.len()).sum();
            assert_eq!(line.waiting[level], waiting, "those of a level are counted");
            let weights: u64 = of_level().map(|(_, flow)| u64::from(flow.weight)).sum();
            assert_eq!(line.weights[level], weights, "the weights of a level are summed up");
        }
    }
}
