//! What is counted for several labels together, and the lines of labels that wait for room there.
//!
//! A label that has to wait for a meter stands in line there, and is not looked at again until the meter has room for
//! it: when a request ends, or at the time when a rate has room. Labels may need different things of one meter, since
//! each key may set a bound of its own; labels that need the same stand in the same line. So a label that is woken
//! finds room, and a unit that comes free wakes one label, however many wait.

use std::collections::{BTreeMap, HashMap};

use super::rate::Rate;
use crate::{
    Timestamp,
    deadlines::Deadlines,
    ids::{LabelId, MeterId, RuleClassId},
    plan::rules::Rule,
    stall::Stall,
    tokens::{Holder, Marks, Need},
};

#[derive(Debug, Default)]
pub(in crate::quota) struct Meter {
    key: MeterKey,
    needed_by: usize,
    pub(super) running: usize,
    /// Time since one of these requests ended.
    pub(in crate::quota) stall: Stall,
    pub(super) rate: Rate,
    /// Running requests that an observing rule would have rejected, and the rate without such requests: what observing
    /// rules see.
    pub(super) over_quota: usize,
    observed: Rate,
    lines: Vec<ThrottledAt>,
}

/// Labels that need the same, by when they came; few meters have more than one line.
#[derive(Debug)]
struct ThrottledAt {
    need: Need,
    labels: BTreeMap<u64, LabelId>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct MeterKey {
    /// Namespace; `None`: all namespaces but the empty one, for labels that share an entry.
    pub(super) namespace: Option<Box<str>>,
    pub(super) of: MeterOf,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum MeterOf {
    Class(RuleClassId),
    Group(Box<str>),
}

impl Default for MeterOf {
    fn default() -> Self {
        Self::Class(RuleClassId::OTHERS)
    }
}

impl Meter {
    /// Returns how many running requests a rule counts.
    pub(super) const fn running_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        if rule.observes { self.running - self.over_quota } else { self.running }
    }

    /// Returns the rate as a rule counts it.
    pub(super) const fn rate_of<B: Copy>(&self, rule: Rule<B>) -> &Rate {
        if rule.observes { &self.observed } else { &self.rate }
    }

    /// Changes the rate, and what observing rules see of it, where there are any and the change `is_seen` by them.
    #[inline]
    pub(super) fn change_rate(&mut self, is_seen: bool, change: impl Fn(&mut Rate)) {
        change(&mut self.rate);
        if is_seen {
            change(&mut self.observed);
        }
    }

    /// Whether its rates can't be told from new ones.
    const fn is_fresh(&self, now: Timestamp) -> bool {
        self.rate.is_fresh(now) && self.observed.is_fresh(now)
    }

    fn has_room(&self, now: Timestamp, need: Need) -> bool {
        match need {
            Need::Slot(bound) => self.running < bound,
            Need::Start(rule) => self.rate.allowed_at(now, rule) <= now,
        }
    }

    /// Returns the label that came first among the labels that find room.
    fn take_next(&mut self, now: Timestamp) -> Option<LabelId> {
        let open = (0..self.lines.len()).filter(|&line| self.has_room(now, self.lines[line].need));
        let line = open.min_by_key(|&line| self.lines[line].labels.first_key_value().map(|(&stamp, _)| stamp))?;
        let (_, label) = self.lines[line].labels.pop_first()?;
        if self.lines[line].labels.is_empty() {
            self.lines.swap_remove(line);
        }
        Some(label)
    }

    /// Returns when time alone makes room for a label that waits.
    fn room_at(&self, now: Timestamp) -> Timestamp {
        let rates = self.lines.iter().filter_map(|line| match line.need {
            Need::Slot(_) => None,
            Need::Start(rule) => Some(self.rate.allowed_at(now, rule)),
        });
        rates.min().unwrap_or(Timestamp::NEVER)
    }
}

/// All meters: at most two for each label that is known, and what a reload left over that still counts.
#[derive(Debug, Default)]
pub(in crate::quota) struct Meters {
    list: Vec<Meter>,
    pub(super) numbers: HashMap<MeterKey, u32>,
    free: Vec<u32>,
    /// Meters that may have room for some labels that wait there.
    freed: Vec<MeterId>,
    /// Times when other meters have room again.
    due: Deadlines,
    pub(super) stamp: u64,
}

impl Meters {
    pub(in crate::quota) fn get(&self, id: MeterId) -> &Meter {
        &self.list[id.number() as usize]
    }

