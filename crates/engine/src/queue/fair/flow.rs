//! One flow, and the line of a partition in which flows take turns.

use super::{Lengths, ordered::OrderedSet};
use crate::{
    ids::{FlowKey, Level},
    links::List,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) line: List,
    pub(super) gate: List,
    pub(super) weight: u32,
    /// Distance by which it moves on with each turn.
    pub(super) stride: u64,
    pub(super) start: u64,
    /// Time when the flow was served last or, before that, joined. Among equals, the flow that waits longest since goes
    /// first.
    pub(super) stamp: u64,
    pub(super) throttled: bool,
}

impl Flow {
    /// Returns how many waiters of the flow stand in line and at the gate.
    pub(super) const fn waiters(&self) -> usize {
        self.line.len() + self.gate.len()
    }

    /// Returns how many waiters of the flow stand in line, weighted.
    pub(super) const fn length(&self) -> u64 {
        self.line.len() as u64 * self.stride
    }

    /// Returns its number by level and, within, by so many waiters.
    pub(super) fn rank(&self, length: u64, number: u32) -> u128 {
        u128::from(self.key.level.number()) << 96 | u128::from(length) << 32 | u128::from(number)
    }

    pub(super) const fn turn(&self, flow: u32) -> Turn {
        Turn { level: self.key.level, start: self.start, stamp: self.stamp, flow }
    }
}

/// The order in which flows get their turn.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Turn {
    pub(super) level: Level,
    pub(super) start: u64,
    pub(super) stamp: u64,
    pub(super) flow: u32,
}

/// The flows of one partition.
#[derive(Debug, Default)]
pub(super) struct PartitionFlows {
    pub(super) waiters: Lengths,
    /// Flows that may be served, throttled ones left out.
    pub(super) ready: OrderedSet<Turn>,
    /// Flows by level and by the number of their waiters in line: each as [one number](Flow::rank), which is quick to compare.
    pub(super) lengths: OrderedSet<u128>,
    /// Flows by the arrival of their first waiter at the gate.
    pub(super) gates: OrderedSet<(u64, u32)>,
    /// The start tag that was served last, for each level: a level that is passed over does not move on.
    pub(super) served: [u64; Level::COUNT],
    pub(super) passed_over: [u32; Level::COUNT],
    /// Waiters in flows that are ready, and the weights of these flows, by level.
    pub(super) waiting: [usize; Level::COUNT],
    pub(super) weights: [u64; Level::COUNT],
}

impl PartitionFlows {
    /// Adds a flow to those that may be served.
    pub(super) fn add_ready(&mut self, flow: &Flow, number: u32) {
        self.ready.insert(flow.turn(number));
        self.waiting[flow.key.level.index()] += flow.waiters();
        self.weights[flow.key.level.index()] += u64::from(flow.weight);
    }

    /// Takes a flow that had this turn from those that may be served.
    pub(super) fn remove_ready(&mut self, flow: &Flow, turn: &Turn) {
        self.ready.remove(turn);
        self.waiting[flow.key.level.index()] -= flow.waiters();
        self.weights[flow.key.level.index()] -= u64::from(flow.weight);
    }

    /// Notes how long a flow is that was so long `before`.
    #[inline]
    pub(super) fn note_length(&mut self, flow: &Flow, number: u32, before: u64) {
        let of = |length| flow.rank(length, number);
        match (before, flow.length()) {
            (0, 0) => {}
            (0, length) => self.lengths.insert(of(length)),
            (_, 0) => _ = self.lengths.remove(&of(before)),
            (_, length) => self.lengths.change(&of(before), |it| *it = of(length)),
        }
    }

    /// Returns the longest of the least important flows.
    #[expect(clippy::cast_possible_truncation, reason = "its number is the last 32 bits")]
    pub(super) fn longest(&self) -> Option<u32> {
        self.lengths.last().map(|&rank| rank as u32)
    }

    /// Notes the turn of a flow that starts there: the other flows of its level go before it.
    pub(super) fn note_turn(&mut self, level: Level, start: u64) {
        let served = &mut self.served[level.index()];
        *served = (*served).max(start);
        self.passed_over[level.index()] = 0;
        for below in level.index() + 1..Level::COUNT {
            self.passed_over[below] = self.passed_over[below].saturating_add(u32::from(self.waiting[below] > 0));
        }
    }

    /// Returns the first flow of a level that may be served.
    pub(super) fn first_of(&self, level: Level) -> Option<&Turn> {
        let from = Turn { level, start: 0, stamp: 0, flow: 0 };
        self.ready.first_from(&from).filter(|turn| turn.level == level)
    }
}
