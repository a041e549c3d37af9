//! Which requests wait: the line and the gate before it, the order of turns, and how long a wait may last.
//!
//! What holds after every verb: the lengths of line and gate are the sums of those of partitions; exactly the waiters
//! whose wait can end have a deadline; the waiters of each run are counted.

mod burst_allowance;
#[cfg(test)]
mod check_tests;
mod fair;
mod runs;
mod slab;
mod wait_limit;

use std::time::Duration;

use self::{burst_allowance::BurstAllowance, fair::FairQueue, runs::Runs, slab::Waiters};
use crate::{
    Timestamp,
    deadlines::Deadlines,
    ids::{FlowKey, Key, LabelId, PartitionId, RunId},
    plan::{Discipline, QueuePlan},
    tokens::{Ask, Claim, DryRunOutcome, FlowTag, Marks, Stage, Waiter},
};

/// The waiters.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    plan: QueuePlan,
    /// Time when the line was empty last.
    last_empty: Timestamp,
    /// The credit of each partition: a flood of a partition uses up its own alone.
    allowances: Vec<BurstAllowance>,
    /// How long it takes until two slots come free, where the discipline asks for it.
    two_turns: Duration,
    flows: FairQueue,
    runs: Runs,
    deadlines: Deadlines,
    passed_over: bool,
    /// The number of the last waiter that came.
    sequence: u64,
}

/// How many requests wait: in line, those of them that have a place in the room for guarantees, and at the gate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Lengths {
    pub(crate) in_line: usize,
    pub(crate) in_room: usize,
    pub(crate) at_gate: usize,
}

impl Lengths {
    #[inline]
    pub(crate) const fn all(self) -> usize {
        self.in_line + self.at_gate
    }

    fn of(&mut self, stage: Stage) -> &mut usize {
        if stage == Stage::Line { &mut self.in_line } else { &mut self.at_gate }
    }

    /// Counts a waiter that joins the line or the gate.
    fn enter(&mut self, stage: Stage, claim: Claim) {
        *self.of(stage) += 1;
        self.in_room += usize::from(claim != Claim::None);
    }

    /// Counts a waiter that leaves the line or the gate.
    fn exit(&mut self, stage: Stage, claim: Claim) {
        *self.of(stage) -= 1;
        self.in_room -= usize::from(claim != Claim::None);
    }
}

/// What is free for a further waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Places that the line has, free or not.
    pub(crate) places: usize,
    /// Whether it may join the line, and whether it may stand before the gate.
    pub(crate) in_line: bool,
    pub(crate) at_gate: bool,
}

/// What a waiter that left the line or the gate leaves behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) label: LabelId,
    /// Whether the waiter was beyond what observing rules allow.
    pub(crate) is_over_quota: bool,
    /// Where its flow goes on, if the waiter was the last one of it.
    pub(crate) start: Option<u64>,
}

impl WaitQueue {
    pub(crate) fn new(partitions: usize, plan: QueuePlan) -> Self {
        let mut queue = Self {
            plan,
            last_empty: Timestamp::ZERO,
            allowances: Vec::new(),
            two_turns: Duration::ZERO,
            flows: FairQueue::default(),
            runs: Runs::default(),
            deadlines: Deadlines::default(),
            passed_over: false,
            sequence: 0,
        };
        queue.replace(partitions, plan);
        queue
    }

    /// Takes new settings. Waiters keep their places.
    pub(crate) fn replace(&mut self, partitions: usize, plan: QueuePlan) {
        self.plan = plan;
        self.allowances.resize_with(partitions, BurstAllowance::default);
        self.flows.replace(partitions, plan);
    }

    #[inline]
    pub(crate) const fn lengths(&self) -> Lengths {
        self.flows.lengths
    }

    /// Returns what the settings say.
    #[inline]
    pub(crate) const fn plan(&self) -> QueuePlan {
        self.plan
    }

