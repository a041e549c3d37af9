//! Start-time fair queueing: which waiter of a partition has the next turn (Goyal, Vin, Cheng: *Start-time Fair Queueing*, SIGCOMM 1996).
//!
//! Waiters of the same partition, label and criticality are a *flow*: first come, first served within. Flows of the same criticality take
//! weighted turns: each flow carries a start tag, the flow with the smallest tag is next, and being served moves its tag on by `1 /
//! weight`. A flow that joins starts at the tag that was served last, so it owes nothing for the time when it was away. A flow that left
//! just after it was served starts behind the flows that were not, and so does a flow whose label was never served: else a stream of new
//! names would always go first. So tags never differ by more than one turn, and between two grants of one flow each other flow of its
//! weight that waits gets exactly one.
//!
//! More important flows go first. Each time that a level is passed over counts for it, and after [sixteen times](AGING) the level has its
//! turn, so a flood of important requests slows the others and never stops them.
//!
//! A flow whose label is at its cap is *throttled*: it keeps its place in line and is not looked at until the label has room.
//!
//! Everything is O(log flows) per step, and O(1) where flows don't begin or end.

#[cfg(test)]
mod check_tests;
mod flow;
mod order;
mod ordered;

use std::{collections::BTreeMap, ops::Bound};

use self::flow::{Flow, PartitionFlows};
use super::{Lengths, slab::Waiters};
use crate::{
    ids::{FlowKey, Key, LabelId},
    links::List,
    plan::{Discipline, QueuePlan},
    tokens::{FlowTag, STRIDE, Stage, Waiter},
};

/// All waiters.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    pub(super) waiters: Waiters,
    /// How many wait, over all partitions.
    pub(super) lengths: Lengths,
    flows: Vec<Flow>,
    free: Vec<u32>,
    numbers: BTreeMap<FlowKey, u32>,
    lines: Vec<PartitionFlows>,
    stamp: u64,
    /// Times that a level is passed over before its turn; `None`: more important flows always go first.
    aging: Option<u32>,
    /// Whether flows take turns in the order in which their first waiters arrived.
    by_arrival: bool,
    /// Whether the newest waiter of a flow goes first.
    pub(crate) newest_first: bool,
}

impl FairQueue {
    /// Takes new settings: the order of the flows, and how many partitions there are.
    pub(crate) fn replace(&mut self, partitions: usize, plan: QueuePlan) {
        self.lines.resize_with(partitions, PartitionFlows::default);
        self.aging = plan.aging;
        let by_arrival = plan.discipline == Discipline::Fifo;
        if self.by_arrival == by_arrival {
            return;
        }
        self.by_arrival = by_arrival;
        let flows: Vec<u32> = self.numbers.values().copied().collect();
        self.lines.iter_mut().for_each(|line| line.served = Default::default());
        for number in flows {
            self.requeue(number, |flow, _| flow.start = 0);
            self.follow_arrivals(number);
        }
    }

    /// Gives the flows of a label another weight. No flow is further than one of its new turns behind.
    pub(crate) fn weigh(&mut self, label: LabelId, weight: u32) {
        let (first, last) = FlowKey::all_of(label);
        let flows: Vec<u32> = self.numbers.range(first..=last).map(|(_, &number)| number).collect();
        for number in flows {
            let flow = &mut self.flows[number as usize];
            let line = &mut self.lines[flow.key.partition.index()];
            let level = flow.key.level;
            let before = flow.length();
            if !flow.throttled {
                let weights = &mut line.weights[level.index()];
                *weights = *weights - u64::from(flow.weight) + u64::from(weight);
            }
            (flow.weight, flow.stride) = (weight, STRIDE / u64::from(weight));
            line.note_length(flow, number, before);
            if !self.by_arrival {
                self.requeue(number, |flow, line| {
                    let served = line.served[flow.key.level.index()];
                    flow.start = flow.start.clamp(served, served + flow.stride);
                });
            }
        }
    }

    /// Puts a waiter at the gate, or in line to where it is to be `push`ed: to the end of its flow, or back to where it stood.
    pub(crate) fn enlist(&mut self, key: Key, stage: Stage, flow_tag: FlowTag, push: fn(&mut Waiters, &mut List, Key)) {
        let flow_key = self.waiters.get(key).flow_key();
        let (known, unused) = (self.numbers.len(), u32::try_from(self.flows.len()).unwrap_or(u32::MAX));
        let number = *self.numbers.entry(flow_key).or_insert_with(|| self.free.pop().unwrap_or(unused));
        if self.numbers.len() > known {
            self.begin(number, flow_key, flow_tag);
        }
        *self.waiters.flow_mut(key) = number;
        let flow = &mut self.flows[number as usize];
        let line = &mut self.lines[flow_key.partition.index()];
        if stage == Stage::Line {
            let before = flow.length();
            push(&mut self.waiters, &mut flow.line, key);
            line.note_length(flow, number, before);
        } else {
            self.waiters.push_back(&mut flow.gate, key);
            if flow.gate.len() == 1 {
                line.gates.insert((self.waiters.get(key).sequence, number));
            }
        }
        line.waiting[flow_key.level.index()] += usize::from(!flow.throttled);
        let waiter = self.waiters.get_mut(key);
        waiter.stage = stage;
        self.lengths.enter(stage, waiter.claim);
        line.waiters.enter(stage, waiter.claim);
        self.follow_arrivals(number);
    }

