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

/// Histograms of round-trip times and of waits, before and after.
type Sums = [[Histogram; 2]; 2];

impl Frame {
    pub(super) fn between(earlier: &HistorySample, later: &HistorySample, names: &Self) -> Self {
        let rows = |before: &[Sampled], after: &[Sampled], known: &[Row], is_new_wanted: bool| -> Box<[Row]> {
            let before: BTreeMap<_, _> = before.iter().map(|it| (it.serial, it)).collect();
            let known: BTreeMap<_, _> = known.iter().map(|it| (it.serial, &it.name)).collect();
            let rows = after.iter().filter_map(|it| {
                let name = known.get(&it.serial).filter(|name| ****name == it.name).map(|name| Arc::clone(name));
                let earlier = before.get(&it.serial).copied();
                (is_new_wanted || earlier.is_some()).then(|| Row::between(earlier, it, name))
            });
            rows.collect()
        };
        let partitions = rows(&earlier.partitions, &later.partitions, &names.partitions, true);
        // What happened to a label before it was followed was not in this time alone.
        let labels = rows(&earlier.labels, &later.labels, &names.labels, false);
        let classes = rows(&earlier.classes, &later.classes, &names.classes, true);
        let classes = classes.into_iter().filter(Row::is_worth_a_place).collect();
        let mut whole = Row::sum(&names.whole.name, &partitions);
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
                    let into = merged.entry(row.serial).or_insert_with(|| row.empty());
                    into.add(row, part(frame));
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
        let mut sums = Sums::default();
        measure_rows(&mut self.partitions, &earlier.partitions, &later.partitions, |before_and_after| {
            for (sums, times) in sums.iter_mut().zip(before_and_after) {
                sums.iter_mut().zip(times).for_each(|(sum, histogram)| sum.add(histogram));
            }
        });
        measure_rows(&mut self.labels, &earlier.labels, &later.labels, |_| ());
        measure_rows(&mut self.classes, &earlier.classes, &later.classes, |_| ());
        [self.whole.rtt, self.whole.wait] = quantiles(&sums[0], &sums[1]);
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
    fn between(earlier: Option<&Sampled>, later: &Sampled, name: Option<Arc<SampledName>>) -> Self {
        let (admitted, left, would_reject) =
            earlier.map_or((0, 0, 0), |it| (it.counts.admitted, it.counts.left, it.counts.would_reject));
        let before = |cell: &RejectedCount| {
            let known = earlier.and_then(|it| it.counts.rejected.iter().find(|it| key(it) == key(cell)));
            known.map_or(0, |it| it.count)
        };
        let rejected =
            later.counts.rejected.iter().map(|it| RejectedCount { count: it.count.wrapping_sub(before(it)), ..*it });
        Self {
            name: name.unwrap_or_else(|| Arc::new(later.name.clone())),
            serial: later.serial,
            admitted: count(later.counts.admitted.saturating_sub(admitted)),
            left: count(later.counts.left.saturating_sub(left)),
            would_reject: count(later.counts.would_reject.saturating_sub(would_reject)),
            share: mean(later.share),
            in_flight: mean(later.in_flight),
            waiting: mean(later.waiting),
            rtt: None,
            wait: None,
            rejected: rejected.filter(|it| it.count > 0).collect(),
        }
    }

    fn empty(&self) -> Self {
        Self { serial: self.serial, ..Self::sum(&self.name, &[]) }
    }

    fn sum(name: &Arc<SampledName>, rows: &[Self]) -> Self {
        let mut sum = Self { name: Arc::clone(name), ..Self::default() };
        rows.iter().for_each(|row| sum.add(row, 1.0));
        sum
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

/// Finds the quantiles of rows, and tells the histograms of each before and after.
fn measure_rows(rows: &mut [Row], earlier: &[Sampled], later: &[Sampled], mut tell: impl FnMut([&[Histogram; 2]; 2])) {
    let before: BTreeMap<_, _> = earlier.iter().map(|it| (it.serial, &it.counts.times)).collect();
    let (never, mut measured) = (Arc::default(), BTreeMap::new());
    for it in later {
        let (before, after) = (before.get(&it.serial).copied().unwrap_or(&never), &it.counts.times);
        measured.insert(it.serial, quantiles(before, after));
        tell([before, after]);
    }
    for row in rows {
        [row.rtt, row.wait] = measured.get(&row.serial).copied().unwrap_or_default();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "times are shown with three digits")]
fn quantiles(before: &[Histogram; 2], after: &[Histogram; 2]) -> [Option<[f32; 2]>; 2] {
    let found = |kind: usize| Some(after[kind].quantiles_since(&before[kind], QUANTILES)?.map(|it| it as f32));
    [found(0), found(1)]
}
