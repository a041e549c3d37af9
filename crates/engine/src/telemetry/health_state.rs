//! The last seconds of all partitions and labels, and the state of the handle that follows from them.

use std::collections::BTreeSet;

use super::{
    Health, HealthInputs, LabelWindow, LastSeconds, Telemetry,
    health::Judge,
    label_window::{LabelGauges, Most, WindowsByLabel},
    recent::{PartitionGauges, Recent, RejectionKind},
};
use crate::{
    Timestamp,
    ids::{LabelId, PartitionId},
};

/// Rejections of a label in the last seconds from which on they say something.
const ENOUGH: u64 = 5;

#[derive(Debug, Default)]
pub(super) struct HealthState {
    partitions: Vec<Recent>,
    pub(super) labels: WindowsByLabel,
    pub(super) judge: Judge,
    /// Whether requests wait longer than before, as a history says.
    pub(super) are_waits_longer: bool,
    /// Partitions whose callers left, most of them, while the handle was busy.
    pub(super) have_left: BTreeSet<PartitionId>,
}

impl HealthState {
    pub(super) fn grow(&mut self, partitions: usize) {
        self.partitions.resize_with(partitions, Recent::default);
    }

    /// Whether it is time to note the counts.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.partitions.first().is_some_and(|it| it.is_due(now))
    }
}

impl Telemetry {
    /// Notes the counts of the last second if it is over, and judges the handle by that and by what is seen of it now.
    /// Returns whether callers leave a partition for the first time.
    pub(crate) fn judge(
        &mut self,
        now: Timestamp,
        mut inputs: HealthInputs,
        of_partition: impl Fn(PartitionId) -> PartitionGauges,
        of_label: impl Fn(LabelId) -> LabelGauges,
    ) -> bool {
        let is_second_over = self.health.is_due(now);
        let HealthState { partitions, labels, judge, are_waits_longer, have_left } = &mut self.health;
        let (counts, totals, of_partition) = (&self.counts, &self.totals, &of_partition);
        if is_second_over {
            for ((recent, counts), partition) in partitions.iter_mut().zip(counts).zip(PartitionId::all()) {
                recent.note(now, counts, of_partition(partition));
            }
            labels.note(now, totals, &of_label);
            judge.note(inputs.is_busy);
        }
        let last = || {
            let all = partitions.iter().zip(counts).zip(PartitionId::all());
            all.map(|((recent, counts), partition)| (partition, recent.since(now, counts, of_partition(partition))))
        };
        let had_left = have_left.len();
        if is_second_over && judge.is_mostly_busy() {
            have_left.extend(last().filter(|(_, it)| it.have_most_left()).map(|(partition, _)| partition));
        }
        inputs.is_line_long |= *are_waits_longer;
        // A small label of which most is rejected must not hide behind the many requests of its partition.
        let with_most = |most| {
            let id = labels.most(most, totals).next()?;
            labels.of(now, id, &totals[id.index() as usize], of_label(id).running)
        };
        let leaves = with_most(Most::Left).map_or(0.0, |it| it.part_left());
        let is_throttled = with_most(Most::Rejected)
            .is_some_and(|it| it.rejected() >= ENOUGH && it.mostly_rejected() == Some(RejectionKind::Throttled));
        judge.judge(now, inputs, (is_throttled, leaves), last().map(|(_, last)| last));
        let is_new = have_left.len() > had_left;
        if is_second_over {
            self.follow_labels(now);
        }
        is_new
    }

    /// Returns the partitions whose callers left before the answer, most of them, while the handle was busy.
    pub(crate) fn have_left(&self) -> impl Iterator<Item = PartitionId> {
        self.health.have_left.iter().copied()
    }

    /// Returns the state of the handle in a word, and since when.
    pub(crate) const fn health(&self) -> (Health, Timestamp) {
        self.health.judge.health()
    }

    /// Returns what became of the requests of a partition in the last seconds, given what is seen of it now.
    pub(crate) fn last_seconds(&self, now: Timestamp, partition: PartitionId, gauges: PartitionGauges) -> LastSeconds {
        self.health.partitions[partition.index()].since(now, self.counts(partition), gauges)
    }

    /// Returns what became of the requests of a label in the last seconds, as far as that is known, given how many run now.
    pub(crate) fn label_window(&self, now: Timestamp, label: LabelId, running: usize) -> Option<LabelWindow> {
        self.health.labels.of(now, label, &self.totals(label), running)
    }

    /// Returns the two labels that had most of this in the last seconds, if any had.
    pub(crate) fn labels_with_most(&self, most: Most) -> impl Iterator<Item = LabelId> {
        self.health.labels.most(most, &self.totals)
    }
}
