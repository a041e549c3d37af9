//! Questions to the queue: which waiter has the next turn, which one has to make room, and how long a wait takes.

use std::cmp::Ordering;

use super::{
    super::{Lengths, WaitQueue},
    FairQueue,
    flow::{Flow, PartitionFlows},
};
use crate::{
    ids::{FlowKey, Key, LabelId, Level, PartitionId},
    tokens::{STRIDE, Waiter},
};

impl WaitQueue {
    /// Returns how many requests of a partition wait.
    pub(crate) fn lengths_of(&self, partition: PartitionId) -> Lengths {
        self.flows.lines[partition.index()].waiters
    }

    /// Returns the tag of the flow that was served last in a partition, at a level.
    pub(crate) fn served(&self, partition: PartitionId, level: Level) -> u64 {
        self.flows.lines[partition.index()].served[level.index()]
    }

    /// Returns the waiter that takes the next free slot, of those of the partitions that may take one. Of the partitions that are
    /// `owed` it, since they run less than their share, it is the waiter of the partition that uses the smallest part of its share,
    /// and every other time at least the waiter that came first. Else it is the waiter whose turn it is among all of them. Returns
    /// with it whether a waiter came earlier whose partition is owed it too.
    pub(crate) fn next(
        &self,
        may_take: impl Fn(PartitionId) -> bool,
        is_owed: impl Fn(PartitionId) -> bool,
        compare_use: impl Fn(PartitionId, PartitionId) -> Ordering,
    ) -> Option<(Key, bool)> {
        let waits = |partition: PartitionId| self.lengths_of(partition).all() > 0;
        let served = || PartitionId::all().take(self.flows.lines.len()).filter(|&it| waits(it) && may_take(it));
        // Mostly one partition alone may have the slot.
        let mut few = served();
        if let (Some(only), None) = (few.next(), few.next()) {
            return self.next_of(only).map(|(key, _)| (key, false));
        }
        let candidates = || served().filter_map(|partition| Some((partition, self.next_of(partition)?)));
        let owed = candidates().filter(|&(partition, _)| is_owed(partition));
        let owed = owed.map(|(partition, (key, _))| (partition, key, self.get(key).sequence));
        let Some((_, oldest, _)) = owed.clone().min_by_key(|&(_, _, sequence)| sequence) else {
            return candidates().min_by_key(|&(_, (_, rank))| rank).map(|(_, (key, _))| (key, false));
        };
        if self.passed_over {
            return Some((oldest, false));
        }
        let (_, key, _) = owed.min_by(|one, other| compare_use(one.0, other.0).then_with(|| one.2.cmp(&other.2)))?;
        Some((key, key != oldest))
    }

    /// Returns the waiter of a partition whose turn it is, and its rank among those of other partitions: smaller is
    /// earlier.
    fn next_of(&self, partition: PartitionId) -> Option<(Key, u64)> {
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

    /// Returns the waiter that came to the gate first, of this flow or of all of them.
    pub(crate) fn first_at_gate(&self, flow: Option<FlowKey>) -> Option<Key> {
        let number = match flow {
            Some(key) => *self.flows.numbers.get(&key)?,
            None => self.flows.lines.iter().filter_map(|line| line.gates.first()).min()?.1,
        };
        self.flows.waiters.front(self.flows.flow(number).gate)
    }

    /// Returns the waiters of a label, flow by flow, each with its place in its flow and with how many wait in that.
    pub(crate) fn all_of(&self, label: LabelId) -> impl Iterator<Item = (usize, usize, Waiter)> {
        self.flows_of(label).flat_map(|flow| {
            let waiters = self.flows.waiters.iter(flow.line).chain(self.flows.waiters.iter(flow.gate));
            (1..).zip(waiters).map(|(place, waiter)| (place, flow.waiters(), *waiter))
        })
    }

    /// Returns the oldest waiters of a label, one for each of its flows.
    pub(crate) fn oldest_of(&self, label: LabelId) -> impl Iterator<Item = Waiter> {
        self.flows_of(label).filter_map(|flow| self.flows.oldest(flow)).map(|key| self.get(key))
    }

    fn flows_of(&self, label: LabelId) -> impl Iterator<Item = &Flow> {
        let (first, last) = FlowKey::all_of(label);
        self.flows.numbers.range(first..=last).map(|(_, &number)| self.flows.flow(number))
    }
}

impl FairQueue {
    fn flow(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    /// Returns the waiter of a flow that goes first: waiters in line before waiters at the gate.
    fn head(&self, flow: &Flow) -> Option<Key> {
        let newest = if self.newest_first { self.waiters.back(flow.line) } else { None };
        newest.or_else(|| self.oldest(flow))
    }

    /// Returns the waiter of a flow that came first.
    pub(super) fn oldest(&self, flow: &Flow) -> Option<Key> {
        self.waiters.front(flow.line).or_else(|| self.waiters.front(flow.gate))
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
        let own = flow.map_or(0, Flow::waiters);
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
