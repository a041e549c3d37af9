//! The labels that are known: a bounded table, because their names come from strangers.
//!
//! A label is interned when it is first seen. Where the table is full, the label that has been idle for longest makes room. A label is
//! never forgotten while it runs, waits, has workers, or has used some of a rate that still counts, its own, that of its namespace or that
//! of its group. Where all labels are in use, further labels of a class share one entry (those of named namespaces another). So a flood of
//! invented names costs a constant amount of memory, and no label loses its place to it. What the class says about any label holds for all
//! labels of a shared entry together: inventing names is no way around a rule.
//!
//! Requests without a label have an entry of their own in each class of rules, which is never forgotten.

#[cfg(test)]
mod check_tests;
mod idle;

use hashbrown::HashTable;

use super::{Throttle, label::Label, rules::Rules};
use crate::{
    Timestamp,
    ids::{LabelId, RuleClassId},
    links::List,
    plan::{LabelPlan, LabelRule},
    tokens::Subject,
};

/// All labels.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) plan: LabelPlan,
    entries: Vec<Label>,
    /// The entries that have a name.
    names: HashTable<Name>,
    /// Labels that could be forgotten, the label that is idle for longest first.
    idle: List,
    /// The last of the entries that are there from the start: the default entry, and the entries for each class to
    /// share.
    last_fixed: LabelId,
    /// Entries for requests without a label, besides the default one.
    unlabelled: usize,
    /// Labels that run or wait.
    pub(super) active: usize,
    /// Times that a label was forgotten, and times that a label found no room.
    pub(super) evicted: u64,
    pub(super) overflowed: u64,
}

/// An entry that is known by its name.
#[derive(Clone, Copy, Debug)]
struct Name {
    /// The hash of class, namespace and name.
    hash: u64,
    number: u32,
}

impl Labels {
    pub(super) fn new(plan: LabelPlan, rules: &mut Rules) -> Self {
        let mut entries = vec![Label::new(RuleClassId::OTHERS, "", "", LabelRule::default())];
        // Where no rules count by namespace, labels of all namespaces share the same entry.
        for spans_namespaces in [false, true].into_iter().take(if rules.is_empty() { 1 } else { 2 }) {
            for class in RuleClassId::all().take(rules.plan.classes.len().max(1)) {
                let mut shared = Label { spans_namespaces, ..Label::new(class, "", "", plan.default) };
                shared.key_meters = rules.open(&shared);
                shared.find_cap(plan.enforce_workers);
                entries.push(shared);
            }
        }
        let last_fixed = LabelId::from_index(u32::try_from(entries.len() - 1).unwrap_or(LabelId::OVERFLOW.index()));
        Self {
            plan,
            entries,
            names: HashTable::new(),
            idle: List::default(),
            last_fixed,
            unlabelled: 0,
            active: 0,
            evicted: 0,
            overflowed: 0,
        }
    }

    /// Takes new settings, and looks up again what holds for each label. A label that waits for a rule is looked at
    /// anew.
    pub(super) fn replace(&mut self, now: Timestamp, plan: LabelPlan, rules: &mut Rules) {
        self.plan = plan;
        let binds = self.plan.enforce_workers;
        for (number, label) in (0..).zip(&mut self.entries).skip(1) {
            let is_shared = number <= self.last_fixed.index();
            label.rule = if is_shared { self.plan.default } else { rule_of(&self.plan, &label.namespace, &label.name) };
            rules.reopen(now, label);
            label.find_cap(binds);
        }
    }

    /// Returns all numbers that are in use.
    pub(super) fn ids(&self) -> impl Iterator<Item = LabelId> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(LabelId::from_index)
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

    pub(super) fn get(&self, id: LabelId) -> &Label {
        &self.entries[id.index() as usize]
    }

    pub(super) fn get_mut(&mut self, id: LabelId) -> &mut Label {
        &mut self.entries[id.index() as usize]
    }

