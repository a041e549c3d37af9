//! What holds for keys, computed anew: slow, and for tests alone.

use super::{LabelView, Quotas};
use crate::{Timestamp, ids::LabelId};

impl Quotas {
    /// Asserts everything that is stored twice.
    pub(crate) fn check(&self) {
        self.labels.check_all();
        for id in self.ids() {
            let label = self.labels.get(id);
            assert!(
                label.over_limit <= label.running && label.over_quota_running <= label.over_quota,
                "marks are counted"
            );
        }
        let silences = self.ids().filter_map(|id| self.labels.get(id).workers.as_deref()).map(|it| it.next_silence());
        assert!(self.workers_due <= silences.min().unwrap_or(Timestamp::NEVER), "no worker falls silent unseen");
        let default = self.labels.get(LabelId::DEFAULT);
        assert!(default.workers.is_none() && default.rule.cap.is_none(), "a request without a label has no bound");
    }

    /// Returns how many requests of a label are beyond what observing rules allow, how many of these run, and how many
    /// run over the limit.
    pub(crate) fn marks(&self, id: LabelId) -> (usize, usize, usize) {
        let label = self.labels.get(id);
        (label.over_quota, label.over_quota_running, label.over_limit)
    }

    /// Returns how many requests run over the limit.
    pub(crate) fn over_limit(&self) -> usize {
        self.ids().map(|id| self.labels.get(id).over_limit).sum()
    }

    /// Returns what a label may run of this limit where all active labels run as much.
    pub(crate) fn fair_share(&self, limit: usize) -> usize {
        self.labels.fair_share(limit)
    }

    pub(crate) const fn active(&self) -> usize {
        self.labels.active
    }

    /// Returns the labels that are known by name, and the shared entries that are in use.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = LabelView<'_>> {
        self.labels.iter().map(|(id, _)| self.label(id))
    }

    /// Returns how often a label had to wait at a meter.
    pub(crate) fn times_throttled(&self) -> u64 {
        self.rules.times_throttled()
    }

    /// Forgets that labels found no room.
    pub(crate) const fn set_overflowed(&mut self, overflowed: u64) {
        self.labels.overflowed = overflowed;
    }

    /// Returns how many meters there are.
    pub(crate) fn meters(&self) -> usize {
        self.rules.meters()
    }
}
