//! What each key may: labels with their caps and weights, rates, budgets, and the slots that workers report.
//!
//! A label that may not have a turn now is *throttled*: it is at a cap, or waits until a rule has room. Each verb that
//! changes this returns what it means for the queue: [`Throttle`].

#[cfg(test)]
mod check_tests;
mod label;
mod labels;
mod remote;
mod reports;
mod rules;
mod workers;

use std::time::Duration;

pub(crate) use self::label::LabelView;
pub use self::rules::RuleSnapshot;
use self::{labels::Labels, rules::Rules};
use crate::{
    Timestamp,
    deadlines::Deadlines,
    ids::{ClassId, LabelId, RuleClassId},
    plan::{
        LabelPlan,
        rules::{RulesPlan, WhenFull},
    },
    stall::Stall,
    tokens::{ExhaustedRule, FlowTag, Holder, InForce, Marks, Settled, Subject, one_turn},
};

/// The keys.
#[derive(Debug)]
pub(crate) struct Quotas {
    labels: Labels,
    rules: Rules,
    /// Times when the rates have room again for which labels wait.
    rates_due: Deadlines,
    /// Time when a worker of a label falls silent.
    workers_due: Timestamp,
}

/// Whether there is any rule at all, any that is or was counted for all instances, and any that observes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HasRules {
    pub(crate) any: bool,
    pub(crate) shared: bool,
    pub(crate) observing: bool,
}

/// How full the table of labels is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelTable {
    pub(crate) known: usize,
    pub(crate) evicted: u64,
    pub(crate) overflowed: u64,
    /// Labels that run or wait.
    pub(crate) active: usize,
}

/// Whether the turns of a label stop, or begin again.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Throttle {
    Same,
    Changed(bool),
}

impl Quotas {
    /// Returns the keys of these settings. `number` returns the number of each kind of work that has rules of its own.
    pub(crate) fn new(labels: LabelPlan, plan: RulesPlan, number: impl FnMut(&str) -> ClassId) -> Self {
        let mut rules = Rules::default();
        rules.replace(Timestamp::ZERO, plan, number);
        Self {
            labels: Labels::new(labels, &mut rules),
            rules,
            rates_due: Deadlines::default(),
            workers_due: Timestamp::NEVER,
        }
    }

    /// Takes new settings. The use of a rate stays; labels and classes are known by name. `number` is as in [`new`](Self::new).
    pub(crate) fn replace(
        &mut self,
        now: Timestamp,
        labels: LabelPlan,
        rules: RulesPlan,
        number: impl FnMut(&str) -> ClassId,
    ) {
        self.rules.replace(now, rules, number);
        self.labels.replace(now, labels, &mut self.rules);
    }

    #[inline]
    pub(crate) fn has_rules(&self) -> HasRules {
        HasRules { any: !self.rules.is_empty(), shared: self.rules.are_shared, observing: self.rules.observes }
    }

    /// Returns what the settings say of labels, and of rules.
    #[inline]
    pub(crate) const fn plans(&self) -> (&LabelPlan, &RulesPlan) {
        (&self.labels.plan, &self.rules.plan)
    }

    /// Returns the class whose rules hold for this kind of work.
    #[inline]
    pub(crate) fn class_of(&self, kind: ClassId) -> RuleClassId {
        self.rules.class_of(kind)
    }

    /// Returns the label of this name, made if it is new, and whether its number has this name only from now on.
    pub(crate) fn intern(&mut self, now: Timestamp, class: RuleClassId, subject: &Subject<'_>) -> (LabelId, bool) {
        let id = self.labels.intern(now, class, subject, &mut self.rules);
        (id, !std::mem::replace(&mut self.labels.get_mut(id).is_told, true))
    }

    pub(crate) fn find(&self, class: RuleClassId, subject: &Subject<'_>) -> Option<LabelId> {
        self.labels.find(class, subject)
    }

    /// Returns the label whose keyed hash this is, among those that no class of rules has.
    pub(crate) fn find_by_hash(&self, hash: u64) -> Option<LabelId> {
        self.labels.find_by_hash(hash)
    }

