//! Slots that workers report, label by label.

use super::{Quotas, Throttle, label::Label};
use crate::{Timestamp, ids::LabelId};

impl Quotas {
    /// Notes how many requests of a label a worker can take and until when, or nothing where it says goodbye. Returns whether
    /// there was room to note it.
    pub(crate) fn report_worker(
        &mut self,
        id: LabelId,
        worker: &str,
        report: Option<(usize, Timestamp)>,
    ) -> (bool, Throttle) {
        if self.labels.is_overflow(id) {
            return (false, Throttle::Same);
        }
        let mut noted = true;
        let throttle = self.labels.change(id, |label| match report {
            Some((slots, until)) => noted = label.workers.get_or_insert_default().report(worker, slots, until),
            None => label.change_workers(|workers| workers.remove(worker)),
        });
        self.workers_due = report.map_or(self.workers_due, |(_, until)| self.workers_due.min(until));
        (noted, throttle)
    }

    /// Returns when a worker falls silent.
    pub(crate) const fn next_silence(&self) -> Timestamp {
        self.workers_due
    }

    /// Discounts the workers that fell silent by now. Returns what that means for each label that has workers.
    pub(crate) fn discount(&mut self, now: Timestamp) -> Vec<(LabelId, Throttle)> {
        if now < self.workers_due {
            return Vec::new();
        }
        let mut next = Timestamp::NEVER;
        let with_workers = self.labels.iter().filter(|(_, label)| label.workers.is_some());
        let ids: Vec<_> = with_workers.map(|(id, _)| id).collect();
        let mut sweep = |label: &mut Label| label.change_workers(|workers| next = next.min(workers.sweep(now)));
        let throttles = ids.into_iter().map(|id| (id, self.labels.change(id, &mut sweep))).collect();
        self.workers_due = next;
        throttles
    }
}
