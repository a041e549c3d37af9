//! The labels that are known: a bounded table, because their names come from strangers.
//!
//! A label is interned when it is first seen. Where the table is full, the label that has been idle for longest makes
//! room. A label is never forgotten while it runs, waits, has workers, or has used some of a rate that still counts, its
//! own, that of its namespace or that of its group. Where all are in use, further ones of a class share one entry (those
//! of named namespaces another), so that a flood of invented names costs a constant amount of memory and none of the
//! others its place. What the class says about any label holds for all that share it together: there is no way around a
//! rule by inventing names.
//!
//! Requests without a label have an entry of their own in each class of rules, which is never forgotten.

#[cfg(test)]
mod check_tests;
mod idle;

use std::{collections::HashMap, time::Duration};

use crate::engine::{
    ask::Subject,
    drain::Stall,
    fair_queue::{STRIDE, Standing},
    ids::LabelId,
    plan::{LabelPlan, LabelRule},
    rules::{Account, Rule, Rules},
    workers::Workers,
};
use crate::time::{Timestamp, nanos};

/// No label, in the list of those that could be forgotten.
const NOT_LISTED: u32 = u32::MAX;

/// Nothing in the journal is about it yet.
pub(crate) const UNNAMED: u64 = u64::MAX;

/// What is known about one label.
#[derive(Debug)]
pub(crate) struct Label {
    /// The class of work whose rules hold for it.
    pub(crate) class: u8,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    /// Whether it stands for labels of any namespace but the empty one.
    pub(crate) spans_namespaces: bool,
    pub(crate) rule: LabelRule,
    /// What is counted for it, if its class has rules.
    pub(crate) account: Option<Box<Account>>,
    /// How many of it may run before others of it wait: its caps, and the slots of its workers where these bind.
    cap: usize,
    pub(crate) running: usize,
    /// How many of those that run do so outside of the limit.
    pub(crate) outside: usize,
    /// Since when none of it ended.
    pub(crate) stall: Stall,
    /// In line and at the gate.
    pub(crate) waiting: usize,
    /// How many of both, and of those that run, are beyond what observing rules allow.
    pub(crate) beyond: usize,
    pub(crate) beyond_running: usize,
    pub(crate) workers: Option<Box<Workers>>,
    pub(crate) admitted: u64,
    pub(crate) rejected: u64,
    /// How many of those admitted an observing rule or partition would have rejected.
    pub(crate) would_reject: u64,
    /// How long it holds a slot, on average.
    mean_hold: u64,
    /// Where its flow goes on when it waits again.
    pub(crate) start: u64,
    /// The journal's entries about its number are about it from this one on.
    pub(crate) named_from: u64,
    previous: u32,
    next: u32,
}

impl Label {
    fn new(class: u8, namespace: &str, name: &str, rule: LabelRule) -> Self {
        Self {
            class,
            namespace: namespace.into(),
            name: name.into(),
            spans_namespaces: false,
            rule,
            account: None,
            cap: rule.cap.unwrap_or(usize::MAX),
            running: 0,
            outside: 0,
            stall: Stall::default(),
            waiting: 0,
            beyond: 0,
            beyond_running: 0,
            workers: None,
            admitted: 0,
            rejected: 0,
            would_reject: 0,
            mean_hold: 0,
            start: 0,
            named_from: UNNAMED,
            previous: NOT_LISTED,
            next: NOT_LISTED,
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
    pub(crate) const fn running_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        if rule.observes { self.running - self.beyond_running } else { self.running }
    }

    /// See [`running_for`](Self::running_for).
    pub(crate) const fn inside_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        let inside = self.running + self.waiting;
        if rule.observes { inside - self.beyond } else { inside }
    }

    pub(crate) const fn mean_hold(&self) -> Duration {
        Duration::from_nanos(self.mean_hold)
    }

