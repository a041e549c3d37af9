//! Questions to the queue: which waiter has the next turn, which one has to make room, and how long a wait takes.

use super::{
    super::WaitQueue,
    FairQueue,
    flow::{Flow, PartitionFlows},
};
use crate::{
    ids::{FlowKey, Key, LabelId, Level, PartitionId},
    tokens::{STRIDE, Waiter},
};

impl WaitQueue {
    pub(crate) fn in_line_of(&self, partition: PartitionId) -> usize {
        self.flows.lines[partition.index()].in_line
    }

    pub(crate) fn at_gate_of(&self, partition: PartitionId) -> usize {
        self.flows.lines[partition.index()].at_gate
    }

    /// Returns the tag of the flow that was served last in a partition, at a level.
    pub(crate) fn served(&self, partition: PartitionId, level: Level) -> u64 {
        self.flows.lines[partition.index()].served[level.index()]
    }

    /// Returns the waiter of a partition whose turn it is, and its rank among those of other partitions: smaller is
    /// earlier.
    pub(crate) fn next(&self, partition: PartitionId) -> Option<(Key, u64)> {
        let line = &self.flows.lines[partition.index()];
        let first = line.ready.first()?;
        let starving = || {
            let aging = self.flows.aging?;
            let below = first.level.below().map(|level| (line.passed_over[level.index()], level));
            below
                .filter(|&(passed_over, _)| passed_over >= aging)
                .filter_map(|(passed_over, level)| Some((passed_over, line.first_of(level)?)))
                .max_by_key(|&(passed_over, _)| passed_over)
                .map(|(_, turn)| turn)
        };
        let turn = starving().unwrap_or(first);
        let flow = self.flows.flow(turn.flow);
        Some((self.flows.head(flow)?, if self.flows.by_arrival { turn.start } else { turn.stamp }))
    }

    /// Returns any waiter, throttled or not.
    pub(crate) fn anyone(&self) -> Option<Key> {
        let (_, &number) = self.flows.numbers.first_key_value()?;
        self.flows.head(self.flows.flow(number))
    }

    /// Returns the waiter that came to the gate of a partition first.
    pub(crate) fn first_at_gate(&self, partition: PartitionId) -> Option<Key> {
        let &(_, number) = self.flows.lines[partition.index()].gates.first()?;
        self.flows.waiters.front(self.flows.flow(number).gate)
    }

    /// Returns the waiter of a flow that came to the gate first.
    pub(crate) fn first_of_flow_at_gate(&self, key: FlowKey) -> Option<Key> {
        let &number = self.flows.numbers.get(&key)?;
        self.flows.waiters.front(self.flows.flow(number).gate)
    }

    /// Returns the waiters of a label, flow by flow, each with its place in its flow.
    pub(crate) fn all_of(&self, label: LabelId) -> impl Iterator<Item = (usize, &Waiter)> {
        let (first, last) = FlowKey::all_of(label);
        self.flows.numbers.range(first..=last).flat_map(|(_, &number)| {
            let flow = self.flows.flow(number);
            (1..).zip(self.flows.waiters.iter(flow.line).chain(self.flows.waiters.iter(flow.gate)))
        })
    }

    /// Returns how many requests wait in a flow.
    pub(crate) fn count_of(&self, key: FlowKey) -> usize {
        let flow = self.flows.numbers.get(&key).map(|&number| self.flows.flow(number));
        flow.map_or(0, |flow| flow.line.len() + flow.gate.len())
    }

    /// Returns the oldest waiters of a label, one for each of its flows.
    pub(crate) fn oldest_of(&self, label: LabelId) -> impl Iterator<Item = &Waiter> {
        let (first, last) = FlowKey::all_of(label);
        self.flows.numbers.range(first..=last).filter_map(|(_, &number)| {
            let flow = self.flows.flow(number);
            let oldest = self.flows.waiters.front(flow.line).or_else(|| self.flows.waiters.front(flow.gate))?;
            Some(self.flows.waiters.get(oldest))
        })
    }
}

impl FairQueue {
    fn flow(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    /// Returns the waiter of a flow that goes first: waiters in line before waiters at the gate.
    fn head(&self, flow: &Flow) -> Option<Key> {
        let line = if self.newest_first { self.waiters.back(flow.line) } else { self.waiters.front(flow.line) };
        line.or_else(|| self.waiters.front(flow.gate))
    }

    /// Returns the newest waiter in line of the longest of the least important flows of a partition.
    pub(crate) fn least_important(&self, partition: PartitionId) -> Option<Key> {
        let number = self.lines[partition.index()].longest()?;
        self.waiters.back(self.flow(number).line)
    }

    /// Returns the waiter that has to make room in a full line for another request of the flow `key`: the newest of the
    /// least important flow if that is less important, else of the longest flow of the same level if it stays the
    /// longest without it. Where waiters are served in the order of arrival, lengths of flows don't count.
    pub(crate) fn victim(&self, key: FlowKey, weight: u32) -> Option<Key> {
        let line = &self.lines[key.partition.index()];
        let longest = self.flow(line.longest()?);
        let own = self.numbers.get(&key).map_or(0, |&own| self.flow(own).line.len());
        let own = (own as u64 + 1) * (STRIDE / u64::from(weight));
        let uses_more = longest.key.level == key.level && longest.length() > own && !self.by_arrival;
        (longest.key.level > key.level || uses_more).then_some(())?;
        self.least_important(key.partition)
    }

    /// Returns how many requests at most are served before another request of the flow `key`, itself included, for its
    /// partition and for all partitions. That is all waiters that are as important, or the turns of its own flow where
    /// these come earlier. Throttled flows delay only themselves.
    pub(crate) fn turns_before(&self, key: FlowKey, weight: u32, newest_first: bool) -> (usize, usize) {
        let flow = self.numbers.get(&key).map(|&number| self.flow(number));
        let own = flow.map_or(0, |flow| flow.line.len() + flow.gate.len());
        let counted = flow.is_some_and(|flow| !flow.throttled);
        let (other, new) = if counted { (0, 0) } else { (own, u64::from(weight)) };
        let ahead = if newest_first { 0 } else { own };
        let levels = ..=key.level.index();
        let turns = |lines: &mut dyn Iterator<Item = &PartitionFlows>| {
            let (mut waiting, mut weights) = (other, new);
            for line in lines {
                waiting += line.waiting[levels].iter().sum::<usize>();
                weights += line.weights[levels].iter().sum::<u64>();
            }
            if self.by_arrival {
                return waiting + 1;
            }
            let fair = ((ahead as u64 + 1) * weights).div_ceil(u64::from(weight));
            (waiting + 1).min(usize::try_from(fair).unwrap_or(usize::MAX))
        };
        let one = turns(&mut std::iter::once(&self.lines[key.partition.index()]));
        (one, turns(&mut self.lines.iter()))
    }
}
