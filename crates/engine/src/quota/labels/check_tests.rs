//! What holds for the table of labels after every verb, computed anew.

use std::collections::BTreeSet;

use super::Labels;
use crate::{
    ids::LabelId,
    links::NONE,
    tokens::{STRIDE, Subject},
};

impl Labels {
    /// Asserts all that can be said of labels without looking at anything else.
    pub(in crate::quota) fn check_all(&self) {
        let fixed = self.last_fixed.index() as usize + 1;
        let named = self.entries.len() - fixed;
        assert!(self.known() <= self.plan.max_labels, "no more labels are known than allowed");
        let unlabelled = self.entries[fixed..].iter().filter(|label| label.name.is_empty()).count();
        assert_eq!(self.unlabelled, unlabelled, "entries without a label are counted");
        let found: BTreeSet<_> = self.iter().map(|(id, _)| id).filter(|&id| !self.is_overflow(id)).collect();
        assert_eq!(found.len(), named, "each entry is found by one name");
        for name in &self.names {
            let label = &self.entries[name.number as usize];
            let subject = Subject::new(&label.namespace, &label.name, None);
            let found = self.find(label.class, &subject);
            assert_eq!(found, Some(LabelId::from_index(name.number)), "an entry is found by its name");
            assert_eq!(
                label.rule,
                super::rule_of(&self.plan, &label.namespace, &label.name),
                "an entry knows its rule"
            );
            assert!(u64::from(label.rule.weight) <= STRIDE, "no turn is too short to count");
        }
        let active = self.entries.iter().filter(|label| label.running - label.over_limit + label.waiting > 0).count();
        assert_eq!(self.active, active, "active labels are counted");
        self.check_idle();
    }

    fn check_idle(&self) {
        let (mut listed, mut previous, mut next) = (BTreeSet::new(), NONE, self.idle.head);
        while next != NONE {
            let label = &self.entries[next as usize];
            assert_eq!(label.links.previous, previous, "idle labels are linked both ways");
            assert!(listed.insert(next), "a label is idle once");
            (previous, next) = (next, label.links.next);
        }
        assert_eq!(self.idle.tail, previous, "the last idle label is known");
        let idle = (0..).zip(&self.entries).skip(self.last_fixed.index() as usize + 1);
        let idle = idle.filter(|(_, it)| it.running == 0 && it.waiting == 0 && it.workers.is_none());
        let idle = idle.filter(|(_, it)| !it.name.is_empty());
        assert_eq!(listed, idle.map(|(number, _)| number).collect(), "exactly the idle labels may be forgotten");
    }
}
