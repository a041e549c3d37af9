//! What a history samples besides the counts that exist anyway: rejections by reason and rule, of partitions and of a few labels,
//! and the times of these labels.

use std::{sync::Arc, time::Duration};

use super::{
    Telemetry,
    followed::{Followed, FollowedLabel},
    rejected_by::{RejectedBy, RejectedCount},
    totals::Totals,
};
use crate::{
    Histogram, Timestamp,
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

impl Telemetry {
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

    /// Returns the labels whose rejections are counted by reason and rule, each with what was counted of it.
    pub(crate) fn followed(&self) -> impl Iterator<Item = (FollowedLabel, SampledCounts)> {
        self.sampled.followed.iter().filter_map(|(row, followed)| {
            let &Totals { admitted, left, would_reject, .. } = followed.it.totals(&self.totals)?;
            let rejected = self.sampled.rejected_by.of_row(row);
            let times = self.sampled.times.get(usize::from(row)).map(|it| Arc::new(it.clone())).unwrap_or_default();
            Some((followed, SampledCounts { admitted, left, would_reject, rejected, times }))
        })
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

    /// Chooses the labels to follow, once a second.
    pub(super) fn follow_labels(&mut self, now: Timestamp) {
        if !self.sampled.rejected_by.is_on() {
            return;
        }
        let Self { sampled: Sampled { rejected_by, followed, times }, health, totals, .. } = self;
        followed.score(|it| Some(health.labels.score(now, it.label, it.totals(totals)?).unwrap_or(0.0)));
        for busy in health.labels.busiest.iter() {
            let Some((row, before)) = followed.offer(now, busy) else { continue };
            rejected_by.clear(row);
            let place = usize::from(row);
            times.resize_with(times.len().max(place + 1), Default::default);
            times[place] = Default::default();
            let rows = before.map(|it| (it, 0)).into_iter().chain([(busy, row)]);
            for (it, row) in rows {
                if it.totals(totals).is_some() {
                    totals[it.label.index() as usize].row = row;
                }
            }
        }
    }
}
