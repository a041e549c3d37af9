//! The labels that are known: a bounded table, because their names come from strangers.
//!
//! A label is interned when it is first seen. Where the table is full, the label that has been idle for longest makes
//! room; one that runs, waits, or has workers is never forgotten. Where all are in use, further ones of a class share one
//! entry, so that a flood of invented names costs a constant amount of memory and none of the others its place. What the
//! class says about any label holds for all that share it together: there is no way around a rule by inventing names.

#[cfg(test)]
mod check_tests;
mod idle;

use std::{collections::HashMap, time::Duration};

use super::{
    ask::Subject,
    fair_queue::{STRIDE, Standing},
    kept::Kept,
    plan::{LabelPlan, LabelRule},
    rules::{Account, Rule, Rules},
    workers::Workers,
};
use crate::time::{Timestamp, nanos};

/// The number of a label's entry, as long as it is in use.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct LabelId(u32);

impl LabelId {
    /// All requests without a label.
    pub(crate) const DEFAULT: Self = Self(0);
    /// All labels that the table has no room for, of the first class; those of the others follow.
    pub(crate) const OVERFLOW: Self = Self(1);

    const NONE: u32 = u32::MAX;

    /// The number as such.
    pub(super) const fn index(self) -> u32 {
        self.0
    }

    /// The label with this number.
    pub(super) const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

/// Nothing in the journal is about it yet.
pub(super) const UNNAMED: u64 = u64::MAX;

/// What is known about one label.
#[derive(Debug)]
pub(super) struct Label {
    /// The class of work whose rules hold for it.
    pub(super) class: u8,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) rule: LabelRule,
    /// What is counted for it, if its class has rules.
    pub(super) account: Option<Box<Account>>,
    /// How many of it may run before others of it wait: its caps, and the slots of its workers where these bind.
    cap: usize,
    pub(super) running: usize,
    /// How many of those that run do so outside of the limit.
    pub(super) outside: usize,
    /// In line and at the gate.
    pub(super) waiting: usize,
    /// How many of both, and of those that run, are beyond what observing rules allow.
    pub(super) beyond: usize,
    pub(super) beyond_running: usize,
    /// What is kept for it because it was turned away below its fair share.
    pub(super) kept: Kept,
    pub(super) workers: Option<Box<Workers>>,
    pub(super) admitted: u64,
    pub(super) rejected: u64,
    /// How many of those admitted an observing rule or partition would have rejected.
    pub(super) would_reject: u64,
    /// How long it holds a slot, on average.
    mean_hold: u64,
    /// Where its flow goes on when it waits again.
    pub(super) start: u64,
    /// The journal's entries about its number are about it from this one on.
    pub(super) named_from: u64,
    previous: u32,
    next: u32,
}

impl Label {
    fn new(class: u8, namespace: &str, name: &str, rule: LabelRule) -> Self {
        Self {
            class,
            namespace: namespace.into(),
            name: name.into(),
            rule,
            account: None,
            cap: rule.cap.unwrap_or(usize::MAX),
            running: 0,
            outside: 0,
            waiting: 0,
            beyond: 0,
            beyond_running: 0,
            kept: Kept::default(),
            workers: None,
            admitted: 0,
            rejected: 0,
            would_reject: 0,
            mean_hold: 0,
            start: 0,
            named_from: UNNAMED,
            previous: LabelId::NONE,
            next: LabelId::NONE,
        }
    }

    /// Looks again at what bounds how many of it run.
    fn find_cap(&mut self, workers_bind: bool) {
        let slots = self.workers.as_ref().filter(|_| workers_bind).map_or(usize::MAX, |it| it.slots());
        let rule = self.account.as_ref().map_or(usize::MAX, |account| account.waits_at());
        self.cap = self.rule.cap.unwrap_or(usize::MAX).min(slots).min(rule);
    }

    const fn is_full(&self) -> bool {
        self.running >= self.cap
    }

    /// How many of those that run a rule counts, and of those that wait as well.
    pub(super) const fn running_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        if rule.observes { self.running - self.beyond_running } else { self.running }
    }

    /// See [`running_for`](Self::running_for).
    pub(super) const fn inside_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        let inside = self.running + self.waiting;
        if rule.observes { inside - self.beyond } else { inside }
    }

    pub(super) const fn mean_hold(&self) -> Duration {
        Duration::from_nanos(self.mean_hold)
    }

    /// How many of it run under the limit.
    pub(super) const fn within(&self) -> usize {
        self.running - self.outside
    }

    const fn is_active(&self) -> bool {
        self.within() + self.waiting > 0
    }

    const fn is_idle(&self) -> bool {
        self.running + self.waiting == 0 && self.workers.is_none()
    }
}

type Names = HashMap<Box<str>, u32>;

