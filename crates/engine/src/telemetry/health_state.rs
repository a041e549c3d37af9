//! The last seconds of all partitions and labels, and the state of the handle that follows from them.

use std::collections::BTreeSet;

use super::followed::Candidate;
use super::{
    Counts, Health, HealthInputs, LabelWindow, LastSeconds, Telemetry,
    health::Judge,
    label_window::{LabelGauges, Most, WindowsByLabel},
    recent::{PartitionGauges, Recent, RejectionKind},
    totals::Totals,
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
    labels: WindowsByLabel,
    judge: Judge,
    /// Partitions whose callers left, most of them, while the handle was busy.
    have_left: BTreeSet<PartitionId>,
}

impl HealthState {
    pub(super) fn grow(&mut self, partitions: usize) {
        self.partitions.resize_with(partitions, Recent::default);
    }

    /// Whether it is time to note the counts.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.partitions.first().is_some_and(|it| it.is_due(now))
    }

    pub(super) fn judge(
        &mut self,
        now: Timestamp,
        inputs: HealthInputs,
        counts: &[Counts],
        totals: &[Totals],
        of_partition: impl Fn(PartitionId) -> PartitionGauges,
        of_label: impl Fn(LabelId) -> LabelGauges,
    ) {
        if self.is_due(now) {
            for ((recent, counts), partition) in self.partitions.iter_mut().zip(counts).zip(PartitionId::all()) {
                recent.note(now, counts, of_partition(partition));
            }
            self.labels.note(now, totals, &of_label);
            self.judge.note(inputs.is_busy);
            let all = self.partitions.iter().zip(counts).zip(PartitionId::all());
            let is_busy = self.judge.is_mostly_busy();
            let leaving = all.filter(|((it, counts), partition)| {
                is_busy && it.since(now, counts, of_partition(*partition)).have_most_left()
            });
            self.have_left.extend(leaving.map(|(_, partition)| partition));
        }
        // A small label of which most is rejected must not hide behind the many requests of its partition.
        let with_most = |most| {
            let id = self.labels.most(most, totals)?;
            self.labels.of(now, id, &totals[id.index() as usize], of_label(id).running)
        };
        let leaves = with_most(Most::Left).map_or(0.0, |it| it.part_left());
        let is_throttled = with_most(Most::Rejected)
            .is_some_and(|it| it.rejected() >= ENOUGH && it.mostly_rejected() == Some(RejectionKind::Throttled));
        let partitions = self.partitions.iter().zip(counts).zip(PartitionId::all());
        self.judge.judge(
            now,
            inputs,
            (is_throttled, leaves),
            partitions.map(|((recent, counts), partition)| recent.since(now, counts, of_partition(partition))),
        );
    }

    pub(super) const fn health(&self) -> (Health, Timestamp) {
        self.judge.health()
    }

    pub(super) fn last_seconds(
        &self,
        now: Timestamp,
        partition: PartitionId,
        counts: &Counts,
        gauges: PartitionGauges,
    ) -> LastSeconds {
        self.partitions[partition.index()].since(now, counts, gauges)
    }

    pub(super) fn label_window(
        &self,
        now: Timestamp,
        label: LabelId,
        totals: &Totals,
        running: usize,
    ) -> Option<LabelWindow> {
        self.labels.of(now, label, totals, running)
    }

    pub(super) fn label_score(&self, now: Timestamp, label: LabelId, totals: &Totals) -> Option<f64> {
        self.labels.score(now, label, totals)
    }

    pub(super) fn busiest_labels(&self) -> &[Candidate] {
        self.labels.busiest()
    }

    pub(super) fn label_with_most(&self, most: Most, totals: &[Totals]) -> Option<LabelId> {
        self.labels.most(most, totals)
    }
}

impl Telemetry {
    /// Returns the partitions whose callers left before the answer, most of them, while the handle was busy.
    pub(crate) const fn have_left(&self) -> &BTreeSet<PartitionId> {
        &self.health.have_left
    }
}
