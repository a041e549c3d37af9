//! Slots that workers report, label by label.

use super::{Quotas, Throttle};
use crate::{Timestamp, ids::LabelId};

impl Quotas {
    /// Notes how many requests of a label a worker can take, until when. Returns whether there was room to note it.
    pub(crate) fn report_worker(
        &mut self,
        id: LabelId,
        worker: &str,
        slots: usize,
        until: Timestamp,
    ) -> (bool, Throttle) {
        if self.labels.is_overflow(id) {
            return (false, Throttle::Same);
        }
        let mut noted = false;
        let throttle = self.labels.change(id, |label| {
            noted = label.workers.get_or_insert_default().report(worker, slots, until);
        });
        self.workers_due = self.workers_due.min(until);
        (noted, throttle)
    }

    /// Removes a worker that says goodbye.
    pub(crate) fn remove_worker(&mut self, id: LabelId, worker: &str) -> Throttle {
        self.labels.change(id, |label| label.change_workers(|workers| workers.remove(worker)))
    }

    /// Returns when a worker falls silent.
    pub(crate) const fn next_silence(&self) -> Timestamp {
        self.workers_due
    }

    /// Returns the labels that have workers, for which [`discount`](Self::discount) is to be called.
    pub(crate) fn take_silent(&mut self) -> Vec<LabelId> {
        self.workers_due = Timestamp::NEVER;
        let with_workers = self.labels.iter().filter(|(_, label)| label.workers.is_some());
        with_workers.map(|(id, _)| id).collect()
    }

    /// Discounts the workers of a label that fell silent.
    pub(crate) fn discount(&mut self, now: Timestamp, id: LabelId) -> Throttle {
        let mut next = Timestamp::NEVER;
        let throttle = self.labels.change(id, |label| label.change_workers(|workers| next = workers.sweep(now)));
        self.workers_due = self.workers_due.min(next);
        throttle
    }
}
