//! What holds for one label of one class, and which meters it shares with others.
//!
//! A meter lives as long as a label needs it, and what a label has of its own as long as it is known. A label is not forgotten
//! while anything that was used of a rate still counts. So there are never more meters than the table of labels has
//! room for, and no name buys a new rate.

use super::{
    Remote, Rules,
    meters::{MeterKey, MeterOf},
    rate::Rate,
};
use crate::{
    Timestamp,
    ids::MeterId,
    plan::rules::{Resolved, WhenFull},
    quota::label::Label,
    tokens::{Need, SharedRules},
};

/// The rules of one label of one class, and the meters that it is counted by.
#[derive(Debug)]
pub(in crate::quota) struct KeyMeters {
    pub(in crate::quota) rules: Resolved,
    pub(super) rate: Rate,
    pub(super) namespace: MeterId,
    pub(super) group: Option<MeterId>,
    pub(super) throttled: Throttled,
    /// State of its shared rules, where it has some.
    pub(in crate::quota) remote: Option<Box<Remote>>,
}

/// The meter at which a label waits for room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Throttled {
    pub(super) at: Option<(MeterId, Need)>,
    /// Its place in line; stays until the label is served, in case that it has to go back.
    pub(super) stamp: Option<u64>,
}

impl KeyMeters {
    /// Returns how many requests of the label may run before further ones wait, if its cap lets them wait.
    pub(in crate::quota) fn waits_at(&self) -> usize {
        let cap = self.rules.in_flight.filter(|rule| rule.when_full == WhenFull::Queue && !rule.observes);
        cap.map_or(usize::MAX, |rule| rule.bound)
    }
}

impl Rules {
    /// Returns the meters of a new label, if its class has rules.
    pub(in crate::quota) fn open(&mut self, label: &Label) -> Option<Box<KeyMeters>> {
        let Label { class, namespace, name: label, spans_namespaces, .. } = label;
        let plan = self.plan.classes.get(class.index())?;
        let rules = plan.resolve(namespace, label);
        let shared = if self.are_shared { SharedRules::of(&plan.name, namespace, label, &rules) } else { None };
        let remote = shared.map(Remote::of);
        let namespace = (!spans_namespaces).then(|| namespace.clone());
        let meter = MeterKey { namespace: namespace.clone(), of: MeterOf::Class(*class) };
        let group = rules.budget.as_ref().map(|(group, _)| group.clone());
        let namespace_meter = self.meters.join(meter);
        let group = group.map(|group| MeterKey { namespace, of: MeterOf::Group(group) });
        let group = group.map(|key| self.meters.join(key));
        let rate = Rate::default();
        let throttled = Throttled::default();
        Some(Box::new(KeyMeters { rules, rate, namespace: namespace_meter, group, throttled, remote }))
    }

    /// Looks up the rules of a label again. What was used of its rates stays used.
    pub(in crate::quota) fn reopen(&mut self, now: Timestamp, label: &mut Label) {
        self.forget_place(label);
        let old = label.key_meters.take();
        label.key_meters = self.open(label);
        if let (Some(key_meters), Some(old)) = (label.key_meters.as_deref_mut(), &old) {
            key_meters.rate = old.rate;
        }
        if let Some(key_meters) = &label.key_meters {
            let meter = self.meters.get_mut(key_meters.namespace);
            meter.running += label.running;
            meter.over_quota += label.over_quota_running;
        }
        if let Some(old) = old {
            let meter = self.meters.get_mut(old.namespace);
            meter.running -= label.running;
            meter.over_quota -= label.over_quota_running;
            self.close(now, &old);
        }
    }

    /// Whether closing the meters of a label gives no label a new rate: nothing of what was used of its rates counts any more, or
    /// other labels need the meter.
    pub(in crate::quota) fn may_close(&self, now: Timestamp, key_meters: &KeyMeters) -> bool {
        let meters = [Some(key_meters.namespace), key_meters.group];
        key_meters.rate.is_fresh(now) && meters.into_iter().flatten().all(|meter| self.meters.may_leave(now, meter))
    }

    /// Closes the meters of a label that is forgotten. Its use of shared meters stays counted as long as that matters.
    pub(in crate::quota) fn close(&mut self, now: Timestamp, key_meters: &KeyMeters) {
        #[cfg(test)]
        assert!(key_meters.throttled.at.is_none(), "a label that nobody waits for is not parked");
        self.meters.leave(now, key_meters.namespace);
        if let Some(group) = key_meters.group {
            self.meters.leave(now, group);
        }
    }
}
