//! The list of labels that could be forgotten, the label that is idle for longest first: threaded through their
//! entries.

use super::{Label, LabelRule, Labels, Rules, Timestamp, hash_of};
use crate::{
    ids::{LabelId, RuleClassId},
    links::NONE,
    tokens::Subject,
};

impl Labels {
    /// Puts a label at the end of the list.
    pub(super) fn rest(&mut self, id: LabelId) {
        if self.is_listed(id) {
            self.idle.insert(&mut self.entries, id.index(), NONE);
        }
    }

    /// Takes a label out of the list.
    pub(super) fn wake(&mut self, id: LabelId) {
        if self.is_listed(id) {
            self.idle.remove(&mut self.entries, id.index());
        }
    }

    /// Whether the label could ever be forgotten.
    fn is_listed(&self, id: LabelId) -> bool {
        id > self.last_fixed && !self.get(id).name.is_empty()
    }

    /// Returns an entry for a new label: a new entry, or that of the label that is idle for longest and may be
    /// forgotten. Requests without a label have theirs however many labels there are.
    pub(super) fn free_entry(&mut self, now: Timestamp, name: &str, rules: &mut Rules) -> Option<LabelId> {
        /// Labels that are asked whether they may be forgotten.
        const TRIES: usize = 8;
        self.unlabelled += usize::from(name.is_empty());
        if name.is_empty() || self.known() < self.plan.max_labels {
            self.entries.push(Label::new(RuleClassId::OTHERS, "", "", LabelRule::default()));
            return u32::try_from(self.entries.len() - 1).ok().map(LabelId::from_index);
        }
        for _ in 0..TRIES {
            let id = Some(self.idle.head).filter(|&first| first != NONE).map(LabelId::from_index)?;
            if self.get(id).key_meters.as_ref().is_none_or(|key_meters| rules.may_close(now, key_meters)) {
                self.forget(now, id, rules);
                return Some(id);
            }
            // The label, once forgotten, would have its whole rate again.
            self.wake(id);
            self.rest(id);
        }
        None
    }

    /// Returns the entry for a label that finds none: apart for the empty namespace, so that invented namespaces use up
    /// nothing that other labels are allowed.
    pub(super) fn shared_entry(&self, class: RuleClassId, namespace: &str) -> LabelId {
        // A class that came with a reload has no shared entry of its own.
        let (mut first, mut shared) = (LabelId::OVERFLOW.index(), self.last_fixed.index());
        if shared > 1 {
            shared /= 2;
            first += if namespace.is_empty() { 0 } else { shared };
        }
        LabelId::from_index(first + u32::from(class.number()).min(shared - 1))
    }

    /// Frees the entry of an idle label.
    fn forget(&mut self, now: Timestamp, id: LabelId, rules: &mut Rules) {
        self.wake(id);
        self.evicted += 1;
        let label = &mut self.entries[id.index() as usize];
        if let Some(key_meters) = label.key_meters.take() {
            rules.close(now, &key_meters);
        }
        let (namespace, name) = (std::mem::take(&mut label.namespace), std::mem::take(&mut label.name));
        let hash = hash_of(label.class, &Subject::new(&namespace, &name, None));
        if let Ok(known) = self.names.find_entry(hash, |known| known.number == id.index()) {
            known.remove();
        }
    }
}
