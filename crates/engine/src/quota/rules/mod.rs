//! Caps, rates and budgets, for classes of work.
//!
//! Each label of each class has [`KeyMeters`]: what holds for it, and which meters it shares with others. A meter
//! counts for a whole namespace (per class), or for a budget group (per namespace, over all classes). A request is
//! charged to all of them or to none: they are checked first and charged after, in the same turn, when the request gets
//! its slot. A waiter has used nothing.
//!
//! A rule that is full lets its label wait, or rejects the request. A label that has to wait is *throttled* until there
//! is room for it; see [`meters`].
//!
//! Rules that are [`shared`] by all instances are counted in a store, which each request that got its slot has to ask.
//!
//! A rule that *observes* stops no request. It counts what it would have let run, and nothing else: a request that any
//! of the observing rules would have rejected runs *beyond* them, and is seen by none of them.

#[cfg(test)]
mod check_tests;
mod key_meters;
mod meters;
mod of_label;
mod rate;
#[cfg(any(test, kani))]
mod rate_proof_tests;
#[cfg(test)]
mod rate_tests;
mod shared;
mod view;

pub use self::view::RuleSnapshot;
pub(super) use self::{key_meters::KeyMeters, shared::Remote};
use self::{key_meters::Throttled, meters::Meters, rate::Rate};
use super::label::Label;
use crate::{
    Reason, Timestamp,
    ids::{ClassId, LabelId, MeterId, RuleClassId},
    plan::rules::{ClassPlan, RateRule, Rule, RulesPlan, WhenFull},
    tokens::{ExhaustedRule, Holder, InForce, Marks, Need},
};

/// All rules and meters.
#[derive(Debug, Default)]
pub(in crate::quota) struct Rules {
    pub(in crate::quota) plan: RulesPlan,
    /// Class of rules by the number of the kind of work.
    by_kind: Vec<RuleClassId>,
    pub(in crate::quota) meters: Meters,
    /// Whether any rule is or was shared.
    pub(in crate::quota) are_shared: bool,
    /// Whether any rule observes.
    pub(in crate::quota) observes: bool,
}

impl Rules {
    /// Whether there is any rule at all.
    pub(in crate::quota) fn is_empty(&self) -> bool {
        self.plan.classes.is_empty()
    }

    /// Returns the class whose rules hold for requests of this kind of work.
    pub(in crate::quota) fn class_of(&self, kind: ClassId) -> RuleClassId {
        self.by_kind.get(kind.index()).copied().unwrap_or(RuleClassId::OTHERS)
    }

    /// Takes new rules. Classes keep their numbers: a class that is gone has no rules any more, and is remembered by
    /// name. `number` returns the number of each kind of work that has rules of its own.
    pub(in crate::quota) fn replace(
        &mut self,
        now: Timestamp,
        plan: RulesPlan,
        mut number: impl FnMut(&str) -> ClassId,
    ) {
        self.meters.sweep(now);
        self.are_shared |= plan.is_shared();
        let old = std::mem::take(&mut self.plan.classes);
        let mut new = plan.classes;
        let mut classes = Vec::with_capacity(old.len().max(new.len()));
        for class in old {
            let same = new.iter().position(|it| it.name == class.name);
            classes.push(match same {
                Some(place) => new.remove(place),
                None => ClassPlan { name: class.name, ..ClassPlan::default() },
            });
        }
        classes.append(&mut new);
        self.plan.classes = classes;
        self.observes = self.plan.observes();
        self.by_kind.clear();
        for (class, plan) in RuleClassId::all().zip(&self.plan.classes).skip(1) {
            let kind = number(&plan.name).index();
            if self.by_kind.len() <= kind {
                self.by_kind.resize(kind + 1, RuleClassId::OTHERS);
            }
            // Kind 0 is all kinds that are not told apart.
            self.by_kind[kind] = if kind > 0 { class } else { RuleClassId::OTHERS };
        }
    }