/// All labels.
#[derive(Debug)]
pub(super) struct Labels {
    plan: LabelPlan,
    entries: Vec<Label>,
    /// By class, namespace and name.
    numbers: Vec<HashMap<Box<str>, Names>>,
    /// Those that could be forgotten, the one that is idle for longest first.
    idle_first: u32,
    idle_last: u32,
    /// The last of the entries that are never forgotten: the default one, and one for each class to share.
    last_fixed: LabelId,
    /// How many run or wait.
    active: usize,
    /// How often a label was forgotten, and how often one found no room.
    pub(super) evicted: u64,
    pub(super) overflowed: u64,
    /// How many slots are kept for labels, and for which ones any are.
    pub(super) kept: usize,
    pub(super) keeping: Vec<LabelId>,
}

impl Labels {
    pub(super) fn new(plan: LabelPlan, rules: &mut Rules) -> Self {
        let mut entries = vec![Label::new(0, "", "", LabelRule::default())];
        for class in 0..rules.classes().max(1) {
            let mut shared = Label::new(class, "", "", plan.default);
            shared.account = rules.open(Timestamp::ZERO, class, "", "");
            shared.find_cap(plan.enforce_workers);
            entries.push(shared);
        }
        let last_fixed = LabelId(u32::try_from(entries.len() - 1).unwrap_or(LabelId::OVERFLOW.0));
        Self {
            plan,
            entries,
            numbers: Vec::new(),
            idle_first: LabelId::NONE,
            idle_last: LabelId::NONE,
            last_fixed,
            active: 0,
            evicted: 0,
            overflowed: 0,
            kept: 0,
            keeping: Vec::new(),
        }
    }

    /// Takes new settings, and looks up again what holds for each label. Whoever waits for a rule is looked at anew.
    pub(super) fn replace(&mut self, now: Timestamp, plan: LabelPlan, rules: &mut Rules) {
        self.plan = plan;
        let binds = self.plan.enforce_workers;
        for (number, label) in (0..).zip(&mut self.entries).skip(1) {
            let is_shared = number <= self.last_fixed.0;
            label.rule = if is_shared { self.plan.default } else { self.plan.rule(&label.namespace, &label.name) };
            rules.reopen(now, label);
            label.find_cap(binds);
        }
    }

