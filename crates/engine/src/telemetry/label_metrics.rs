//! What happened to the requests of single labels, for metrics: a bounded table, because names come from strangers.
//!
//! Labels that settings name have their places from the start. Of the other labels, the first to come have metrics of their own for the
//! life of the handle. They never change their label, and go on where they stopped when it was forgotten and comes back. All further labels
//! share theirs. Where no label may have any, nothing is counted at all.

#[cfg(test)]
mod count_tests;
mod counts;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(crate) use self::counts::LabelCounts;
pub use self::counts::LabelOutcome;
use crate::{
    ids::{LabelId, LabelMetricsId, RuleClassId},
    plan::{
        LabelPlan,
        rules::{ClassPlan, RulesPlan, Target},
    },
};

/// The name of the metrics of a label: class, namespace and label. All of it is empty for those that labels share, and no label
/// has an empty name.
#[derive(Clone, Debug)]
pub struct LabelMetricsName {
    /// Class of work; empty for all classes that have no rules of their own.
    pub class: Arc<str>,
    pub namespace: Arc<str>,
    pub label: Arc<str>,
}

#[derive(Debug)]
struct LabelMetrics {
    name: LabelMetricsName,
    class: RuleClassId,
    /// Entry that the label had last.
    entry: LabelId,
    /// Requests of the label that may run here, as far as settings say.
    cap: Option<usize>,
    counts: LabelCounts,
}

/// What settings say of labels.
type Plans<'a> = (&'a LabelPlan, &'a RulesPlan);

type Numbers = HashMap<Arc<str>, LabelMetricsId>;

/// The metrics of all labels.
#[derive(Debug, Default)]
pub(super) struct AllLabelMetrics {
    /// Labels that may have metrics of their own.
    most: usize,
    /// LabelMetrics by number, from [`LabelMetricsId::OTHERS`] on. Empty as long as no label may have any.
    list: Vec<LabelMetrics>,
    /// Numbers by class, namespace and label.
    numbers: Vec<HashMap<Arc<str>, Numbers>>,
    /// Numbers by the entry of a label.
    by_entry: Vec<LabelMetricsId>,
}

/// The metrics of one label, as they are now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelMetricsRef<'a> {
    pub(crate) name: &'a LabelMetricsName,
    pub(crate) counts: &'a LabelCounts,
    /// Cap that settings give the label.
    pub(crate) cap: Option<usize>,
    /// Entry of its label, unless that is forgotten.
    pub(crate) entry: Option<LabelId>,
    /// Whether these are the metrics of all labels that have none of their own.
    pub(crate) is_shared: bool,
}

/// What an entry of the table of labels stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'a> {
    /// Requests without a label.
    Nobody,
    /// Labels for which the table has no room.
    Overflow,
    Label {
        class: RuleClassId,
        namespace: &'a str,
        label: &'a str,
    },
}

impl AllLabelMetrics {
    pub(super) const fn is_on(&self) -> bool {
        !self.list.is_empty()
    }

    /// Returns the metrics of a label that is known.
    pub(super) fn of(&self, label: LabelId) -> LabelMetricsId {
        self.by_entry.get(label.index() as usize).copied().unwrap_or(LabelMetricsId::NONE)
    }

    fn get_mut(&mut self, id: LabelMetricsId) -> Option<&mut LabelMetrics> {
        self.list.get_mut(usize::from(id.index()).checked_sub(1)?)
    }

    /// Returns the metrics of a label, made if it has none and there is a place; else those that labels share.
    fn find_or_open(&mut self, plans: Plans<'_>, class: RuleClassId, namespace: &str, label: &str) -> LabelMetricsId {
        let known = self.numbers.get(class.index()).and_then(|names| names.get(namespace)?.get(label));
        if let Some(&known) = known {
            return known;
        }
        let id = u16::try_from(self.list.len() + 1).map_or(LabelMetricsId::OTHERS, LabelMetricsId::from_index);
        if self.list.len() > self.most || id == LabelMetricsId::OTHERS {
            return LabelMetricsId::OTHERS;
        }
        if self.numbers.len() <= class.index() {
            self.numbers.resize_with(class.index() + 1, HashMap::new);
        }
        let (_, rules) = plans;
        let class_name = rules.class_name(class);
        let name = LabelMetricsName { class: class_name.into(), namespace: namespace.into(), label: label.into() };
        let names = self.numbers[class.index()].entry(Arc::clone(&name.namespace)).or_default();
        names.insert(Arc::clone(&name.label), id);
        let (cap, counts) = (settled_cap(plans, class, namespace, label), LabelCounts::default());
        self.list.push(LabelMetrics { name, class, entry: LabelId::DEFAULT, cap, counts });
        id
    }