    /// Returns the rule that has no room for one more request of this label. Where several are full, a rule that
    /// rejects goes before the rules that let requests wait, and the bound on those that wait before all, if it `arrives`.
    #[inline(never)]
    pub(in crate::quota) fn exhausted(
        &self,
        now: Timestamp,
        label: &Label,
        which: InForce,
        arrives: bool,
    ) -> Option<ExhaustedRule> {
        let key_meters = label.key_meters.as_deref()?;
        let rules = &key_meters.rules;
        let pending = which.asked(rules.pending).filter(|_| arrives);
        if let Some(full) = full_cap(pending, Reason::PendingFull, None, |rule| label.inside_for(rule)) {
            // No request can wait for leave to wait.
            let waits = full.when_full == WhenFull::Queue;
            return Some(ExhaustedRule { when_full: if waits { WhenFull::Reject } else { full.when_full }, ..full });
        }
        let (id, namespace) = (Some(key_meters.namespace), self.meters.get(key_meters.namespace));
        let in_flight = which.asked(rules.in_flight);
        let in_namespace = which.asked(rules.in_flight_per_namespace);
        let per_minute = which.asked(rules.per_minute);
        let of_namespace = which.asked(rules.per_minute_per_namespace);
        let budget = which.asked(rules.budget.as_ref().map(|(_, rule)| *rule)).zip(key_meters.group);
        let remote = key_meters.remote.as_ref().filter(|_| which != InForce::Observing);
        let mut found: Option<ExhaustedRule> = None;
        let mut note = |full: Option<ExhaustedRule>| {
            if let Some(full) = full
                && found.is_none_or(|it| it.when_full == WhenFull::Queue && full.when_full != WhenFull::Queue)
            {
                found = Some(full);
            }
        };
        note(full_cap(in_flight, Reason::LabelCap, None, |rule| label.running_for(rule)));
        note(full_cap(in_namespace, Reason::NamespaceCap, id, |rule| namespace.running_for(rule)));
        note(full_rate(now, per_minute, Reason::Rate, None, |_| &key_meters.rate));
        note(full_rate(now, of_namespace, Reason::Rate, id, |rule| namespace.rate_of(rule)));
        note(budget.and_then(|(rule, group)| {
            full_rate(now, Some(rule), Reason::Budget, Some(group), |rule| self.meters.get(group).rate_of(rule))
        }));
        note(remote.and_then(|remote| remote.exhausted(now)));
        found
    }

    /// Promises room in a rate that is full to a request that is refused; returns when it should come back.
    pub(in crate::quota) fn promise(&mut self, label: &mut Label, full: &ExhaustedRule) -> Option<Timestamp> {
        let (until, rule) = (full.until?, full.rate?);
        let rate = match full.meter {
            Some((meter, _)) => &mut self.meters.get_mut(meter).rate,
            None => &mut label.key_meters.as_deref_mut()?.rate,
        };
        Some(rate.promise(until, rule))
    }

    /// Charges one start to all rules that count it. A request beyond what observing rules allow is not charged to
    /// these.
    pub(in crate::quota) fn charge(&mut self, now: Timestamp, label: &mut Label, holder: &Holder) {
        let Some(key_meters) = label.key_meters.as_deref_mut() else { return };
        let (cost, over_quota) = (holder.cost(), holder.marks.has(Marks::OVER_QUOTA));
        let namespace = self.meters.get_mut(key_meters.namespace);
        namespace.running += cost;
        namespace.stall.started(now);
        namespace.over_quota += if over_quota { cost } else { 0 };
        self.change_rates(key_meters, over_quota, |rate, rule| rate.charge_for(now, rule));
        if let Some(remote) = &mut key_meters.remote {
            remote.asks();
        }
    }

    /// Takes back from all rates what was charged for a start that did not come about.
    pub(in crate::quota) fn refund(&mut self, now: Timestamp, label: &mut Label, over_quota: bool) {
        if let Some(key_meters) = label.key_meters.as_deref_mut() {
            self.change_rates(key_meters, over_quota, |rate, rule| rate.refund(now, rule.bound));
        }
    }

