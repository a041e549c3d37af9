//! What is different from before: the last ten seconds of a history, beside the hour before them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Frame, History, Row};
use crate::{
    Timestamp,
    engine::{SampledName, text},
    runtime::{core::lock, shared::Shared},
};

/// Time that is compared, and the time before it which may already be part of what has changed.
const NOW: Duration = Duration::from_secs(10);
const BETWEEN: Duration = Duration::from_secs(20);
/// Seconds with which anything is compared, at least.
const KNOWN: f32 = 20.0;
/// Time for which a moment is worth a word: a reload, or a stop of the process.
const RECENT: Duration = Duration::from_secs(600);
/// Partitions, and labels, that are compared: those with the most requests now and in the last second before.
const COMPARED: usize = 16;
/// Changes that are told of at once, besides a wait.
const MOST: usize = 3;
/// A change is one by this factor at least, and by this many standard deviations of a count.
const FACTOR: f32 = 2.0;
const DEVIATIONS: f32 = 6.0;

/// A change: how large it is, and what is said of it.
struct Change {
    factor: f32,
    words: String,
}

impl Shared {
    /// Says what is different from before, as far as a history is kept. What harms no request is left out where all is well.
    pub(in crate::runtime) fn changes(&self, is_fine: bool) -> Vec<String> {
        lock(&self.history).as_ref().map(|history| history.changes(is_fine)).unwrap_or_default()
    }
}

impl History {
    /// The largest changes first.
    fn changes(&self, is_fine: bool) -> Vec<String> {
        let (end, frames) = (self.last.at, self.since(Timestamp::ZERO));
        let now: Vec<_> = frames.iter().filter(|it| end.since(it.from) <= NOW + super::STEP).map(Arc::clone).collect();
        let before: Vec<_> = frames.iter().filter(|it| end.since(it.to) >= BETWEEN).map(Arc::clone).collect();
        // Too short a time says nothing.
        let known: f32 = before.iter().map(|it| it.seconds()).sum();
        let before = if known < KNOWN { Vec::new() } else { before };
        let view = Compared { now: &now, before: &before };
        let mut changes = view.each(|it| view.takes(it));
        changes.extend(view.each(|it| view.stopped(it)));
        if !is_fine {
            changes.extend(view.each(|it| view.sends(it)));
            changes.extend(view.limit());
        }
        let by_factor = |a: &Change, b: &Change| b.factor.total_cmp(&a.factor);
        changes.sort_by(by_factor);
        changes.truncate(MOST);
        // Waits come of the rest.
        changes.extend(view.each(|it| view.waits(it)).into_iter().min_by(by_factor));
        let recent = || frames.iter().rev().take_while(|it| end.since(it.to) <= RECENT);
        let ago = |it: &Frame| text::seconds(end.since(it.to).as_secs_f64().round());
        let gap = recent().find(|it| it.is_gap && self.is_driven).map(|it| {
            let lasted = text::seconds(f64::from(it.seconds()));
            format!("the process stood still for {lasted}, until {} ago", ago(it))
        });
        let may_be_cause = !is_fine || !changes.is_empty();
        let reload = recent().find(|it| it.reloads > 0 && may_be_cause);
        let reload = reload.map(|it| format!("settings reloaded {} ago", ago(it)));
        gap.into_iter().chain(reload).chain(changes.into_iter().map(|it| it.words)).collect()
    }
}

/// The last seconds, and the time before.
struct Compared<'a> {
    now: &'a [Arc<Frame>],
    before: &'a [Arc<Frame>],
}

/// The rows of all partitions, or of all labels, in a frame.
type Rows = fn(&Frame) -> &[Row];

/// A partition or a label.
struct Subject<'a> {
    serial: u64,
    name: &'a Arc<SampledName>,
    rows: Rows,
    is_partition: bool,
}