    /// Returns the labels that are known by name, and the shared entries that are in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LabelId, &Label)> {
        let known = self.names.iter().map(|name| name.number);
        let shared = LabelId::OVERFLOW.index()..=self.last_fixed.index();
        let overflow = shared.filter(|&number| !self.entries[number as usize].is_idle());
        known.chain(overflow).map(|number| (LabelId::from_index(number), &self.entries[number as usize]))
    }

    /// Returns how many labels are known by name, once for each class of rules.
    pub(super) const fn known(&self) -> usize {
        self.entries.len() - 1 - self.last_fixed.index() as usize - self.unlabelled
    }

    /// Returns the label of this name, which is made if it is new.
    pub(super) fn intern(
        &mut self,
        now: Timestamp,
        class: RuleClassId,
        subject: &Subject<'_>,
        rules: &mut Rules,
    ) -> LabelId {
        if let Some(known) = self.find(class, subject) {
            return known;
        }
        let (namespace, name) = (subject.namespace, subject.label);
        let Some(id) = self.free_entry(now, name, rules) else {
            self.overflowed += 1;
            return self.shared_entry(class, namespace);
        };
        let mut label = Label::new(class, namespace, name, rule_of(&self.plan, namespace, name));
        label.key_meters = rules.open(&label);
        label.find_cap(self.plan.enforce_workers);
        self.entries[id.index() as usize] = label;
        let name = Name { hash: hash_of(class, subject), number: id.index() };
        self.names.insert_unique(name.hash, name, |known| known.hash);
        self.rest(id);
        id
    }

    /// Returns the label of this name, if it is known.
    pub(super) fn find(&self, class: RuleClassId, subject: &Subject<'_>) -> Option<LabelId> {
        let hash = hash_of(class, subject);
        let is_it = |known: &Name| {
            let label = &self.entries[known.number as usize];
            known.hash == hash
                && label.class == class
                && *label.name == *subject.label
                && *label.namespace == *subject.namespace
        };
        self.names.find(hash, is_it).map(|known| LabelId::from_index(known.number))
    }

    /// Returns the label with this hash, of the class of requests that name none.
    pub(super) fn find_by_hash(&self, hash: u64) -> Option<LabelId> {
        let is_it =
            |known: &Name| known.hash == hash && self.entries[known.number as usize].class == RuleClassId::OTHERS;
        self.names.find(hash, is_it).map(|known| LabelId::from_index(known.number))
    }

    /// Changes what a label runs, waits or may run; returns whether its cap throttles it since, or does so no more.
    #[inline]
    pub(super) fn change(&mut self, id: LabelId, change: impl FnOnce(&mut Label)) -> Throttle {
        if id == LabelId::DEFAULT {
            // The path of most requests: this label has no cap and no workers, and is never forgotten.
            let label = &mut self.entries[0];
            self.active += usize::from(!label.is_active());
            change(label);
            self.active -= usize::from(!label.is_active());
            return Throttle::Same;
        }
        self.change_named(id, change)
    }

    /// The same for a label that has a name, or for those that find no entry.
    #[inline(never)]
    fn change_named(&mut self, id: LabelId, change: impl FnOnce(&mut Label)) -> Throttle {
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
        if was_full == is_full { Throttle::Same } else { Throttle::Changed(is_full) }
    }

    /// Returns what one label may run where all active labels run as much, rounded up.
    pub(super) fn fair_share(&self, limit: usize) -> usize {
        limit.div_ceil(self.active.max(1))
    }
}

/// Returns the hash of a label: that of its name, which no caller can foresee, changed by its class.
const fn hash_of(class: RuleClassId, subject: &Subject<'_>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    subject.hash() ^ (class.index() as u64).wrapping_mul(ODD)
}

/// Returns the settings of a label. What holds for labels doesn't hold for requests without a label.
fn rule_of(plan: &LabelPlan, namespace: &str, name: &str) -> LabelRule {
    if name.is_empty() { LabelRule::default() } else { plan.rule(namespace, name) }
}
