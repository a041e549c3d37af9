//! The state of one label.

use std::time::Duration;

use super::{
    rules::{KeyMeters, Remote},
    workers::Workers,
};
use crate::{
    ids::{LabelId, RuleClassId},
    links::Links,
    nanos,
    plan::{LabelRule, rules::Rule},
    stall::Stall,
    tokens::{Holder, Marks, NEVER_SERVED, Settled, one_turn},
};

/// What others may know of a label, by value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelView<'a> {
    pub(crate) id: LabelId,
    pub(crate) class: RuleClassId,
    pub(crate) class_name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Whether the entry has a name, which may change: not the default entry, and not those that labels share.
    pub(crate) is_named: bool,
    /// Whether the entry is shared by labels that the table has no room for.
    pub(crate) is_overflow: bool,
    pub(crate) rule: LabelRule,
    pub(crate) cap: usize,
    pub(crate) is_full: bool,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) stall: Stall,
    /// Mean time that a request of the label holds a slot.
    pub(crate) mean_hold: Duration,
    pub(crate) workers: Option<&'a Workers>,
    /// The bound on running and waiting requests together, if there is one.
    pub(crate) pending: Option<Rule<usize>>,
    /// What is known of its shared rules, if it has any.
    pub(crate) remote: Option<&'a Remote>,
}

/// The state of one label.
#[derive(Debug)]
pub(super) struct Label {
    /// The class of work whose rules hold for it.
    pub(super) class: RuleClassId,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    /// Whether the entry stands for labels of any namespace but the empty one.
    pub(super) spans_namespaces: bool,
    pub(super) rule: LabelRule,
    /// Counts for the label, if its class has rules.
    pub(super) key_meters: Option<Box<KeyMeters>>,
    /// Running requests of the label above which further ones wait: its caps, and the slots of its workers where these
    /// bind.
    pub(super) cap: usize,
    pub(super) running: usize,
    /// Running requests of the label that run over the limit.
    pub(super) over_limit: usize,
    /// Time since a request of the label ended.
    pub(super) stall: Stall,
    /// Waiters of the label, in line and at the gate.
    pub(super) waiting: usize,
    /// Waiters and running requests of the label that are beyond what observing rules allow.
    pub(super) over_quota: usize,
    pub(super) over_quota_running: usize,
    pub(super) workers: Option<Box<Workers>>,
    /// Mean time that a request of the label holds a slot, in nanoseconds.
    pub(super) mean_hold: u64,
    /// Where its flow goes on when the label waits again.
    pub(super) start: u64,
    /// Whether telemetry, which counts by label, was told its name.
    pub(super) is_told: bool,
    /// Its place among the labels that could be forgotten.
    pub(super) links: Links,
}

impl AsMut<Links> for Label {
    fn as_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Label {
    pub(super) fn new(class: RuleClassId, namespace: &str, name: &str, rule: LabelRule) -> Self {
        Self {
            class,
            namespace: namespace.into(),
            name: name.into(),
            spans_namespaces: false,
            rule,
            key_meters: None,
            cap: rule.cap.unwrap_or(usize::MAX),
            running: 0,
            over_limit: 0,
            stall: Stall::default(),
            waiting: 0,
            over_quota: 0,
            over_quota_running: 0,
            workers: None,
            mean_hold: 0,
            start: NEVER_SERVED,
            is_told: false,
            links: Links::NONE,
        }
    }

    /// Computes anew how many requests of the label may run.
    pub(super) fn find_cap(&mut self, workers_bind: bool) {
        let slots = self.workers.as_ref().filter(|_| workers_bind).map_or(usize::MAX, |it| it.slots);
        let rule = self.key_meters.as_ref().map_or(usize::MAX, |key_meters| key_meters.waits_at());
        self.cap = self.rule.cap.unwrap_or(usize::MAX).min(slots).min(rule);
    }

    pub(super) const fn is_full(&self) -> bool {
        self.running >= self.cap
    }

    pub(super) fn remote_mut(&mut self) -> Option<&mut Remote> {
        self.key_meters.as_mut()?.remote.as_deref_mut()
    }

    /// Counts `count` requests alike that take a slot each.
    #[inline]
    pub(super) const fn start(&mut self, holder: &Holder, count: usize) {
        let cost = holder.cost() * count;
        self.running += cost;
        if holder.marks.has(Marks::OVER_LIMIT) {
            self.over_limit += cost;
        }
        if holder.marks.has(Marks::OVER_QUOTA) {
            self.over_quota += cost;
            self.over_quota_running += cost;
        }
    }

    /// Counts a request that gives its slot back.
    #[inline]
    pub(super) const fn end(&mut self, holder: &Holder) {
        let cost = holder.cost();
        self.running -= cost;
        if holder.marks.has(Marks::OVER_LIMIT) {
            self.over_limit -= cost;
        }
        if holder.marks.has(Marks::OVER_QUOTA) {
            self.over_quota -= cost;
            self.over_quota_running -= cost;
        }
        self.stall.freed();
    }

    /// Takes what became of lent slots.
    pub(super) fn settle(&mut self, settled: &Settled, served: Option<u64>) {
        self.running -= settled.back as usize;
        if let Some(served) = served {
            self.start = one_turn(served, self.rule.weight);
        }
        self.stall.settle(settled.left > 0, settled.busy_since);
    }

    /// Changes the workers of the label, which are dropped when none is left.
    pub(super) fn change_workers(&mut self, change: impl FnOnce(&mut Workers)) {
        self.workers = self.workers.take().and_then(|mut workers| {
            change(&mut workers);
            (!workers.is_empty()).then_some(workers)
        });
    }

    /// Returns how many running requests of the label a rule counts.
    pub(super) const fn running_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        if rule.observes { self.running - self.over_quota_running } else { self.running }
    }

    /// Returns how many running and waiting requests of the label a rule counts.
    pub(super) const fn inside_for<B: Copy>(&self, rule: Rule<B>) -> usize {
        let inside = self.running + self.waiting;
        if rule.observes { inside - self.over_quota } else { inside }
    }

    /// Notes for how long a slot was held.
    pub(super) fn note_held(&mut self, held: Duration) {
        let held = nanos(held);
        self.mean_hold = match self.mean_hold {
            0 => held,
            mean => (mean - mean / 16).saturating_add(held / 16),
        };
    }

    /// Returns how many requests of the label run under the limit.
    pub(super) const fn within(&self) -> usize {
        self.running - self.over_limit
    }

    pub(super) const fn is_active(&self) -> bool {
        self.within() + self.waiting > 0
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.running + self.waiting == 0 && self.workers.is_none()
    }
}