    pub(super) fn get_mut(&mut self, id: MeterId) -> &mut Meter {
        &mut self.list[id.number() as usize]
    }

    /// Returns the meter with this key, for one more label.
    pub(super) fn join(&mut self, key: MeterKey) -> MeterId {
        if let Some(&number) = self.numbers.get(&key) {
            self.list[number as usize].needed_by += 1;
            return MeterId::from_number(number);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.list.push(Meter::default());
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        });
        self.list[number as usize] = Meter { key: key.clone(), needed_by: 1, ..Meter::default() };
        self.numbers.insert(key, number);
        MeterId::from_number(number)
    }

    /// Whether a label could do without a meter, and no label would have a new rate.
    pub(super) fn may_leave(&self, now: Timestamp, id: MeterId) -> bool {
        let meter = self.get(id);
        meter.needed_by > 1 || meter.is_fresh(now)
    }

    /// Notes that a label needs a meter no more. Its use stays counted as long as that matters: a reload may take a
    /// rule away, and the next reload may bring it back.
    pub(super) fn leave(&mut self, now: Timestamp, id: MeterId) {
        let meter = &mut self.list[id.number() as usize];
        meter.needed_by -= 1;
        if meter.needed_by == 0 && meter.is_fresh(now) {
            self.numbers.remove(&meter.key);
            self.free.push(id.number());
        }
    }

    /// Forgets meters that no label needs and whose rates can't be told from new ones.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let (list, free) = (&self.list, &mut self.free);
        self.numbers.retain(|_, &mut number| {
            let meter = &list[number as usize];
            let stays = meter.needed_by > 0 || !meter.is_fresh(now);
            if !stays {
                free.push(number);
            }
            stays
        });
    }

    /// Gives back what a running request took.
    pub(super) fn release(&mut self, id: MeterId, holder: &Holder) {
        let (meter, cost) = (self.get_mut(id), holder.cost());
        meter.running -= cost;
        meter.stall.freed();
        meter.over_quota -= if holder.marks.has(Marks::OVER_QUOTA) { cost } else { 0 };
        if !meter.lines.is_empty() && !self.freed.contains(&id) {
            self.freed.push(id);
        }
    }

    /// Puts a label in line: where it stood, if it has a stamp, or at the end. Returns its stamp.
    pub(super) fn throttle(
        &mut self,
        now: Timestamp,
        id: MeterId,
        need: Need,
        label: LabelId,
        stamp: Option<u64>,
    ) -> u64 {
        self.stamp += 1;
        let stamp = stamp.unwrap_or(self.stamp);
        let meter = &mut self.list[id.number() as usize];
        match meter.lines.iter_mut().find(|line| line.need == need) {
            Some(line) => drop(line.labels.insert(stamp, label)),
            None => meter.lines.push(ThrottledAt { need, labels: BTreeMap::from([(stamp, label)]) }),
        }
        self.due.set(id.number(), meter.room_at(now));
        stamp
    }

    /// Takes a label out of line.
    pub(super) fn unthrottle(&mut self, id: MeterId, need: Need, stamp: u64) {
        let lines = &mut self.list[id.number() as usize].lines;
        if let Some(line) = lines.iter().position(|line| line.need == need) {
            lines[line].labels.remove(&stamp);
            if lines[line].labels.is_empty() {
                lines.swap_remove(line);
            }
        }
        if lines.is_empty() {
            self.due.remove(id.number());
        }
    }

    /// Returns when a meter has room for a label that waits, by the passing of time.
    pub(in crate::quota) fn next_due(&self) -> Timestamp {
        self.due.earliest()
    }

    /// Looks at meters that have room because time has passed.
    pub(in crate::quota) fn pass(&mut self, now: Timestamp) {
        while let Some(id) = self.due.take_due(now).map(MeterId::from_number) {
            if !self.freed.contains(&id) {
                self.freed.push(id);
            }
        }
    }

    /// Returns the next label that finds room where it stands in line; the label leaves the line.
    pub(in crate::quota) fn next_freed(&mut self, now: Timestamp) -> Option<LabelId> {
        while let Some(&id) = self.freed.last() {
            let meter = &mut self.list[id.number() as usize];
            if let Some(label) = meter.take_next(now) {
                return Some(label);
            }
            self.due.set(id.number(), meter.room_at(now));
            self.freed.pop();
        }
        None
    }
}
