//! What happened in a second, or in ten.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Reason, Timestamp,
    engine::{BlockingBound, Histogram, HistorySample, RejectedCount, Sampled, SampledName},
};

/// The quantiles of round-trip times that are kept, in parts of a thousand.
const QUANTILES: [u64; 2] = [500, 990];

/// What happened between two samples, or between several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// Whether no sample was taken for so long that what happened when is not known.
    pub(crate) is_gap: bool,
    /// What was said of the handle at its end.
    pub(crate) headline: Arc<str>,
    /// Reloads of the settings.
    pub(crate) reloads: u64,
    /// Mean of the limit, and its least and greatest sample.
    pub(crate) limit: f32,
    pub(crate) limits: [u32; 2],
    /// The handle as a whole.
    pub(crate) whole: Row,
    /// The partitions in which anything happened.
    pub(crate) partitions: Box<[Row]>,
    /// The labels that were followed.
    pub(crate) labels: Box<[Row]>,
    /// The classes of work of which requests were timed.
    pub(super) classes: Box<[Row]>,
}

/// Requests of a partition or of a label. Gauges are means of samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: Arc<SampledName>,
    pub(super) serial: u64,
    pub(crate) admitted: u32,
    /// Requests without an answer in time: the callers left, or it came after the deadline.
    pub(crate) left: u32,
    pub(crate) would_reject: u32,
    pub(crate) share: f32,
    pub(crate) in_flight: f32,
    pub(crate) waiting: f32,
    /// The median and the 99th percentile of round-trip times in seconds, if any request ended.
    pub(crate) rtt: Option<[f32; 2]>,
    /// The same of the waits of requests that were admitted after a wait.
    pub(crate) wait: Option<[f32; 2]>,
    pub(crate) rejected: Box<[RejectedCount]>,
}

impl Frame {
    pub(super) fn between(earlier: &HistorySample, later: &HistorySample, names: &Self) -> Self {
        let rows = |before: &[Sampled], after: &[Sampled], known: &[Row], is_new_wanted: bool| -> Box<[Row]> {
            let (before, never) = (by_serial(before), Sampled::default());
            let known: BTreeMap<_, _> = known.iter().map(|it| (it.serial, &it.name)).collect();
            let rows = after.iter().filter_map(|it| {
                let name = known.get(&it.serial).filter(|name| ****name == it.name).map(|name| Arc::clone(name));
                let earlier = before.get(&it.serial).copied().or_else(|| is_new_wanted.then_some(&never))?;
                Some(Row::between(earlier, it, name))
            });
            rows.collect()
        };
        let partitions = rows(&earlier.partitions, &later.partitions, &names.partitions, true);
        // What happened to a label before it was followed was not in this time alone.
        let labels = rows(&earlier.labels, &later.labels, &names.labels, false);
        let classes = rows(&earlier.classes, &later.classes, &names.classes, true);
        let classes = classes.into_iter().filter(Row::is_worth_a_place).collect();
        let mut whole = Row { name: Arc::clone(&names.whole.name), ..Row::default() };
        partitions.iter().for_each(|row| whole.add(row, 1.0));
        (whole.in_flight, whole.waiting, whole.share) = (mean(later.in_flight), mean(later.waiting), mean(later.limit));
        let limit = u32::try_from(later.limit).unwrap_or(u32::MAX);
        let partitions = partitions.into_iter().filter(Row::is_worth_a_place).collect();
        let mut frame = Self {
            from: earlier.at,
            to: later.at,
            reloads: later.reloads - earlier.reloads,
            limit: mean(later.limit),
            limits: [limit; 2],
            whole,
            partitions,
            labels,
            classes,
            ..Self::default()
        };
        frame.measure(earlier, later);
        frame
    }

    /// Makes a frame of several that follow each other. The times are not known from them: see [`measure`](Self::measure).
    pub(super) fn merge(frames: &[Arc<Self>]) -> Option<Self> {
        let (first, last) = (frames.first()?, frames.last()?);
        let all: f32 = frames.iter().map(|it| it.seconds()).sum();
        let part = |it: &Self| if all > 0.0 { it.seconds() / all } else { 0.0 };
        let rows = |rows: fn(&Self) -> &[Row]| -> Box<[Row]> {
            let mut merged: BTreeMap<u64, Row> = BTreeMap::new();
            for frame in frames {
                for row in rows(frame) {
                    let empty = || Row { name: Arc::clone(&row.name), serial: row.serial, ..Row::default() };
                    merged.entry(row.serial).or_insert_with(empty).add(row, part(frame));
                }
            }
            merged.into_values().collect()
        };
        Some(Self {
            from: first.from,
            to: last.to,
            is_gap: first.is_gap,
            headline: Arc::clone(&last.headline),
            reloads: frames.iter().map(|it| it.reloads).sum(),
            limit: frames.iter().map(|it| it.limit * part(it)).sum(),
            limits: frames.iter().fold([u32::MAX, 0], |[a, b], it| [a.min(it.limits[0]), b.max(it.limits[1])]),
            whole: rows(|it| std::slice::from_ref(&it.whole)).into_iter().next()?,
            partitions: rows(|it| &it.partitions),
            labels: rows(|it| &it.labels),
            classes: rows(|it| &it.classes),
        })
    }