    /// Counts something in the metrics of a label.
    #[inline]
    pub(super) fn count(&mut self, id: LabelMetricsId, count: impl FnOnce(&mut LabelCounts)) {
        if let Some(metrics) = self.get_mut(id) {
            count(&mut metrics.counts);
        }
    }

    /// Finds the metrics of an entry that has this name from now on.
    pub(super) fn find(&mut self, entry: LabelId, name: Named<'_>, plans: Plans<'_>) {
        if !self.is_on() {
            return;
        }
        let id = match name {
            Named::Overflow => LabelMetricsId::OTHERS,
            Named::Nobody => LabelMetricsId::NONE,
            Named::Label { class, namespace, label } => self.find_or_open(plans, class, namespace, label),
        };
        self.assign(entry, id);
    }

    /// Makes room for as many labels as the settings say, first of all for the labels that they name. Metrics
    /// are never taken away.
    pub(super) fn open<'a>(&mut self, plans: Plans<'_>, labels: impl Iterator<Item = (LabelId, Named<'a>)>) {
        self.most = plans.0.metrics;
        if self.most == 0 && !self.is_on() {
            return;
        }
        for it in self.list.iter_mut().skip(1) {
            it.cap = settled_cap(plans, it.class, &it.name.namespace, &it.name.label);
        }
        if self.list.is_empty() {
            let name = LabelMetricsName { class: "".into(), namespace: "".into(), label: "".into() };
            let (entry, counts) = (LabelId::OVERFLOW, LabelCounts::default());
            self.list.push(LabelMetrics { name, class: RuleClassId::OTHERS, entry, cap: None, counts });
        }
        for (class, namespace, label) in named(plans.0, plans.1) {
            self.find_or_open(plans, class, &namespace, &label);
        }
        labels.for_each(|(entry, name)| self.find(entry, name, plans));
    }

    /// Returns the metrics of all labels, the shared ones first: the cap that settings give each, its counts, and the entry of its
    /// label unless that is forgotten.
    pub(super) fn iter(&self) -> impl Iterator<Item = LabelMetricsRef<'_>> {
        (1..).zip(&self.list).map(|(number, it)| {
            let entry = Some(it.entry).filter(|&entry| self.of(entry) == LabelMetricsId::from_index(number));
            LabelMetricsRef { name: &it.name, counts: &it.counts, cap: it.cap, entry, is_shared: number == 1 }
        })
    }

    fn assign(&mut self, entry: LabelId, id: LabelMetricsId) {
        let index = entry.index() as usize;
        if self.by_entry.len() <= index {
            self.by_entry.resize(index + 1, LabelMetricsId::NONE);
        }
        self.by_entry[index] = id;
        if let Some(metrics) = self.get_mut(id) {
            metrics.entry = entry;
        }
    }
}

/// Returns the labels that settings name exactly, by class, namespace and label. A setting for any namespace names the
/// label without one: other namespaces may be invented.
pub fn named(labels: &LabelPlan, rules: &RulesPlan) -> BTreeSet<(RuleClassId, Box<str>, Box<str>)> {
    fn name(target: &Target) -> Option<(Box<str>, Box<str>)> {
        match target {
            Target::Exact { namespace, label } => Some((namespace.clone(), label.clone())),
            Target::Label(label) => Some((Box::default(), label.clone())),
            Target::Any | Target::Namespace(_) => None,
        }
    }
    let nothing = [ClassPlan::default()];
    let classes = if rules.classes.is_empty() { &nothing[..] } else { &rules.classes };
    let names = RuleClassId::all().zip(classes).flat_map(|(class, plan)| {
        let overrides = plan.overrides.keys().filter_map(name);
        labels.named.iter().cloned().chain(overrides).map(move |(namespace, label)| (class, namespace, label))
    });
    names.collect()
}

/// Returns how many requests of a label may run here. A cap that all instances share says nothing about this one.
fn settled_cap((labels, rules): Plans<'_>, class: RuleClassId, namespace: &str, label: &str) -> Option<usize> {
    let own = labels.rule(namespace, label).cap;
    let rule = rules.classes.get(class.index()).and_then(|class| class.resolve(namespace, label).in_flight);
    let rule = rule.filter(|rule| !rule.observes && rule.shared.is_none()).map(|rule| rule.bound);
    own.into_iter().chain(rule).min()
}