    /// All numbers that are in use.
    pub(super) fn ids(&self) -> impl Iterator<Item = LabelId> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(LabelId)
    }

    /// Whether an entry is shared by labels that the table has no room for.
    pub(super) fn is_overflow(&self, id: LabelId) -> bool {
        id != LabelId::DEFAULT && id <= self.last_fixed
    }

    /// Whether an entry has a name, which may change: not the default one, and not those that labels share.
    pub(super) fn is_named(&self, id: LabelId) -> bool {
        id > self.last_fixed
    }

    /// Whether the bounds for labels hold: not for requests that have none.
    pub(super) fn is_explicit(&self, id: LabelId) -> bool {
        self.is_overflow(id) || !self.get(id).name.is_empty()
    }

    pub(super) const fn plan(&self) -> &LabelPlan {
        &self.plan
    }

    pub(super) fn get(&self, id: LabelId) -> &Label {
        &self.entries[id.0 as usize]
    }

    pub(super) fn get_mut(&mut self, id: LabelId) -> &mut Label {
        &mut self.entries[id.0 as usize]
    }

    /// Those that are known by name, and the shared ones that are in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LabelId, &Label)> {
        let known = self.numbers.iter().flat_map(HashMap::values).flat_map(HashMap::values).copied();
        let shared = LabelId::OVERFLOW.0..=self.last_fixed.0;
        let overflow = shared.filter(|&number| !self.entries[number as usize].is_idle());
        known.chain(overflow).map(|number| (LabelId(number), &self.entries[number as usize]))
    }

    pub(super) const fn active(&self) -> usize {
        self.active
    }

    /// The label of this name, which is made if it is new.
    pub(super) fn intern(&mut self, now: Timestamp, class: u8, subject: &Subject<'_>, rules: &mut Rules) -> LabelId {
        let &Subject { namespace, label: name, .. } = subject;
        if let Some(known) = self.find(class, namespace, name) {
            return known;
        }
        let Some(id) = self.free_entry(now, rules) else {
            self.overflowed += 1;
            // A class that came with a reload has none of its own.
            return LabelId((LabelId::OVERFLOW.0 + u32::from(class)).min(self.last_fixed.0));
        };
        let label = &mut self.entries[id.0 as usize];
        // What holds for labels doesn't hold for requests that have none.
        let rule = if name.is_empty() { LabelRule::default() } else { self.plan.rule(namespace, name) };
        *label = Label::new(class, namespace, name, rule);
        label.account = rules.open(now, class, namespace, name);
        label.find_cap(self.plan.enforce_workers);
        if self.numbers.len() <= usize::from(class) {
            self.numbers.resize_with(usize::from(class) + 1, HashMap::new);
        }
        let namespaces = &mut self.numbers[usize::from(class)];
        let names = match namespaces.get_mut(namespace) {
            Some(names) => names,
            None => namespaces.entry(namespace.into()).or_default(),
        };
        names.insert(name.into(), id.0);
        self.rest(id);
        id
    }

    pub(super) fn find(&self, class: u8, namespace: &str, label: &str) -> Option<LabelId> {
        self.numbers.get(usize::from(class))?.get(namespace)?.get(label).map(|&number| LabelId(number))
    }

    /// An entry for a new label: one more, or that of the label that is idle for longest and may be forgotten.
    fn free_entry(&mut self, now: Timestamp, rules: &mut Rules) -> Option<LabelId> {
        /// So many labels are asked whether they may be forgotten.
        const TRIES: usize = 8;
        if self.entries.len() - 1 - (self.last_fixed.0 as usize) < self.plan.max_labels {
            self.entries.push(Label::new(0, "", "", LabelRule::default()));
            return u32::try_from(self.entries.len() - 1).ok().map(LabelId);
        }
        for _ in 0..TRIES {
            let id = Some(LabelId(self.idle_first)).filter(|id| id.0 != LabelId::NONE)?;
            if !self.get(id).account.as_ref().is_some_and(|account| account.is_depleted(now)) {
                self.forget(now, id, rules);
                return Some(id);
            }
            // Forgotten, it would have its whole rate again.
            self.wake(id);
            self.rest(id);
        }
        None
    }

    /// Frees the entry of an idle label.
    fn forget(&mut self, now: Timestamp, id: LabelId, rules: &mut Rules) {
        self.wake(id);
        self.evicted += 1;
        let label = &mut self.entries[id.0 as usize];
        self.kept -= label.kept.unused(0, usize::MAX);
        label.kept = Kept::default();
        self.keeping.retain(|&it| it != id);
        if let Some(account) = label.account.take() {
            rules.close(now, &account);
        }
        let (namespace, name) = (std::mem::take(&mut label.namespace), std::mem::take(&mut label.name));
        let namespaces = &mut self.numbers[usize::from(label.class)];
        if let Some(names) = namespaces.get_mut(&namespace) {
            names.remove(&name);
            if names.is_empty() {
                namespaces.remove(&namespace);
            }
        }
    }

    /// Changes what a label runs and waits, and answers whether it was at its cap before and whether it is now.
    #[inline]
    pub(super) fn change(&mut self, id: LabelId, change: impl FnOnce(&mut Label)) -> (bool, bool) {
        if id == LabelId::DEFAULT && self.kept == 0 {
            // The way of most requests: it has no cap and no workers, is never forgotten, and nothing is kept.
            let label = &mut self.entries[0];
            self.active += usize::from(!label.is_active());
            change(label);
            self.active -= usize::from(!label.is_active());
            self.kept = label.kept.unused(label.within(), usize::MAX);
            return (false, false);
        }
        let binds = self.plan.enforce_workers;
        let label = &mut self.entries[id.0 as usize];
        let (was_active, was_idle, was_full) = (label.is_active(), label.is_idle(), label.is_full());
        let kept_before = label.kept.unused(label.within(), usize::MAX);
        change(label);
        if binds {
            label.find_cap(binds);
        }
        let (is_idle, is_full) = (label.is_idle(), label.is_full());
        self.kept = self.kept - kept_before + label.kept.unused(label.within(), usize::MAX);
        self.active = self.active - usize::from(was_active) + usize::from(label.is_active());
        match (was_idle, is_idle) {
            (true, false) => self.wake(id),
            (false, true) => self.rest(id),
            _ => {}
        }
        (was_full, is_full)
    }

    /// How many of it may run.
    pub(super) fn cap(&self, id: LabelId) -> usize {
        self.get(id).cap
    }

    /// Whether as many of it run as may.
    pub(super) fn is_full(&self, id: LabelId) -> bool {
        self.get(id).is_full()
    }

    /// What the label brings to the queue.
    pub(super) fn standing(&self, id: LabelId) -> Standing {
        let label = self.get(id);
        Standing { weight: label.rule.weight, start: label.start, parked: self.is_full(id) }
    }

    /// Notes for how long a slot was held.
    pub(super) fn held(&mut self, id: LabelId, held: Duration) {
        let (label, held) = (&mut self.entries[id.0 as usize], nanos(held));
        label.mean_hold = match label.mean_hold {
            0 => held,
            mean => (mean - mean / 16).saturating_add(held / 16),
        };
    }

    /// What one label may run where all that are active run as much: at least 1.
    pub(super) fn fair_share(&self, limit: usize) -> usize {
        (limit / self.active.max(1)).max(1)
    }
}

/// Where a flow of this weight goes on after its label was served without having to wait: one turn behind.
pub(super) const fn one_turn(start: u64, weight: u32) -> u64 {
    start.saturating_add(STRIDE / weight as u64)
}