    /// How many of it run under the limit.
    pub(crate) const fn within(&self) -> usize {
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
pub(crate) struct Labels {
    plan: LabelPlan,
    entries: Vec<Label>,
    /// By class, namespace and name.
    numbers: Vec<HashMap<Box<str>, Names>>,
    /// Those that could be forgotten, the one that is idle for longest first.
    idle_first: u32,
    idle_last: u32,
    /// The last of the entries that are there from the start: the default one, and those for each class to share.
    last_fixed: LabelId,
    /// How many entries are for requests without a label, besides the default one.
    unlabelled: usize,
    /// How many run or wait.
    active: usize,
    /// How often a label was forgotten, and how often one found no room.
    pub(crate) evicted: u64,
    pub(crate) overflowed: u64,
}

impl Labels {
    pub(crate) fn new(plan: LabelPlan, rules: &mut Rules) -> Self {
        let mut entries = vec![Label::new(0, "", "", LabelRule::default())];
        // Where no rules count by namespace, labels of all namespaces share the same one.
        for spans_namespaces in if rules.is_empty() { &[false][..] } else { &[false, true] } {
            let spans_namespaces = *spans_namespaces;
            for class in 0..rules.classes().max(1) {
                let mut shared = Label { spans_namespaces, ..Label::new(class, "", "", plan.default) };
                shared.account = rules.open(&shared);
                shared.find_cap(plan.enforce_workers);
                entries.push(shared);
            }
        }
        let last_fixed = LabelId::from_index(u32::try_from(entries.len() - 1).unwrap_or(LabelId::OVERFLOW.index()));
        Self {
            plan,
            entries,
            numbers: Vec::new(),
            idle_first: NOT_LISTED,
            idle_last: NOT_LISTED,
            last_fixed,
            unlabelled: 0,
            active: 0,
            evicted: 0,
            overflowed: 0,
        }
    }

    /// Takes new settings, and looks up again what holds for each label. Whoever waits for a rule is looked at anew.
    pub(crate) fn replace(&mut self, now: Timestamp, plan: LabelPlan, rules: &mut Rules) {
        self.plan = plan;
        let binds = self.plan.enforce_workers;
        for (number, label) in (0..).zip(&mut self.entries).skip(1) {
            let is_shared = number <= self.last_fixed.index();
            label.rule = if is_shared { self.plan.default } else { rule_of(&self.plan, &label.namespace, &label.name) };
            rules.reopen(now, label);
            label.find_cap(binds);
        }
    }

    /// All numbers that are in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = LabelId> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(LabelId::from_index)
    }

    /// Whether an entry is shared by labels that the table has no room for.
    pub(crate) fn is_overflow(&self, id: LabelId) -> bool {
        id != LabelId::DEFAULT && id <= self.last_fixed
    }

    /// Whether an entry has a name, which may change: not the default one, and not those that labels share.
    pub(crate) fn is_named(&self, id: LabelId) -> bool {
        id > self.last_fixed
    }

    /// Whether the bounds for labels hold: not for requests that have none.
    pub(crate) fn is_explicit(&self, id: LabelId) -> bool {
        self.is_overflow(id) || !self.get(id).name.is_empty()
    }

    pub(crate) const fn plan(&self) -> &LabelPlan {
        &self.plan
    }

    pub(crate) fn get(&self, id: LabelId) -> &Label {
        &self.entries[id.index() as usize]
    }

    pub(crate) fn get_mut(&mut self, id: LabelId) -> &mut Label {
        &mut self.entries[id.index() as usize]
    }

    /// Those that are known by name, and the shared ones that are in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LabelId, &Label)> {
        let known = self.numbers.iter().flat_map(HashMap::values).flat_map(HashMap::values).copied();
        let shared = LabelId::OVERFLOW.index()..=self.last_fixed.index();
        let overflow = shared.filter(|&number| !self.entries[number as usize].is_idle());
        known.chain(overflow).map(|number| (LabelId::from_index(number), &self.entries[number as usize]))
    }

    /// How many labels are known by name, once for each class of rules.
    pub(crate) const fn known(&self) -> usize {
        self.entries.len() - 1 - self.last_fixed.index() as usize - self.unlabelled
    }

    pub(crate) const fn active(&self) -> usize {
        self.active
    }