impl<'a> Compared<'a> {
    /// What has changed of labels, or else of partitions.
    fn each(&self, change: impl Fn(&Subject<'a>) -> Option<Change>) -> Vec<Change> {
        let kinds: [(Rows, bool); 2] = [(|it| &it.labels, false), (|it| &it.partitions, true)];
        let of_kind = |(rows, is_partition): (Rows, bool)| -> Vec<_> {
            let mut busiest: BTreeMap<u64, (f32, &'a Arc<SampledName>)> = BTreeMap::new();
            for row in self.now.iter().chain(self.before.last()).flat_map(|frame| rows(frame)) {
                busiest.entry(row.serial).or_insert((0.0, &row.name)).0 += row.arrived() as f32 + row.waiting;
            }
            let mut busiest: Vec<_> = busiest.into_iter().collect();
            busiest.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
            let compared = busiest.into_iter().take(COMPARED);
            compared.filter_map(|(serial, (_, name))| change(&Subject { serial, name, rows, is_partition })).collect()
        };
        kinds.map(of_kind).into_iter().find(|it| !it.is_empty()).unwrap_or_default()
    }

    /// The rows of a subject, each with the time that it is about.
    fn rows(frames: &'a [Arc<Frame>], it: &Subject<'a>) -> impl Iterator<Item = (Option<&'a Row>, f32)> + Clone {
        let (rows, serial) = (it.rows, it.serial);
        let found =
            frames.iter().map(move |frame| (rows(frame).iter().find(|row| row.serial == serial), frame.seconds()));
        found.filter(|(_, seconds)| *seconds > 0.0)
    }

    /// The requests that came in the last seconds, and how long these were; and how many came per second before.
    fn load(&self, it: &Subject<'a>) -> Option<(f32, f32, f32)> {
        let arrived = |row: Option<&Row>| row.map_or(0.0, |row| row.arrived() as f32);
        let (mut came, mut seconds) = (0.0, 0.0);
        for (row, lasted) in Self::rows(self.now, it) {
            (came, seconds) = (came + arrived(row), seconds + lasted);
        }
        // A partition in which nothing happened has no row; nor has a label that was not followed, and may have sent anything.
        let before = Self::rows(self.before, it).filter(|(row, _)| row.is_some() || it.is_partition);
        let known: f32 = before.clone().map(|(_, lasted)| lasted).sum();
        if known < KNOWN {
            return None;
        }
        let usual = median(before.map(|(row, lasted)| (arrived(row) / lasted, lasted)))?;
        Some((came, seconds, usual))
    }

    /// A subject that sends far more than before.
    fn sends(&self, it: &Subject<'a>) -> Option<Change> {
        let (came, seconds, usual) = self.load(it)?;
        let expected = usual * seconds;
        let is_more = came >= expected * FACTOR && came - expected >= DEVIATIONS * expected.max(1.0).sqrt();
        let [now, before] = [came / seconds, usual].map(|it| text::rate(it.into()));
        let words = format!("{} sends {now}, {before} before", name(it));
        is_more.then(|| Change { factor: came / expected.max(1.0), words })
    }

    /// A subject that sends nothing any more.
    fn stopped(&self, it: &Subject<'a>) -> Option<Change> {
        let (came, seconds, usual) = self.load(it)?;
        let expected = usual * seconds;
        // Callers that leave the line come as well.
        let leave = Self::rows(self.now, it).any(|(row, _)| row.is_some_and(|row| row.left > 0));
        let has_stopped = came == 0.0 && !leave && expected >= DEVIATIONS * FACTOR;
        let words = format!("{} sends nothing, {} before", name(it), text::rate(usual.into()));
        has_stopped.then_some(Change { factor: expected, words })
    }

    /// A subject whose requests take far longer than before.
    fn takes(&self, it: &Subject<'a>) -> Option<Change> {
        let times = |frames| median(Self::rows(frames, it).filter_map(|(row, lasted)| Some((row?.rtt?[0], lasted))));
        let (now, usual) = (times(self.now)?, times(self.before)?);
        let [took, before] = [now, usual].map(|it| text::seconds(it.into()));
        let words = format!("{} takes {took}, {before} before", name(it));
        let (came, ..) = self.load(it)?;
        // Of times that are spread exponentially, a part of 2^-f is above f medians. That half of n are is no more likely than
        // 2^n 2^(-f n / 2), which is one in ten million from here on.
        let is_longer = now >= usual * (FACTOR + 46.0 / came.max(1.0));
        is_longer.then_some(Change { factor: now / usual, words })
    }

    /// A subject whose requests wait far longer than before, and longer than they take. By Little's law a request waits for as long
    /// as the line is, divided by how many come per second.
    fn waits(&self, it: &Subject<'a>) -> Option<Change> {
        let wait = |frames| {
            let (mut waiting, mut came) = (0.0, 0.0);
            for (row, lasted) in Self::rows(frames, it).filter_map(|(row, lasted)| Some((row?, lasted))) {
                (waiting, came) = (waiting + row.waiting * lasted, came + row.arrived() as f32);
            }
            (came > 0.0).then(|| waiting / came)
        };
        let takes = median(Self::rows(self.now, it).filter_map(|(row, lasted)| Some((row?.rtt?[0], lasted))));
        let (now, usual) = (wait(self.now)?, wait(self.before)?);
        let [waited, before] = [now, usual].map(|it| text::seconds(it.into()));
        let words = format!("{} waits {waited}, {before} before", name(it));
        let is_longer = now >= usual * FACTOR && now >= takes.unwrap_or(0.0) && now > 0.01;
        is_longer.then(|| Change { factor: now / usual.max(0.01), words })
    }

    fn limit(&self) -> Option<Change> {
        let limit = |frames: &[Arc<Frame>]| median(frames.iter().map(|it| (it.limit, it.seconds())));
        let (now, usual) = (limit(self.now)?, limit(self.before)?);
        let factor = (usual / now).max(now / usual);
        (factor > FACTOR * 0.9).then(|| Change { factor, words: format!("the limit is {now:.0}, {usual:.0} before") })
    }
}

/// The name of a subject, as a sentence has it.
fn name(it: &Subject<'_>) -> String {
    let SampledName { namespace, name, .. } = &**it.name;
    let namespace = if namespace.is_empty() { String::new() } else { text::name(namespace) + ":" };
    namespace + &text::name(name)
}

/// The median of values, each with the time that it held for; none of too short a time.
fn median(values: impl Iterator<Item = (f32, f32)>) -> Option<f32> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let half = values.iter().map(|(_, lasted)| lasted).sum::<f32>() / 2.0;
    let mut sum = 0.0;
    values.into_iter().find_map(|(value, lasted)| {
        sum += lasted;
        (sum >= half).then_some(value)
    })
}
