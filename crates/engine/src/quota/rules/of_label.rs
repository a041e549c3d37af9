//! Which rules and meters a label has.

use super::{
    KeyMeters, Remote, Rules,
    key_meters::Throttled,
    meters::{MeterKey, MeterOf},
    rate::Rate,
};
use crate::{Timestamp, quota::label::Label, tokens::SharedRules};

impl Rules {
    /// Returns the meters of a new label, if its class has rules.
    pub(in crate::quota) fn open(&mut self, label: &Label) -> Option<Box<KeyMeters>> {
        let Label { class, namespace, name: label, spans_namespaces, .. } = label;
        let plan = self.plan.classes.get(class.index())?;
        let rules = plan.resolve(namespace, label);
        let shared = if self.are_shared { SharedRules::of(&plan.name, namespace, label, &rules) } else { None };
        let remote = shared.map(Remote::of);
        let namespace = (!spans_namespaces).then(|| namespace.clone());
        let mut join = |of| self.meters.join(MeterKey { namespace: namespace.clone(), of });
        let of_class = join(MeterOf::Class(*class));
        let group = rules.budget.as_ref().map(|(group, _)| join(MeterOf::Group(group.clone())));
        let (rate, throttled) = (Rate::default(), Throttled::default());
        Some(Box::new(KeyMeters { rules, rate, namespace: of_class, group, throttled, remote }))
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
}
