//! What happened to the requests of single labels, for metrics: a bounded table, because names come from strangers.
//!
//! Labels that settings name have their places from the start. Of the others, the first to come have one each for the
//! life of the handle: a series never changes whose it is, and goes on where it stopped when its label was forgotten and
//! comes back. All further labels are one series together. Where no label may have one, nothing is counted at all.

#[cfg(test)]
mod count_tests;
mod counts;
mod view;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(crate) use self::{
    counts::{LabelCounts, LabelOutcome},
    view::LabelSeries,
};
use crate::engine::{
    Engine, Slot,
    ids::{LabelId, SeriesId},
    plan::LabelPlan,
    quota::Quotas,
    rules::{ClassPlan, RulesPlan, Target},
    telemetry::Telemetry,
};

/// Whose a series is. All of it is empty for the one that labels share, and no label has an empty name.
#[derive(Clone, Debug)]
pub(crate) struct SeriesName {
    /// The class of work; empty for all that have no rules of their own.
    pub(crate) class: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) label: Arc<str>,
}

#[derive(Debug)]
struct Series {
    name: SeriesName,
    class: u8,
    /// The entry that the label had last.
    entry: LabelId,
    /// How many of it may run here, as far as settings say.
    cap: Option<usize>,
    counts: LabelCounts,
}

/// What settings say of labels.
type Plans<'a> = (&'a LabelPlan, &'a RulesPlan);

type Numbers = HashMap<Arc<str>, SeriesId>;

/// All series.
#[derive(Debug, Default)]
pub(crate) struct AllSeries {
    /// How many labels may have one of their own.
    most: usize,
    /// By number, from [`SeriesId::OTHERS`] on. Empty as long as no label may have any.
    list: Vec<Series>,
    /// By class, namespace and label.
    numbers: Vec<HashMap<Arc<str>, Numbers>>,
    /// By the entry of a label.
    by_entry: Vec<SeriesId>,
}

impl AllSeries {
    pub(crate) const fn is_on(&self) -> bool {
        !self.list.is_empty()
    }

    /// The series of a label that is known.
    pub(crate) fn of(&self, label: LabelId) -> SeriesId {
        self.by_entry.get(label.index() as usize).copied().unwrap_or(SeriesId::NONE)
    }

    fn get_mut(&mut self, id: SeriesId) -> Option<&mut Series> {
        self.list.get_mut(usize::from(id.index()).checked_sub(1)?)
    }

    /// The series of a label, made if it has none and there is a place; else the one that labels share.
    fn find_or_open(&mut self, plans: Plans<'_>, class: u8, namespace: &str, label: &str) -> SeriesId {
        let known = self.numbers.get(usize::from(class)).and_then(|names| names.get(namespace)?.get(label));
        if let Some(&known) = known {
            return known;
        }
        let id = u16::try_from(self.list.len() + 1).map_or(SeriesId::OTHERS, SeriesId::from_index);
        if self.list.len() > self.most || id == SeriesId::OTHERS {
            return SeriesId::OTHERS;
        }
        if self.numbers.len() <= usize::from(class) {
            self.numbers.resize_with(usize::from(class) + 1, HashMap::new);
        }
        let (_, rules) = plans;
        let class_name = rules.classes.get(usize::from(class)).map_or("", |class| &class.name);
        let name = SeriesName { class: class_name.into(), namespace: namespace.into(), label: label.into() };
        let names = self.numbers[usize::from(class)].entry(Arc::clone(&name.namespace)).or_default();
        names.insert(Arc::clone(&name.label), id);
        let (cap, counts) = (settled_cap(plans, class, namespace, label), LabelCounts::default());
        self.list.push(Series { name, class, entry: LabelId::DEFAULT, cap, counts });
        id
    }

    fn assign(&mut self, entry: LabelId, id: SeriesId) {
        let index = entry.index() as usize;
        if self.by_entry.len() <= index {
            self.by_entry.resize(index + 1, SeriesId::NONE);
        }
        self.by_entry[index] = id;
        if let Some(series) = self.get_mut(id) {
            series.entry = entry;
        }
    }
}