    /// Takes a waiter out of the line or the gate, and gives its flow its turn if the waiter `is_served`. Returns the start tag of
    /// the flow, if it ends with the waiter.
    pub(crate) fn leave(&mut self, key: Key, is_served: bool) -> Option<u64> {
        let &Waiter { stage, sequence, claim, .. } = self.waiters.get(key);
        let number = *self.waiters.flow_mut(key);
        let flow = self.flows.get_mut(number as usize)?;
        let line = &mut self.lines[flow.key.partition.index()];
        match stage {
            Stage::Line => {
                let before = flow.length();
                self.waiters.unlink(&mut flow.line, key);
                line.note_length(flow, number, before);
            }
            Stage::Gate => {
                let was_first = line.gates.remove(&(sequence, number));
                self.waiters.unlink(&mut flow.gate, key);
                if let Some(first) = self.waiters.front(flow.gate).filter(|_| was_first) {
                    line.gates.insert((self.waiters.get(first).sequence, number));
                }
            }
            Stage::Granted { .. } | Stage::Refused(_) => return None,
        }
        self.lengths.exit(stage, claim);
        line.waiters.exit(stage, claim);
        line.waiting[flow.key.level.index()] -= usize::from(!flow.throttled);
        let turn = if is_served && !self.by_arrival { flow.stride } else { 0 };
        if is_served {
            self.stamp += 1;
            line.note_turn(flow.key.level, flow.start);
        }
        if flow.waiters() == 0 {
            return Some(self.end(number) + turn);
        } else if is_served {
            let stamp = self.stamp;
            self.requeue(number, |flow, _| (flow.start, flow.stamp) = (flow.start + turn, stamp));
        }
        self.follow_arrivals(number);
        None
    }

    /// Puts a flow where the arrival of its first waiter belongs, if that is the order.
    fn follow_arrivals(&mut self, number: u32) {
        if !self.by_arrival {
            return;
        }
        let flow = &self.flows[number as usize];
        let start = self.oldest(flow).map_or(flow.start, |oldest| self.waiters.get(oldest).sequence);
        self.requeue(number, |flow, _| flow.start = start);
    }

    /// Changes a flow, and with that its place among the flows that are ready.
    fn requeue(&mut self, number: u32, change: impl FnOnce(&mut Flow, &PartitionFlows)) {
        let flow = &mut self.flows[number as usize];
        let line = &mut self.lines[flow.key.partition.index()];
        let before = flow.turn(number);
        let was_ready = !flow.throttled;
        change(flow, line);
        match (was_ready, !flow.throttled) {
            (true, true) => line.ready.change(&before, |it| (it.start, it.stamp) = (flow.start, flow.stamp)),
            (true, false) => line.remove_ready(flow, &before),
            (false, true) => line.add_ready(flow, number),
            (false, false) => {}
        }
    }

    fn begin(&mut self, number: u32, key: FlowKey, flow_tag: FlowTag) {
        self.stamp += 1;
        let line = &mut self.lines[key.partition.index()];
        let stride = STRIDE / u64::from(flow_tag.weight);
        let served = line.served[key.level.index()];
        let flow = Flow {
            key,
            line: List::default(),
            gate: List::default(),
            weight: flow_tag.weight,
            stride,
            start: flow_tag.start.clamp(served, served + stride),
            stamp: self.stamp,
            throttled: flow_tag.throttled,
        };
        match self.flows.get_mut(number as usize) {
            Some(ended) => *ended = flow,
            None => self.flows.push(flow),
        }
        if !flow.throttled {
            line.add_ready(&flow, number);
        }
    }

    fn end(&mut self, number: u32) -> u64 {
        let flow = self.flows[number as usize];
        let line = &mut self.lines[flow.key.partition.index()];
        if !flow.throttled {
            line.remove_ready(&flow, &flow.turn(number));
        }
        self.numbers.remove(&flow.key);
        self.free.push(number);
        flow.start
    }

    /// Throttles all flows of a label, or lets them have turns again.
    pub(crate) fn throttle(&mut self, label: LabelId, throttled: bool) {
        let (first, last) = FlowKey::all_of(label);
        let mut rest = Bound::Included(first);
        while let Some((&key, &number)) = self.numbers.range((rest, Bound::Included(last))).next() {
            rest = Bound::Excluded(key);
            self.requeue(number, |flow, line| {
                if flow.throttled && !throttled {
                    // The flow owes nothing for the turns that it could not take, and nothing is owed to it for them.
                    let served = line.served[flow.key.level.index()];
                    flow.start = flow.start.clamp(served, served + flow.stride);
                }
                flow.throttled = throttled;
            });
            self.follow_arrivals(number);
        }
    }
}