    /// The label of this name, which is made if it is new.
    pub(crate) fn intern(&mut self, now: Timestamp, class: u8, subject: &Subject<'_>, rules: &mut Rules) -> LabelId {
        let &Subject { namespace, label: name, .. } = subject;
        if let Some(known) = self.find(class, namespace, name) {
            return known;
        }
        let Some(id) = self.free_entry(now, name, rules) else {
            self.overflowed += 1;
            return self.shared_entry(class, namespace);
        };
        let mut label = Label::new(class, namespace, name, rule_of(&self.plan, namespace, name));
        label.account = rules.open(&label);
        label.find_cap(self.plan.enforce_workers);
        self.entries[id.index() as usize] = label;
        if self.numbers.len() <= usize::from(class) {
            self.numbers.resize_with(usize::from(class) + 1, HashMap::new);
        }
        let namespaces = &mut self.numbers[usize::from(class)];
        let names = match namespaces.get_mut(namespace) {
            Some(names) => names,
            None => namespaces.entry(namespace.into()).or_default(),
        };
        names.insert(name.into(), id.index());
        self.rest(id);
        id
    }

    pub(crate) fn find(&self, class: u8, namespace: &str, label: &str) -> Option<LabelId> {
        self.numbers.get(usize::from(class))?.get(namespace)?.get(label).map(|&number| LabelId::from_index(number))
    }

    /// Changes what a label runs and waits, and answers whether it was at its cap before and whether it is now.
    #[inline]
    pub(crate) fn change(&mut self, id: LabelId, change: impl FnOnce(&mut Label)) -> (bool, bool) {
        if id == LabelId::DEFAULT {
            // The way of most requests: it has no cap and no workers, and is never forgotten.
            let label = &mut self.entries[0];
            self.active += usize::from(!label.is_active());
            change(label);
            self.active -= usize::from(!label.is_active());
            return (false, false);
        }
        let binds = self.plan.enforce_workers;
        let label = &mut self.entries[id.index() as usize];
        let (was_active, was_idle, was_full) = (label.is_active(), label.is_idle(), label.is_full());
        change(label);
        if binds {
            label.find_cap(binds);
        }
        let (is_idle, is_full) = (label.is_idle(), label.is_full());
        self.active = self.active - usize::from(was_active) + usize::from(label.is_active());
        match (was_idle, is_idle) {
            (true, false) => self.wake(id),
            (false, true) => self.rest(id),
            _ => {}
        }
        (was_full, is_full)
    }

    /// How many of it may run.
    pub(crate) fn cap(&self, id: LabelId) -> usize {
        self.get(id).cap
    }

    /// Whether as many of it run as may.
    pub(crate) fn is_full(&self, id: LabelId) -> bool {
        self.get(id).is_full()
    }

    /// What the label brings to the queue.
    pub(crate) fn standing(&self, id: LabelId) -> Standing {
        let label = self.get(id);
        Standing { weight: label.rule.weight, start: label.start, parked: self.is_full(id) }
    }

    /// Notes for how long a slot was held.
    pub(crate) fn held(&mut self, id: LabelId, held: Duration) {
        let (label, held) = (&mut self.entries[id.index() as usize], nanos(held));
        label.mean_hold = match label.mean_hold {
            0 => held,
            mean => (mean - mean / 16).saturating_add(held / 16),
        };
    }

    /// What one label may run where all that are active run as much, rounded up.
    pub(crate) fn fair_share(&self, limit: usize) -> usize {
        limit.div_ceil(self.active.max(1))
    }
}

/// What holds for labels doesn't hold for requests that have none.
fn rule_of(plan: &LabelPlan, namespace: &str, name: &str) -> LabelRule {
    if name.is_empty() { LabelRule::default() } else { plan.rule(namespace, name) }
}

/// Where a flow of this weight goes on after its label was served without having to wait: one turn behind.
pub(crate) const fn one_turn(start: u64, weight: u32) -> u64 {
    start.saturating_add(STRIDE / weight as u64)
}
