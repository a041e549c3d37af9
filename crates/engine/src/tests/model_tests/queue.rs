//! The order of turns, by looking at every waiter.

use super::{
    super::super::plan::{Discipline, Mode},
    model::{Model, Person},
    setup::{At, Mistake, Request},
};

/// Label, partition and level: in this order, which decides nothing.
pub(super) type FlowKey = (usize, usize, usize);

/// State of a flow beyond its waiters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) start: u64,
    pub(super) stamp: u64,
}

/// Distance by which a flow of weight 1 moves on with each turn. Weights are 1, 2 and 4.
const TURN: u64 = 4;

impl Model {
    pub(super) const fn key_of(person: &Person) -> FlowKey {
        (person.label, person.partition, person.level)
    }

    /// Returns the waiters of a flow, in order of arrival.
    pub(super) fn flow_members(&self, key: FlowKey) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.people.len()).filter(move |&i| self.people[i].waits() && Self::key_of(&self.people[i]) == key)
    }

    pub(super) fn turn_of(&self, label: usize) -> u64 {
        let weight = if self.mistake == Mistake::IgnoresWeights { 1 } else { self.rule(label).weight };
        TURN / u64::from(weight)
    }

    fn served(&self, (_, partition, level): FlowKey) -> u64 {
        let served = self.served[partition];
        if self.mistake == Mistake::MixesLevels { served.into_iter().max().unwrap_or(0) } else { served[level] }
    }

    /// Returns where a flow goes on that comes back: not before flows that waited, and not more than a turn behind
    /// them.
    pub(super) fn catch_up(&self, key: FlowKey, start: u64) -> u64 {
        let served = self.served(key);
        start.clamp(served, served + self.turn_of(key.0))
    }

    pub(super) fn begin_unless_there(&mut self, key: FlowKey) {
        if self.flows.iter().all(|flow| flow.key != key) {
            self.stamp += 1;
            let left_with = if self.mistake == Mistake::OwesNothing { 0 } else { self.labels[key.0].start };
            self.flows.push(Flow { key, start: self.catch_up(key, left_with), stamp: self.stamp });
        }
    }

    pub(super) fn end_unless_there(&mut self, key: FlowKey) {
        if self.flow_members(key).next().is_none() {
            self.end(key);
        }
    }

    pub(super) fn end(&mut self, key: FlowKey) {
        if let Some(index) = self.flows.iter().position(|flow| flow.key == key) {
            self.labels[key.0].start = self.flows.remove(index).start;
        }
    }

    /// Lets the flows of a label have turns again.
    pub(super) fn unthrottle(&mut self, label: usize) {
        for index in 0..self.flows.len() {
            let Flow { key, start, .. } = self.flows[index];
            if key.0 == label && self.mistake != Mistake::NeverCatchesUp {
                self.flows[index].start = self.catch_up(key, start);
            }
        }
    }

    fn is_parked(&self, label: usize) -> bool {
        self.mistake != Mistake::NeverParks && self.is_full(label)
    }

    /// Gives a flow its turn.
    pub(super) fn serve(&mut self, key: FlowKey) {
        let (label, partition, level) = key;
        for other in level + 1..4 {
            let passed = self.flows.iter().any(|flow| {
                let ready = !self.is_parked(flow.key.0) || self.mistake == Mistake::AgesLevelsThatAreParked;
                flow.key.1 == partition && flow.key.2 == other && ready
            });
            self.passed_over[partition][other] += u32::from(passed);
        }
        self.passed_over[partition][level] = 0;
        self.stamp += 1;
        let (stamp, turn) = (self.stamp, self.turn_of(label));
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.key == key) else { return };
        let served = &mut self.served[partition][level];
        *served = (*served).max(flow.start);
        flow.stamp = stamp;
        flow.start += turn;
    }

    /// Returns the waiter whose turn it is, and whether it passes over a waiter that came earlier.
    pub(super) fn next(&self) -> Option<(usize, bool)> {
        if self.mode != Mode::Enforce {
            return Some((self.head(*self.flows.iter().min_by_key(|flow| flow.key)?)?, false));
        }
        let all = 0..self.setup.parts.len();
        let candidates: Vec<(usize, Flow)> = all
            .filter(|&partition| self.partition_may_run(partition))
            .filter_map(|partition| Some((partition, self.next_flow(partition)?)))
            .collect();
        let is_owed = |partition| self.mistake != Mistake::ForgetsWhoIsOwed && self.is_below_share(partition);
        let owed = candidates.iter().filter(|&&(partition, _)| is_owed(partition));
        let owed: Vec<usize> = owed.filter_map(|&(_, flow)| self.head(flow)).collect();
        let Some(&oldest) = owed.iter().min_by_key(|&&head| self.people[head].id) else {
            let (_, flow) = candidates.iter().min_by_key(|(_, flow)| self.rank(*flow))?;
            return Some((self.head(*flow)?, false));
        };
        if self.passed_one_over || self.mistake == Mistake::ServesTheRoomByAgeAlone {
            return Some((oldest, false));
        }
        // In 840ths, which all shares of these models divide.
        let used = |head: usize| {
            let partition = self.people[head].partition;
            self.running_in(partition) * 840 / self.share(partition)
        };
        let next = owed.into_iter().min_by_key(|&head| (used(head), self.people[head].id))?;
        Some((next, next != oldest))
    }

    /// Returns the flow of a partition whose turn it is: of the most important level, or of a level that was passed
    /// over too often.
    fn next_flow(&self, partition: usize) -> Option<Flow> {
        let ready = || self.flows.iter().filter(|flow| flow.key.1 == partition && !self.is_parked(flow.key.0));
        let first = ready().map(|flow| flow.key.2).min()?;
        let passed_over = |level: usize| self.passed_over[partition][level];
        let starving = self.setup.aging.filter(|_| self.mistake != Mistake::NeverAges).and_then(|aging| {
            let levels = first + 1..4;
            let levels = levels.filter(|&it| passed_over(it) >= aging && ready().any(|flow| flow.key.2 == it));
            levels.max_by_key(|&it| (passed_over(it), it))
        });
        let level = starving.unwrap_or(first);
        let turn = |flow: &&Flow| match self.setup.discipline {
            _ if self.mistake == Mistake::FavoursOneLabel => (u64::from(flow.key.0 != 2), flow.start, flow.stamp),
            Discipline::Fifo => (self.first_of(**flow), 0, 0),
            _ => (0, flow.start, flow.stamp),
        };
        ready().filter(|flow| flow.key.2 == level).min_by_key(turn).copied()
    }

    /// Returns the rank of a flow among those of other partitions: smaller is earlier.
    fn rank(&self, flow: Flow) -> u64 {
        if self.setup.discipline == Discipline::Fifo { self.first_of(flow) } else { flow.stamp }
    }

    fn first_of(&self, flow: Flow) -> u64 {
        self.flow_members(flow.key).map(|index| self.people[index].id).min().unwrap_or(u64::MAX)
    }

    /// Returns the waiter of a flow that goes first: waiters in line before waiters at the gate.
    fn head(&self, flow: Flow) -> Option<usize> {
        let mut in_line = self.flow_members(flow.key).filter(|&index| self.people[index].at == At::Line);
        let newest = self.newest_first || self.mistake == Mistake::LastComeFirstServed;
        let first = if newest { in_line.next_back() } else { in_line.next() };
        first.or_else(|| self.flow_members(flow.key).find(|&index| self.people[index].at == At::Gate))
    }

    /// Returns the waiter that makes room in a full line: the newest of the longest flow of the least important level
    /// there, in the partition that is most beyond its share for a request of a partition below its own. If several flows are equally long, the engine may choose any of them.
    pub(super) fn victim(&self, ask: &Request, label: usize, pushed_out: Option<u64>) -> Option<usize> {
        let in_line = |key: FlowKey| self.flow_members(key).filter(|&index| self.people[index].at == At::Line);
        let length = |key: FlowKey| in_line(key).count() as u64 * self.turn_of(key.0);
        let own = length((label, ask.partition, ask.level)) + self.turn_of(label);
        let keys = self.flows.iter().map(|flow| flow.key);
        let beyond = |&it: &usize| self.in_line(it).saturating_sub(self.share_of_places(it));
        let most_beyond = (0..self.setup.parts.len()).filter(|it| beyond(it) > 0).max_by_key(beyond);
        let is_below = self.in_line(ask.partition) < self.share_of_places(ask.partition);
        let other = most_beyond.filter(|_| is_below && self.mistake != Mistake::IgnoresSharesOfPlaces);
        let partition = other.unwrap_or(ask.partition);
        let keys: Vec<_> = keys.filter(|&key| key.1 == partition && length(key) > 0).collect();
        let &(_, _, level) = keys.iter().max_by_key(|key| key.2)?;
        let of_level = || keys.iter().copied().filter(|key| key.2 == level);
        let longest = match self.mistake {
            Mistake::PushesOutTheShortest => of_level().map(length).min()?,
            Mistake::NeverPushesOut => return None,
            _ => of_level().map(length).max()?,
        };
        let uses_more = level == ask.level && longest > own && self.setup.discipline != Discipline::Fifo;
        (other.is_some() || level > ask.level || uses_more).then_some(())?;
        let choices: Vec<usize> = of_level()
            .filter(|&key| length(key) == longest)
            .filter_map(|key| {
                if self.mistake == Mistake::PushesOutTheOldest { in_line(key).next() } else { in_line(key).next_back() }
            })
            .collect();
        let chosen = choices.iter().find(|&&index| Some(self.people[index].id) == pushed_out);
        chosen.or_else(|| choices.first()).copied()
    }
}