/// The labels that settings name exactly, by class, namespace and label. What is said for any namespace names the label of
/// none: others may be invented.
pub(crate) fn named(labels: &LabelPlan, rules: &RulesPlan) -> BTreeSet<(u8, Box<str>, Box<str>)> {
    fn name(target: &Target) -> Option<(Box<str>, Box<str>)> {
        match target {
            Target::Exact { namespace, label } => Some((namespace.clone(), label.clone())),
            Target::Label(label) => Some((Box::default(), label.clone())),
            Target::Any | Target::Namespace(_) => None,
        }
    }
    let nothing = [ClassPlan::default()];
    let classes = if rules.classes.is_empty() { &nothing[..] } else { &rules.classes };
    let names = (0..=u8::MAX).zip(classes).flat_map(|(class, plan)| {
        let overrides = plan.overrides.keys().filter_map(name);
        labels.named.iter().cloned().chain(overrides).map(move |(namespace, label)| (class, namespace, label))
    });
    names.collect()
}

impl Engine {
    /// Counts something for a label. Without series this is one test.
    #[inline]
    pub(crate) fn tally(&mut self, label: LabelId, count: impl FnOnce(&mut LabelCounts)) {
        if self.telemetry.series.is_on() {
            self.tally_series(self.telemetry.series.of(label), count);
        }
    }

    fn tally_series(&mut self, id: SeriesId, count: impl FnOnce(&mut LabelCounts)) {
        if let Some(series) = self.telemetry.series.get_mut(id) {
            count(&mut series.counts);
        }
    }

    /// The same for whoever held a slot, whose label may be forgotten: not before the slot is given back, but before its
    /// holder is done with one that was taken back.
    #[inline]
    pub(crate) fn tally_slot(&mut self, slot: &Slot, count: impl FnOnce(&mut LabelCounts)) {
        if self.telemetry.series.is_on() {
            let id = match slot.ttl() {
                Some(ttl) => self.slot_ttl.series(ttl),
                None => slot.uncounted_series().unwrap_or_else(|| self.telemetry.series.of(slot.label)),
            };
            self.tally_series(id, count);
        }
    }

    /// Finds the series of an entry that belongs to another label now.
    pub(crate) fn find_series(&mut self, entry: LabelId) {
        if !self.telemetry.series.is_on() {
            return;
        }
        let label = self.quotas.labels.get(entry);
        let id = if self.quotas.labels.is_overflow(entry) {
            SeriesId::OTHERS
        } else if label.name.is_empty() {
            SeriesId::NONE
        } else {
            let (class, namespace, name) = (label.class, &*label.namespace, &*label.name);
            let plans = (self.quotas.labels.plan(), self.quotas.rules.plan());
            self.telemetry.series.find_or_open(plans, class, namespace, name)
        };
        self.telemetry.series.assign(entry, id);
    }

    /// Makes room for as many series as the settings say, first of all for the labels that they name. None that there is
    /// is ever taken away.
    pub(crate) fn reserve_series(&mut self) {
        let most = self.quotas.labels.plan().metrics;
        self.telemetry.series.most = most;
        if most == 0 && !self.telemetry.series.is_on() {
            return;
        }
        let Self { telemetry: Telemetry { series, .. }, quotas: Quotas { labels, rules, .. }, .. } = self;
        for it in series.list.iter_mut().skip(1) {
            it.cap = settled_cap((labels.plan(), rules.plan()), it.class, &it.name.namespace, &it.name.label);
        }
        if series.list.is_empty() {
            let name = SeriesName { class: "".into(), namespace: "".into(), label: "".into() };
            let (entry, counts) = (LabelId::OVERFLOW, LabelCounts::default());
            series.list.push(Series { name, class: 0, entry, cap: None, counts });
        }
        for (class, namespace, label) in named(labels.plan(), rules.plan()) {
            series.find_or_open((labels.plan(), rules.plan()), class, &namespace, &label);
        }
        for entry in self.quotas.labels.ids() {
            self.find_series(entry);
        }
    }
}

/// How many of a label may run here. A cap that all instances share says nothing about this one.
fn settled_cap((labels, rules): Plans<'_>, class: u8, namespace: &str, label: &str) -> Option<usize> {
    let own = labels.rule(namespace, label).cap;
    let rule = rules.classes.get(usize::from(class)).and_then(|class| class.resolve(namespace, label).in_flight);
    let rule = rule.filter(|rule| !rule.observes && rule.shared.is_none()).map(|rule| rule.bound);
    own.into_iter().chain(rule).min()
}