    /// Finds the quantiles of times between two samples.
    pub(super) fn measure(&mut self, earlier: &HistorySample, later: &HistorySample) {
        measure_rows(&mut self.partitions, &earlier.partitions, &later.partitions);
        measure_rows(&mut self.labels, &earlier.labels, &later.labels);
        measure_rows(&mut self.classes, &earlier.classes, &later.classes);
        // A sample has all partitions that there ever were, so the sums only grow.
        let [earlier, later] = [earlier, later].map(|sample| {
            let mut sums = <[Histogram; 2]>::default();
            for it in &sample.partitions {
                sums.iter_mut().zip(&*it.counts.times).for_each(|(sum, times)| sum.add(times));
            }
            sums
        });
        [self.whole.rtt, self.whole.wait] = quantiles(&earlier, &later);
    }

    pub(super) fn seconds(&self) -> f32 {
        self.to.since(self.from).as_secs_f32()
    }

    /// Returns the requests of all labels that were not followed, and of requests without a label.
    pub(crate) fn others(&self) -> Row {
        let mut others = self.whole.clone();
        (others.rtt, others.wait, others.share) = (None, None, 0.0);
        for label in &self.labels {
            others.admitted = others.admitted.saturating_sub(label.admitted);
            others.would_reject = others.would_reject.saturating_sub(label.would_reject);
            others.in_flight = (others.in_flight - label.in_flight).max(0.0);
            others.waiting = (others.waiting - label.waiting).max(0.0);
            for it in &label.rejected {
                let same = others.rejected.iter_mut().find(|other| (other.reason, other.by) == (it.reason, it.by));
                if let Some(other) = same {
                    other.count = other.count.saturating_sub(it.count);
                }
            }
        }
        others.rejected = others.rejected.into_iter().filter(|it| it.count > 0).collect();
        others
    }
}

impl Row {
    /// Returns what happened between two samples.
    fn between(earlier: &Sampled, later: &Sampled, name: Option<Arc<SampledName>>) -> Self {
        let (before, after) = (&earlier.counts, &later.counts);
        let rejected = after.rejected.iter().map(|it| {
            let known = before.rejected.iter().find(|known| key(known) == key(it)).map_or(0, |known| known.count);
            RejectedCount { count: it.count.wrapping_sub(known), ..*it }
        });
        Self {
            name: name.unwrap_or_else(|| Arc::new(later.name.clone())),
            serial: later.serial,
            admitted: count(after.admitted.saturating_sub(before.admitted)),
            left: count(after.left.saturating_sub(before.left)),
            would_reject: count(after.would_reject.saturating_sub(before.would_reject)),
            share: mean(later.share),
            in_flight: mean(later.in_flight),
            waiting: mean(later.waiting),
            rejected: rejected.filter(|it| it.count > 0).collect(),
            ..Self::default()
        }
    }

    /// Adds counts, and a part of the gauges.
    fn add(&mut self, other: &Self, part: f32) {
        self.admitted = self.admitted.saturating_add(other.admitted);
        self.left = self.left.saturating_add(other.left);
        self.would_reject = self.would_reject.saturating_add(other.would_reject);
        self.share += other.share * part;
        self.in_flight += other.in_flight * part;
        self.waiting += other.waiting * part;
        if other.rejected.is_empty() {
            return;
        }
        let mut rejected = std::mem::take(&mut self.rejected).into_vec();
        for it in &other.rejected {
            match rejected.iter_mut().find(|known| key(known) == key(it)) {
                Some(known) => known.count = known.count.saturating_add(it.count),
                None => rejected.push(*it),
            }
        }
        self.rejected = rejected.into();
    }

    fn is_worth_a_place(&self) -> bool {
        self.admitted > 0 || self.would_reject > 0 || !self.rejected.is_empty() || self.in_flight + self.waiting > 0.0
    }

    /// Returns how many requests were decided about.
    pub(super) fn arrived(&self) -> u64 {
        u64::from(self.admitted) + self.rejections()
    }

    /// Returns how many requests were rejected.
    pub(crate) fn rejections(&self) -> u64 {
        self.rejected.iter().map(|it| u64::from(it.count)).sum()
    }
}

const fn key(it: &RejectedCount) -> (Reason, BlockingBound) {
    (it.reason, it.by)
}

fn count(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "gauges are shown with three digits")]
const fn mean(gauge: usize) -> f32 {
    gauge as f32
}

fn by_serial(samples: &[Sampled]) -> BTreeMap<u64, &Sampled> {
    samples.iter().map(|it| (it.serial, it)).collect()
}

/// Finds the quantiles of rows.
fn measure_rows(rows: &mut [Row], earlier: &[Sampled], later: &[Sampled]) {
    let (before, after, never) = (by_serial(earlier), by_serial(later), Sampled::default());
    for row in rows {
        let before = before.get(&row.serial).copied().unwrap_or(&never);
        let measured = after.get(&row.serial).map(|after| quantiles(&before.counts.times, &after.counts.times));
        [row.rtt, row.wait] = measured.unwrap_or_default();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "times are shown with three digits")]
fn quantiles(before: &[Histogram; 2], after: &[Histogram; 2]) -> [Option<[f32; 2]>; 2] {
    let found = |kind: usize| Some(after[kind].quantiles_since(&before[kind], QUANTILES)?.map(|it| it as f32));
    [found(0), found(1)]
}
