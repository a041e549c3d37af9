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
    tokens::{Ask, Claim, DryRunOutcome, FlowTag, Marks, Refusal, Stage, Waiter},
};

/// The waiters.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// Waiters in line, and at the gate.
    in_line: usize,
    at_gate: usize,
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
    /// Waiters of each partition that have a place in the room for guarantees.
    in_room: Vec<usize>,
    /// The number of the last waiter that came.
    sequence: u64,
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
        Self {
            in_line: 0,
            at_gate: 0,
            plan,
            last_empty: Timestamp::ZERO,
            allowances: vec![BurstAllowance::default(); partitions],
            two_turns: Duration::ZERO,
            flows: FairQueue::new(partitions, plan.discipline == Discipline::Fifo, plan.aging),
            runs: Runs::default(),
            deadlines: Deadlines::default(),
            passed_over: false,
            in_room: vec![0; partitions],
            sequence: 0,
        }
    }

    /// Takes new settings. Waiters keep their places.
    pub(crate) fn replace(&mut self, partitions: usize, plan: QueuePlan) {
        self.plan = plan;
        self.allowances.resize_with(partitions, BurstAllowance::default);
        self.in_room.resize(partitions, 0);
        self.flows.reorder(partitions, plan.discipline == Discipline::Fifo, plan.aging);
    }

    /// Returns how many requests wait, in line and at the gate.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.in_line + self.at_gate
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) const fn in_line(&self) -> usize {
        self.in_line
    }

    pub(crate) const fn at_gate(&self) -> usize {
        self.at_gate
    }

    /// Returns how many requests of a partition wait in the room for guarantees.
    pub(crate) fn in_room_of(&self, partition: PartitionId) -> usize {
        self.in_room[partition.index()]
    }

    /// Returns how many requests of a run wait.
    pub(crate) fn of_run(&self, run: RunId) -> usize {
        self.runs.waiting(run)
    }

    /// Returns the number of a run of which a request has a place.
    pub(crate) fn find_run(&self, namespace: &str, run: &str) -> RunId {
        self.runs.find(namespace, run)
    }

    /// Returns the name of the run that had this number last.
    pub(crate) fn run_name(&self, run: RunId) -> Option<&str> {
        self.runs.name(run)
    }

    /// Returns how many places the line has under this limit.
    pub(crate) const fn places(&self, limit: usize) -> usize {
        self.plan.line.places.count(limit)
    }

    /// Returns how many requests may be inside of the gate besides those that the limit lets run; `None` without a
    /// gate.
    pub(crate) const fn behind_gate(&self) -> Option<usize> {
        self.plan.queue
    }

    pub(crate) const fn discipline(&self) -> Discipline {
        self.plan.discipline
    }

    /// Whether a waiter may join the line while `running` requests run. The line is bounded by its places, and together with the
    /// running requests by the gate. Both matter: a partition at its hard cap waits while the server runs less than its limit,
    /// and a limit that shrank runs more.
    pub(crate) fn has_room(&self, limit: usize, running: usize) -> bool {
        let inside = running.saturating_add(self.in_line);
        let within_gate = self.plan.queue.is_none_or(|queue| inside < limit.saturating_add(queue));
        self.in_line < self.places(limit) && within_gate
    }

    /// Whether a waiter may stand before the gate.
    pub(crate) const fn has_room_at_gate(&self, limit: usize) -> bool {
        self.at_gate < self.plan.gate.places.count(limit)
    }

    pub(crate) fn get(&self, key: Key) -> &Waiter {
        self.flows.waiters.get(key)
    }

    /// Like `get`, for a key that may be stale.
    pub(crate) fn find(&self, key: Key) -> Option<&Waiter> {
        self.flows.waiters.find(key)
    }

    /// Returns all places that are in use.
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.flows.waiters.keys()
    }

    /// Returns how many places are in use, including those of waiters that were answered and have not asked yet.
    pub(crate) const fn entries(&self) -> usize {
        self.flows.waiters.len()
    }

    /// Adds a waiter that stands nowhere yet; `None` where four billion wait already. `forgotten` and `newest` are
    /// entries of the journal: no reader asks any more for the names of runs that left before the former.
    pub(crate) fn join(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, range: (u64, u64)) -> Option<Key> {
        if self.in_line == 0 {
            // As long as no request waits, nothing takes note of the time.
            self.last_empty = now;
        }
        let key = self.insert(now, ask, label, range)?;
        self.runs.wait(self.get(key).run);
        Some(key)
    }

    /// Adds a request that got its slot and has to ask a store before it runs.
    pub(crate) fn grant_to(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        (in_flight, marks): (u32, Marks),
        range: (u64, u64),
    ) -> Option<Key> {
        let key = self.insert(now, ask, label, range)?;
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.stage, waiter.marks) = (Stage::Granted { in_flight, until: None }, marks);
        Some(key)
    }

    fn insert(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        (forgotten, newest): (u64, u64),
    ) -> Option<Key> {
        let run = ask.subject.and_then(|subject| Some((subject.namespace, subject.run?)));
        let run = run.map_or(RunId::NONE, |(namespace, run)| self.runs.join(namespace, run, forgotten));
        self.sequence += 1;
        let key = self.flows.waiters.insert(Waiter::new(ask, label, run, self.sequence, now));
        if key.is_none() {
            self.runs.leave(run, newest);
        }
        key
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now. A label may have a bound of its
    /// own, for gate and line together.
    pub(crate) fn stand(
        &mut self,
        now: Timestamp,
        key: Key,
        stage: Stage,
        flow_tag: FlowTag,
        (own, in_room): (Option<Duration>, Option<Duration>),
        claim: Claim,
    ) {
        self.flows.enlist(key, stage, flow_tag, Waiters::push_back);
        *(if stage == Stage::Line { &mut self.in_line } else { &mut self.at_gate }) += 1;
        let waiter = self.flows.waiters.get_mut(key);
        waiter.claim = claim;
        self.in_room[waiter.partition.index()] += usize::from(claim != Claim::None);
        self.begin_wait(now, key, stage, own, in_room);
    }

    /// Puts a waiter that had a slot and gave it back to where it stood in line, for as long as it could have waited;
    /// if it had not waited yet, its wait starts now.
    pub(crate) fn requeue(&mut self, now: Timestamp, key: Key, flow_tag: FlowTag, own: Option<Duration>) {
        if self.in_line == 0 {
            self.last_empty = now;
        }
        let stage = self.flows.waiters.get(key).stage;
        let until = if let Stage::Granted { until, .. } = stage { until } else { None };
        self.in_line += 1;
        self.runs.wait(self.get(key).run);
        self.flows.enlist(key, Stage::Line, flow_tag, Waiters::push_in_order);
        self.begin_wait(now, key, Stage::Line, own, None);
        if let Some(until) = until {
            self.flows.waiters.get_mut(key).deadline = until;
            self.deadlines.set(key.index, until);
        }
    }

    /// Takes a waiter out of the line or the gate, unless its wait ended before: for its slot if it `is_served`.
    pub(crate) fn leave(&mut self, key: Key, is_served: bool) -> Option<Left> {
        let &Waiter { stage, claim, partition, label, run, marks, .. } = self.flows.waiters.get(key);
        match stage {
            Stage::Line => self.in_line -= 1,
            Stage::Gate => self.at_gate -= 1,
            Stage::Granted { .. } | Stage::Refused(_) => return None,
        }
        self.in_room[partition.index()] -= usize::from(claim != Claim::None);
        let start = self.flows.leave(key, is_served);
        if self.in_line_of(partition) == 0 {
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
        self.at_gate -= 1;
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

    /// Whether the last turn passed over a waiter that came earlier.
    pub(crate) const fn was_passed_over(&self) -> bool {
        self.passed_over
    }

    /// Gives a waiter that left the line its slot.
    pub(crate) fn grant(&mut self, key: Key, in_flight: u32, until: Timestamp, marks: Marks) {
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.stage, waiter.marks) = (Stage::Granted { in_flight, until: Some(until) }, marks);
    }

    /// Gives a waiter that left the line its rejection.
    pub(crate) fn reject(&mut self, key: Key, refusal: Refusal) {
        self.flows.waiters.get_mut(key).stage = Stage::Refused(refusal);
    }

    /// Marks what a waiter is beyond of, and what would have become of it.
    pub(crate) fn mark(&mut self, key: Key, marks: Marks, dry_run: DryRunOutcome) {
        let waiter = self.flows.waiters.get_mut(key);
        (waiter.marks, waiter.dry_run) = (marks, dry_run);
    }

    /// Notes what would have become of a waiter.
    pub(crate) fn take_along(&mut self, key: Key, dry_run: DryRunOutcome) {
        self.flows.waiters.get_mut(key).dry_run = dry_run;
    }

    /// Takes the marks of a waiter that gives its slot back.
    pub(crate) fn unmark(&mut self, key: Key) {
        self.flows.waiters.get_mut(key).marks = Marks::NONE;
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
