//! What a history samples besides the counts that exist anyway: rejections by reason and rule, of partitions and of a few labels,
//! and the times of these labels.

use std::{sync::Arc, time::Duration};

use super::{
    BlockingBound, Telemetry,
    followed::{Candidate, Followed},
    rejected_by::{RejectedBy, RejectedCount},
    totals::Totals,
};
use crate::{
    Histogram, Reason, Timestamp,
    ids::{LabelId, PartitionId},
};

#[derive(Debug, Default)]
pub(crate) struct Sampled {
    pub(super) rejected_by: RejectedBy,
    followed: Followed,
    /// Times of the labels that are followed, by row: that of all other labels has none.
    times: Vec<[Histogram; 2]>,
}

/// Which of the two times of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeKind {
    RoundTrip,
    Wait,
}

/// What was counted of a partition or of a label.
#[derive(Clone, Debug, Default)]
pub struct SampledCounts {
    pub admitted: u64,
    /// Requests without an answer in time: the callers left, or it came after the deadline.
    pub left: u64,
    pub would_reject: u64,
    pub rejected: Vec<RejectedCount>,
    /// Round-trip times and waits.
    pub times: Arc<[Histogram; 2]>,
}

/// A label whose rejections are counted by reason and rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowedLabel {
    pub(crate) label: LabelId,
    row: u8,
    /// Tells its counts from those of another label that has its row later, and of a later time.
    pub(crate) serial: u64,
}

impl Telemetry {
    /// Counts rejections by reason and rule from now on, for a history.
    pub(crate) fn begin_sampling(&mut self) {
        self.sampled.rejected_by.begin(self.counts.len());
    }

    /// Returns what was counted of a partition.
    pub(crate) fn sample_partition(&self, partition: PartitionId) -> SampledCounts {
        let counts = self.counts(partition);
        SampledCounts {
            admitted: counts.admitted,
            left: counts.unanswered(),
            would_reject: counts.would_reject.iter().sum(),
            rejected: self.sampled.rejected_by.of_partition(partition),
            times: Arc::new([counts.rtt.clone(), counts.wait.clone()]),
        }
    }

    /// Returns the labels with a row of their own.
    pub(crate) fn followed(&self) -> impl Iterator<Item = FollowedLabel> {
        let all = self.sampled.followed.iter();
        let known = all.filter(|(_, it)| self.totals(it.label).named_from == it.named_from);
        known.map(|(row, it)| FollowedLabel { label: it.label, row, serial: it.serial })
    }

    /// Returns what was counted of a followed label.
    pub(crate) fn sample_label(&self, it: &FollowedLabel) -> SampledCounts {
        let totals = self.totals(it.label);
        let rejected = self.sampled.rejected_by.of_row(it.row);
        let times = self.sampled.times.get(usize::from(it.row)).map(|it| Arc::new(it.clone()));
        let times = times.unwrap_or_default();
        let Totals { admitted, left, would_reject, .. } = totals;
        SampledCounts { admitted, left, would_reject, rejected, times }
    }

    /// Notes a time of a request, if its label is followed: a comparison where no label is.
    #[inline]
    pub(super) fn note_time(&mut self, label: LabelId, kind: TimeKind, time: Duration) {
        if !self.sampled.times.is_empty() {
            self.note_time_in_row(label, kind, time);
        }
    }

    #[inline(never)]
    fn note_time_in_row(&mut self, label: LabelId, kind: TimeKind, time: Duration) {
        let row = self.totals.get(label.index() as usize).map_or(0, |totals| usize::from(totals.row));
        if row > 0
            && let Some(times) = self.sampled.times.get_mut(row)
        {
            times[kind as usize].record(time);
        }
    }

    /// Counts rejections of requests that asked for nothing but a slot.
    #[expect(clippy::cast_possible_truncation, reason = "counts of a moment, which wrap around anyway")]
    pub(super) fn count_rejected_plainly(&mut self, partition: PartitionId, reason: Reason, count: u64) {
        self.sampled.rejected_by.count(partition, 0, reason, BlockingBound::of_plain(reason), count as u32);
    }

    /// Chooses the labels to follow, once a second.
    pub(super) fn follow_labels(&mut self, now: Timestamp) {
        if !self.sampled.rejected_by.is_on() {
            return;
        }
        let Self { sampled: Sampled { rejected_by, followed, times }, health, totals, .. } = self;
        let is_known =
            |it: &Candidate| totals.get(it.label.index() as usize).filter(|totals| totals.named_from == it.named_from);
        followed.score(|it| {
            let totals = is_known(it)?;
            Some(health.labels.score(now, it.label, totals).unwrap_or(0.0))
        });
        for candidate in &health.labels.busiest {
            let Some((row, before)) = followed.offer(now, *candidate) else { continue };
            rejected_by.clear(row);
            let place = usize::from(row);
            times.resize_with(times.len().max(place + 1), Default::default);
            times[place] = Default::default();
            let rows = before.map(|it| (it, 0)).into_iter().chain([(*candidate, row)]);
            for (it, row) in rows {
                if let Some(totals) = totals.get_mut(it.label.index() as usize)
                    && totals.named_from == it.named_from
                {
                    totals.row = row;
                }
            }
        }
    }
}