    /// Returns what is known of a label. Compiled where it is asked, so that only what is used of it is looked up.
    #[inline(always)]
    pub(crate) fn label(&self, id: LabelId) -> LabelView<'_> {
        let label = self.labels.get(id);
        let key_meters = label.key_meters.as_deref();
        LabelView {
            id,
            class: label.class,
            class_name: self.rules.plan.class_name(label.class),
            namespace: &label.namespace,
            name: &label.name,
            is_named: self.labels.is_named(id),
            is_overflow: self.labels.is_overflow(id),
            rule: label.rule,
            cap: label.cap,
            is_full: label.is_full(),
            running: label.running,
            waiting: label.waiting,
            stall: label.stall,
            mean_hold: Duration::from_nanos(label.mean_hold),
            workers: label.workers.as_deref(),
            pending: key_meters.and_then(|it| it.rules.pending),
            remote: key_meters.and_then(|it| it.remote.as_deref()),
        }
    }

    /// Returns all numbers that are in use.
    pub(crate) fn ids(&self) -> impl Iterator<Item = LabelId> + use<> {
        self.labels.ids()
    }

    /// Returns how many labels are known by name, once for each class of rules, and how often a label was forgotten or found no
    /// room.
    pub(crate) const fn table(&self) -> LabelTable {
        let Labels { evicted, overflowed, active, .. } = self.labels;
        LabelTable { known: self.labels.known(), evicted, overflowed, active }
    }

    /// Returns what a label brings to the queue, and how long a request of it may wait at the gate and in line together, if that is
    /// bounded.
    pub(crate) fn waits_by(&self, id: LabelId) -> (FlowTag, Option<Duration>) {
        let label = self.labels.get(id);
        let flow_tag = FlowTag { weight: label.rule.weight, start: label.start, throttled: label.is_full() };
        (flow_tag, self.labels.plan.wait.filter(|_| self.labels.is_explicit(id)))
    }

    /// Whether a label runs less than its fair share of the limit: what it may run where all active labels run as much.
    pub(crate) fn is_below_fair_share(&self, id: LabelId, limit: usize) -> bool {
        self.labels.get(id).within() < self.labels.fair_share(limit)
    }

    /// Returns the rule that has no room for another request of a label, if there is such a rule: if the request `arrives`, the
    /// bound on running and waiting requests together before all others.
    #[inline]
    pub(crate) fn exhausted(
        &self,
        now: Timestamp,
        id: LabelId,
        which: InForce,
        arrives: bool,
    ) -> Option<ExhaustedRule> {
        if self.rules.is_empty() { None } else { self.rules.exhausted(now, self.labels.get(id), which, arrives) }
    }

    /// Promises room in a rate that is full to a request that is refused; returns when it should come back, and since when nothing
    /// ended of what the meter counts that is full.
    pub(crate) fn promise(&mut self, id: LabelId, full: &ExhaustedRule) -> (Option<Timestamp>, Option<Stall>) {
        let stall = full.meter.map(|(meter, _)| self.rules.meters.get(meter).stall);
        (self.rules.promise(self.labels.get_mut(id), full), stall)
    }

    /// Returns how much is used of a rule that is full.
    pub(crate) fn used(&self, now: Timestamp, id: LabelId, full: &ExhaustedRule) -> usize {
        self.rules.used(now, self.labels.get(id), full)
    }

    /// Returns each rule that counts a label, and the two bounds that are set elsewhere.
    pub(crate) fn rules_of(&self, now: Timestamp, id: LabelId) -> Vec<RuleSnapshot> {
        let label = self.labels.get(id);
        let when_full = if self.labels.plan.caps_reject { WhenFull::Reject } else { WhenFull::Queue };
        let own = label.rule.cap.map(|cap| RuleSnapshot {
            when_full: when_full.as_str().into(),
            ..RuleSnapshot::cap("label_cap", cap, label.running, "labels")
        });
        let workers = label.workers.as_ref().filter(|_| self.labels.plan.enforce_workers);
        let slots = workers.map(|it| RuleSnapshot::cap("worker_slots", it.slots, label.running, "workers"));
        self.rules.view(now, label).into_iter().chain(own).chain(slots).collect()
    }

    /// Notes that `count` requests of a label take a slot each.
    #[inline]
    pub(crate) fn started(&mut self, holder: &Holder, count: usize) -> Throttle {
        self.labels.change(holder.label, |label| label.start(holder, count))
    }

    /// Takes lent slots back, where there are no rules. A label that has a name has had a turn if any request was admitted,
    /// as its flow was `served`.
    pub(crate) fn took_back(&mut self, settled: &Settled, served: impl FnOnce() -> u64) -> Throttle {
        let label = settled.borrower.label;
        let served = (settled.admitted > 0 && label != LabelId::DEFAULT).then(served);
        self.labels.change(label, |label| label.settle(settled, served))
    }

    /// Notes that a request of a label gives its slot back.
    #[inline]
    pub(crate) fn ended(&mut self, holder: &Holder) -> Throttle {
        let throttle = self.labels.change(holder.label, |label| label.end(holder));
        if !self.rules.is_empty() {
            self.rules.release(self.labels.get(holder.label), holder);
        }
        throttle
    }

    /// Notes that a request of a label waits, and whether it is beyond what observing rules allow.
    pub(crate) fn waits(&mut self, id: LabelId, is_over_quota: bool) -> Throttle {
        self.labels.change(id, |label| {
            label.waiting += 1;
            label.over_quota += usize::from(is_over_quota);
        })
    }

    /// Notes that a request of a label left the line. After the last one, nothing has to be woken for the label.
    pub(crate) fn left(&mut self, id: LabelId, is_over_quota: bool, start: Option<u64>) -> Throttle {
        if let Some(start) = start {
            self.labels.get_mut(id).start = start;
        }
        let throttle = self.labels.change(id, |label| {
            label.waiting -= 1;
            label.over_quota -= usize::from(is_over_quota);
        });
        if !self.rules.is_empty() && self.labels.get(id).waiting == 0 {
            let label = self.labels.get_mut(id);
            self.rules.forget_place(label);
            if let Some(remote) = label.remote_mut() {
                // The next request of the label asks for itself.
                remote.open();
            }
            self.rates_due.remove(id.index());
        }
        throttle
    }

    /// Notes that the flow of a label ended, and where it goes on if the label waits again.
    pub(crate) fn goes_on_at(&mut self, id: LabelId, start: u64) {
        self.labels.get_mut(id).start = start;
    }

    /// Charges the start of a request with a label to all rules that count it. A slot that it got as it came is a turn of the label,
    /// after that which was `served` last: its flow goes on one turn behind.
    #[inline]
    pub(crate) fn charge(&mut self, now: Timestamp, holder: &Holder, served: Option<u64>) {
        let label = self.labels.get_mut(holder.label);
        label.stall.started(now);
        if let Some(served) = served {
            label.start = one_turn(served, label.rule.weight);
        }
        if self.rules.is_empty() {
            return;
        }
        if served.is_none() {
            self.rules.forget_place(label);
        }
        self.rules.charge(now, label, holder);
    }

    /// Takes back from all rates what was charged for a start that did not come about.
    pub(crate) fn refund(&mut self, now: Timestamp, holder: &Holder) {
        self.rules.refund(now, self.labels.get_mut(holder.label), holder.marks.has(Marks::OVER_QUOTA));
    }

    /// Notes for how long a slot was held by a request of a label.
    pub(crate) fn held(&mut self, id: LabelId, held: Duration) {
        self.labels.get_mut(id).note_held(held);
    }

    /// Remembers that a label waits until a rule has room.
    pub(crate) fn await_room(&mut self, now: Timestamp, id: LabelId, full: &ExhaustedRule) {
        match (full.meter, full.until) {
            (Some(meter), _) => self.rules.throttle(now, meter, id, self.labels.get_mut(id)),
            (None, Some(until)) => self.rates_due.set(id.index(), until),
            // The label's own cap: it has turns again when one of its requests ends.
            (None, None) => {}
        }
    }

    /// Returns when a rate has room again for a label that waits.
    #[inline]
    pub(crate) fn next_room(&self) -> Timestamp {
        self.rates_due.earliest().min(self.rules.meters.next_due())
    }

    /// Returns the next label whose own rate has room by now. Looks at meters when there is none any more.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<LabelId> {
        let due = self.rates_due.take_due(now).map(LabelId::from_index);
        if due.is_none() {
            self.rules.meters.pass(now);
        }
        due
    }

    /// Returns the next label for which there is room at the meter where it waits.
    pub(crate) fn take_freed(&mut self, now: Timestamp) -> Option<LabelId> {
        let id = self.rules.meters.next_freed(now)?;
        Rules::unthrottled(self.labels.get_mut(id));
        Some(id)
    }
}