    /// Returns how many requests of a run wait.
    pub(crate) fn of_run(&self, run: RunId) -> usize {
        self.runs.waiting(run)
    }

    /// Returns the number of the run of a request, if it has one and a request of it has a place.
    pub(crate) fn find_run(&self, ask: &Ask<'_>) -> RunId {
        ask.run().map_or(RunId::NONE, |(namespace, run)| self.runs.find(namespace, run))
    }

    /// Returns the name of the run that had this number last.
    pub(crate) fn run_name(&self, run: RunId) -> Option<&str> {
        self.runs.name(run)
    }

    /// Returns what is free for a further waiter while `running` requests run. The line is bounded by its places, and together with
    /// the running requests by the gate. Both matter: a partition at its hard cap waits while the server runs less than its limit,
    /// and a limit that shrank runs more.
    #[inline]
    pub(crate) fn room(&self, limit: usize, running: usize) -> Room {
        let Lengths { in_line, at_gate, .. } = self.lengths();
        let places = self.plan.line.places.count(limit);
        let inside = running.saturating_add(in_line);
        let within_gate = self.plan.queue.is_none_or(|queue| inside < limit.saturating_add(queue));
        let at_gate = at_gate < self.plan.gate.places.count(limit);
        Room { places, in_line: in_line < places && within_gate, at_gate }
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Waiter {
        *self.flows.waiters.get(key)
    }

    /// Like `get`, for a key that may be stale.
    pub(crate) fn find(&self, key: Key) -> Option<Waiter> {
        self.flows.waiters.find(key).copied()
    }

    /// Returns all waiters that have a place, including those that were answered and have not asked yet.
    pub(crate) fn live(&self) -> Vec<(Key, Waiter)> {
        self.flows.waiters.keys().into_iter().map(|key| (key, self.get(key))).collect()
    }

    /// Adds a waiter that stands nowhere yet, or a request that `has` a slot already and asks a store before it runs; `None` where
    /// four billion wait already. `forgotten` and `newest` are entries of the journal: no reader asks any more for the names of runs
    /// that left before the former.
    pub(crate) fn join(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        has: Option<(u32, Marks, DryRunOutcome)>,
        (forgotten, newest): (u64, u64),
    ) -> Option<Key> {
        let run = ask.run().map_or(RunId::NONE, |(namespace, run)| self.runs.join(namespace, run, forgotten));
        self.sequence += 1;
        let Some(key) = self.flows.waiters.insert(Waiter::new(ask, label, run, self.sequence, now)) else {
            self.runs.leave(run, newest);
            return None;
        };
        match has {
            Some((in_flight, marks, dry_run)) => {
                self.mark(key, marks, dry_run);
                self.answer(key, Stage::Granted { in_flight, until: None }, marks);
            }
            None => self.note_wait(now, run),
        }
        Some(key)
    }

    /// Notes that a request of a run waits from now on.
    fn note_wait(&mut self, now: Timestamp, run: RunId) {
        // As long as no request waits, nothing takes note of the time.
        self.note_empty(now);
        self.runs.wait(run);
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now. A label may have a bound of its
    /// own, for gate and line together. `two_turns` is how long it takes until two slots come free, which some disciplines ask for.
    pub(crate) fn stand(
        &mut self,
        now: Timestamp,
        key: Key,
        (stage, claim): (Stage, Claim),
        flow_tag: FlowTag,
        (own, in_room): (Option<Duration>, Option<Duration>),
        two_turns: impl FnOnce() -> Duration,
    ) {
        if let Discipline::BurstCredit { .. } = self.plan.discipline {
            self.two_turns = two_turns();
        }
        self.flows.waiters.get_mut(key).claim = claim;
        self.flows.enlist(key, stage, flow_tag, Waiters::push_back);
        self.begin_wait(now, key, stage, own, in_room);
    }

    /// Puts a waiter that had a slot and gave it back to where it stood in line, for as long as it could have waited;
    /// if it had not waited yet, its wait starts now.
    pub(crate) fn requeue(&mut self, now: Timestamp, key: Key, flow_tag: FlowTag, own: Option<Duration>) {
        let Waiter { stage, run, .. } = self.get(key);
        let until = if let Stage::Granted { until, .. } = stage { until } else { None };
        self.note_wait(now, run);
        self.flows.enlist(key, Stage::Line, flow_tag, Waiters::push_in_order);
        self.begin_wait(now, key, Stage::Line, own, None);
        if let Some(until) = until {
            self.flows.waiters.get_mut(key).deadline = until;
            self.deadlines.set(key.index, until);
        }
    }

    /// Takes a waiter out of the line or the gate, unless its wait ended before: for its slot if it `is_served`.
    pub(crate) fn leave(&mut self, key: Key, is_served: bool) -> Option<Left> {
        let &Waiter { stage, partition, label, run, marks, .. } = self.flows.waiters.get(key);
        if matches!(stage, Stage::Granted { .. } | Stage::Refused(_)) {
            return None;
        }
        let start = self.flows.leave(key, is_served);
        if self.lengths_of(partition).in_line == 0 {
            self.allowances[partition.index()].rest();
        }
        self.runs.end_wait(run);
        self.deadlines.remove(key.index);
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.deadline, waiter.claim) = (Timestamp::NEVER, Claim::None);
        Some(Left { label, is_over_quota: !marks.is_empty(), start })
    }

    /// Takes a waiter away from the gate, for a place in line; returns where its flow goes on, if the waiter was the
    /// last one of it.
    pub(crate) fn leave_gate(&mut self, key: Key) -> Option<u64> {
        self.flows.leave(key, false)
    }

    /// Forgets a waiter that stands nowhere any more. `newest` is the newest entry of the journal.
    pub(crate) fn remove(&mut self, key: Key, newest: u64) {
        self.runs.leave(self.get(key).run, newest);
        self.flows.waiters.remove(key);
    }

    /// Returns the waiter that makes room in a full line for this flow: of the partition `beyond` its share, if there is one.
    pub(crate) fn victim(&self, key: FlowKey, weight: u32, beyond: Option<PartitionId>) -> Option<Key> {
        beyond.map_or_else(|| self.flows.victim(key, weight), |partition| self.flows.least_important(partition))
    }

    /// Returns how many requests at most are served before a further request of this flow, itself included: for the
    /// partition, and for all partitions.
    pub(crate) fn turns_before(&self, now: Timestamp, key: FlowKey, weight: u32) -> (usize, usize) {
        self.flows.turns_before(key, weight, self.is_backed_up(now))
    }

    /// Gives a waiter that left the line its answer: its slot with the marks that it has, or its rejection.
    pub(crate) fn answer(&mut self, key: Key, answer: Stage, marks: Marks) {
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.stage, waiter.marks) = (answer, marks);
    }

    /// Marks what a waiter is beyond of, and what would have become of it.
    pub(crate) fn mark(&mut self, key: Key, marks: Marks, dry_run: DryRunOutcome) {
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.marks, waiter.dry_run) = (marks, dry_run);
    }

    /// Stops the turns of a label, or lets it have them again.
    pub(crate) fn throttle(&mut self, label: LabelId, is_throttled: bool) {
        self.flows.throttle(label, is_throttled);
    }

    /// Gives a label another weight.
    pub(crate) fn weigh(&mut self, label: LabelId, weight: u32) {
        self.flows.weigh(label, weight);
    }

    /// Returns a waiter whose wait is over by now.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<Key> {
        let (_, index) = self.deadlines.first().filter(|&(at, _)| at <= now)?;
        Some(self.flows.waiters.key(index))
    }

    /// Returns when the next wait is over.
    pub(crate) fn next_deadline(&self) -> Timestamp {
        self.deadlines.earliest()
    }
}
