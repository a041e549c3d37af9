//! What workers say about a label.

use std::time::Duration;

use crate::engine::{Engine, Subject};
use crate::time::Timestamp;

impl Engine {
    /// A worker says how many requests of a label it can take, for so long. Answers whether there was room to note it.
    pub(crate) fn report_worker(
        &mut self,
        now: Timestamp,
        class: Option<&str>,
        subject: &Subject<'_>,
        worker: &str,
        slots: usize,
        valid: Duration,
    ) -> bool {
        let now = self.advance(now);
        let class = self.rule_class(class);
        let label = self.intern(now, class, subject);
        if self.quotas.labels.is_overflow(label) {
            return false;
        }
        let until = now.after(valid);
        let mut noted = false;
        self.change(label, |label| noted = label.workers.get_or_insert_default().report(worker, slots, until));
        self.quotas.workers_due = self.quotas.workers_due.min(until);
        self.settle(now);
        noted
    }

    /// A worker says goodbye.
    pub(crate) fn remove_worker(&mut self, now: Timestamp, class: Option<&str>, subject: &Subject<'_>, worker: &str) {
        let now = self.advance(now);
        let class = self.rule_class(class);
        let Some(label) = self.quotas.labels.find(class, subject.namespace, subject.label) else { return };
        self.change(label, |label| {
            label.workers = label.workers.take().and_then(|mut workers| {
                workers.remove(worker);
                (!workers.is_empty()).then_some(workers)
            });
        });
        self.settle(now);
    }

    /// The number of the class whose rules hold for work of this name.
    pub(crate) fn rule_class(&self, class: Option<&str>) -> u8 {
        class.map_or(0, |name| self.quotas.rules.class_of(self.controller.find_class(name)))
    }

    /// Discounts workers that fell silent.
    pub(crate) fn sweep_workers(&mut self, now: Timestamp) {
        let with_workers = self.quotas.labels.iter().filter(|(_, label)| label.workers.is_some());
        let labels: Vec<_> = with_workers.map(|(id, _)| id).collect();
        self.quotas.workers_due = Timestamp::NEVER;
        for id in labels {
            let mut next = Timestamp::NEVER;
            self.change(id, |label| {
                label.workers = label.workers.take().and_then(|mut workers| {
                    next = workers.sweep(now);
                    (!workers.is_empty()).then_some(workers)
                });
            });
            self.quotas.workers_due = self.quotas.workers_due.min(next);
        }
    }
}