    /// Changes all rates that count a label, as observing rules see them too, unless the request is beyond what these allow.
    fn change_rates(
        &mut self,
        key_meters: &mut KeyMeters,
        over_quota: bool,
        change: impl Fn(&mut Rate, Rule<RateRule>),
    ) {
        let rules = &key_meters.rules;
        if let Some(rule) = rules.per_minute.filter(|rule| !(rule.observes && over_quota)) {
            change(&mut key_meters.rate, rule);
        }
        let is_seen = self.observes && !over_quota;
        if let Some(rule) = rules.per_minute_per_namespace {
            self.meters.get_mut(key_meters.namespace).change_rate(is_seen, |rate| change(rate, rule));
        }
        if let (Some(group), Some((_, rule))) = (key_meters.group, rules.budget.as_ref()) {
            self.meters.get_mut(group).change_rate(is_seen, |rate| change(rate, *rule));
        }
    }

    /// Gives back what a request held while it ran.
    pub(in crate::quota) fn release(&mut self, label: &Label, holder: &Holder) {
        if let Some(key_meters) = label.key_meters.as_deref() {
            self.meters.release(key_meters.namespace, holder);
        }
    }

    /// Has a label wait until a meter has what it needs.
    pub(in crate::quota) fn throttle(
        &mut self,
        now: Timestamp,
        meter: (MeterId, Need),
        id: LabelId,
        label: &mut Label,
    ) {
        let Some(key_meters) = label.key_meters.as_deref_mut() else { return };
        if key_meters.throttled.at == Some(meter) {
            return;
        }
        let stamp = key_meters.throttled.stamp;
        self.unthrottle(key_meters);
        key_meters.throttled =
            Throttled { at: Some(meter), stamp: Some(self.meters.throttle(now, meter.0, meter.1, id, stamp)) };
    }

    fn unthrottle(&mut self, key_meters: &mut KeyMeters) {
        if let Throttled { at: Some((meter, need)), stamp: Some(stamp) } = std::mem::take(&mut key_meters.throttled) {
            self.meters.unthrottle(meter, need, stamp);
        }
    }

    /// Notes that a label was served, or that no request waits for it any more: it has no place in line.
    pub(in crate::quota) fn forget_place(&mut self, label: &mut Label) {
        if let Some(key_meters) = label.key_meters.as_deref_mut() {
            self.unthrottle(key_meters);
        }
    }

    /// Notes that a label was taken out of line because there is room for it.
    pub(in crate::quota) fn unthrottled(label: &mut Label) {
        if let Some(key_meters) = label.key_meters.as_deref_mut() {
            key_meters.throttled.at = None;
        }
    }
}

/// Returns a bound on requests as a rule that is full, if so many are `counted`.
#[inline]
fn full_cap(
    rule: Option<Rule<usize>>,
    reason: Reason,
    meter: Option<MeterId>,
    counted: impl FnOnce(Rule<usize>) -> usize,
) -> Option<ExhaustedRule> {
    let Rule { bound, when_full, .. } = rule.filter(|rule| counted(*rule) >= rule.bound)?;
    let meter = meter.map(|meter| (meter, Need::Slot(bound)));
    Some(ExhaustedRule { reason, when_full, until: None, rate: None, bound, meter })
}

/// Returns a bound on starts as a rule that is full, if what is `used` leaves no room for one. A shared one is full where the store
/// says so.
#[inline]
fn full_rate<'a>(
    now: Timestamp,
    rule: Option<Rule<RateRule>>,
    reason: Reason,
    meter: Option<MeterId>,
    used: impl FnOnce(Rule<RateRule>) -> &'a Rate,
) -> Option<ExhaustedRule> {
    let rule = rule.filter(|rule| rule.shared.is_none())?;
    let Rule { bound, when_full, .. } = rule;
    let until = Some(used(rule).allowed_at(now, bound)).filter(|&until| until > now)?;
    let meter = meter.map(|meter| (meter, Need::Start(bound)));
    let (until, rate, bound) = (Some(until), Some(bound), bound.max.get() as usize);
    Some(ExhaustedRule { reason, when_full, until, rate, bound, meter })
}
