//! What is different from before: the last ten seconds of a history, beside the hour before them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Frame, History, Row,
    bursts::{self, Bursts, DEVIATIONS, FACTOR, median, quantile},
};
use crate::{
    Timestamp,
    engine::{HealthSnapshot, SampledName, text},
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

/// A change: how large it is, its place among those of its kind, and what is said of it.
struct Change {
    factor: f32,
    place: usize,
    words: String,
}

impl History {
    /// Notes which partitions and classes requests have and no setting knows.
    pub(in crate::runtime) fn note_unknown(&mut self, now: Timestamp, partitions: Vec<String>, classes: Vec<String>) {
        let partitions = partitions.into_iter().map(|name| (name, "a partition that no setting knows"));
        let classes = classes.into_iter().map(|name| (name, "a class without rules"));
        let unknown = partitions.chain(classes).map(|(name, what)| {
            let words = format!("requests of {} come, {what}", text::name(&name));
            let known = self.unknown.iter().find(|(known, _)| *known == words);
            let since = known.map_or(now, |(_, since)| *since);
            (words, since)
        });
        self.unknown = unknown.collect();
    }

    /// Adds what is different from before. What harms no request is left out where all is well.
    pub(in crate::runtime) fn add_changes(&self, health: &mut HealthSnapshot) {
        health.changed = self.changes(health.state == "fine");
        if !health.changed.is_empty() {
            health.headline += &format!("; changed: {}", health.changed.join(", "));
        }
    }

    /// Whether requests of a label or of a partition wait longer than before, or all of them for the processor.
    pub(in crate::runtime) fn has_longer_waits(&self) -> bool {
        let frames = self.now_and_before();
        let of_kind = |kind: &Kind| subjects(&frames, *kind).iter().any(|it| it.waits().is_some());
        // All that waits, waits in a partition: to look at that is cheap.
        let do_wait = frames[0].iter().flat_map(|it| &it.partitions).any(|it| it.waiting > 0.0);
        self.lateness().is_some() || do_wait && [Kind::Label, Kind::Partition].iter().any(of_kind)
    }

    /// The frames that are compared: the last ones, those before, and the last ones second by second.
    fn now_and_before(&self) -> [Vec<&Arc<Frame>>; 3] {
        let end = self.last.at;
        let since = |time: Duration| move |it: &&Arc<Frame>| end.since(it.from) <= time + super::STEP;
        let before: Vec<_> = self.coarse.iter().filter(|it| end.since(it.to) >= BETWEEN).collect();
        // Too short a time says nothing.
        let known: f32 = before.iter().map(|it| it.seconds()).sum();
        let before = if known < KNOWN { Vec::new() } else { before };
        // What came while the process stood still comes at once.
        let late = self.fine.iter().rposition(|it| it.is_gap || it.seconds() > 1.5).map_or(0, |it| it + 3);
        let lately = self.fine.iter().skip(late).filter(since(BETWEEN)).collect();
        [self.fine.iter().filter(since(NOW)).collect(), before, lately]
    }

    /// The largest changes first.
    fn changes(&self, is_fine: bool) -> Vec<String> {
        let end = self.last.at;
        let frames = self.now_and_before();
        let kinds = [Kind::Label, Kind::Partition].map(|kind| subjects(&frames, kind));
        let classes = subjects(&frames, Kind::Class);
        let mut changes = of(&classes, Subject::takes);
        // Where most requests have labels that were followed before, times of a partition only tell of another mix of these.
        let came = |subjects: &[Subject<'_>]| subjects.iter().map(|it| it.now.came).sum::<f32>();
        let followed: f32 = kinds[0].iter().filter(|it| !it.before.rtt.is_empty()).map(|it| it.now.came).sum();
        let are_followed = followed * 2.0 > came(&kinds[1]) || came(&classes) * 2.0 > came(&kinds[1]);
        changes.extend(if are_followed { of(&kinds[0], Subject::takes) } else { each(&kinds, Subject::takes) });
        changes.extend(each(&kinds, Subject::stopped));
        changes.extend(self.lateness());
        if !is_fine {
            // What came while the process stood still comes at once.
            if !self.fine.iter().rev().take(12).any(|it| it.is_gap) {
                changes.extend(each(&kinds, Subject::sends));
            }
            changes.extend(of_limit(&frames[0], &frames[1]));
        }
        // The largest change of each kind comes before the second of any.
        changes.sort_by(|a, b| a.place.cmp(&b.place).then(b.factor.total_cmp(&a.factor)));
        changes.truncate(MOST);
        // Waits come of the rest.
        changes.extend(each(&kinds, Subject::waits).into_iter().next());
        let frames = self.since(end.before(RECENT));
        let ago = |it: &Frame| text::seconds(end.since(it.to).as_secs_f64().round());
        let gap = frames.iter().rev().find(|it| it.is_gap && self.is_driven).map(|it| {
            let lasted = text::seconds(f64::from(it.seconds()));
            format!("the process stood still for {lasted}, until {} ago", ago(it))
        });
        let may_be_cause = !is_fine || !changes.is_empty();
        let reload = frames.iter().rev().find(|it| it.reloads > 0 && may_be_cause);
        let reload = reload.map(|it| format!("settings reloaded {} ago", ago(it)));
        // Of a process that is new, all names are.
        let is_new = |at: Timestamp| end.since(at) <= RECENT && at.since(self.began).as_secs_f32() >= KNOWN;
        let unknown = self.unknown.iter().find(|(_, since)| may_be_cause && is_new(*since));
        let unknown = unknown.map(|(words, _)| words.clone());
        gap.into_iter().chain(reload).chain(unknown).chain(changes.into_iter().map(|it| it.words)).collect()
    }

    /// Says how late timers fire, where that is far later than before: the process, or its runtime, gets to do too little.
    fn lateness(&self) -> Option<Change> {
        /// Lateness that is worth a word, in seconds, and how often the usual one is exceeded.
        const LATE: f32 = 0.05;
        const OFTEN: f32 = 5.0;
        let end = self.last.at;
        let late = |is_now: bool| {
            let frames = self
                .fine
                .iter()
                .filter(|it| !it.is_gap && (end.since(it.to) < if is_now { NOW } else { BETWEEN }) == is_now);
            let late: Vec<_> = frames.map(|it| ((it.seconds() - 1.0).max(0.0), it.seconds())).collect();
            median(&late).filter(|_| late.len() as f32 >= if is_now { 5.0 } else { KNOWN })
        };
        let (now, usual) = (late(true)?, late(false)?);
        let is_late = self.is_driven && now >= LATE.max(usual * OFTEN);
        let words = || [now, usual].map(|it| text::seconds(it.into()));
        is_late.then(words).map(|[now, usual]| Change {
            factor: OFTEN,
            place: 0,
            words: format!("requests wait for the processor: timers fire {now} late, {usual} before"),
        })
    }
}

/// What has changed of labels, or else of partitions: the former says more.
fn each<'a>(kinds: &[Vec<Subject<'a>>; 2], change: fn(&Subject<'a>) -> Option<Change>) -> Vec<Change> {
    kinds.iter().map(|subjects| of(subjects, change)).find(|it| !it.is_empty()).unwrap_or_default()
}

/// What has changed of these, the largest first.
fn of<'a>(subjects: &[Subject<'a>], change: fn(&Subject<'a>) -> Option<Change>) -> Vec<Change> {
    let mut found: Vec<_> = subjects.iter().filter_map(change).collect();
    found.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    found.iter_mut().enumerate().for_each(|(place, it)| it.place = place);
    found
}

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Class,
    Label,
    Partition,
}

impl Kind {
    fn rows(self, frame: &Frame) -> &[Row] {
        match self {
            Self::Class => &frame.classes,
            Self::Label => &frame.labels,
            Self::Partition => &frame.partitions,
        }
    }
}

/// Some time of a partition or of a label.
#[derive(Default)]
struct Side {
    seconds: f32,
    came: f32,
    left: u32,
    /// Waiting requests, and slots, each times seconds.
    waited: f32,
    held: f32,
    /// Requests per second, medians of round-trip times, and means of waits, each with the seconds that it held for.
    rates: Vec<(f32, f32)>,
    rtt: Vec<(f32, f32)>,
    waits: Vec<(f32, f32)>,
}

impl Side {
    fn add(&mut self, row: &Row, seconds: f32) {
        let came = row.arrived() as f32;
        (self.seconds, self.came, self.left) = (self.seconds + seconds, self.came + came, self.left + row.left);
        self.waited += row.waiting * seconds;
        self.held += row.in_flight * seconds;
        self.rates.push((came / seconds, seconds));
        self.waits.push((row.waiting * seconds / came.max(1.0), seconds));
        self.rtt.extend(row.rtt.map(|[p50, _]| (p50, seconds)));
    }

    /// The median of the times that requests take. Where most callers leave, the answers to the others say little; by Little's law
    /// requests take at least as long as the slots that they hold, divided by how many come per second.
    fn takes(&self) -> Option<f32> {
        /// Slots times seconds from which on the samples of a gauge say something.
        const ENOUGH: f32 = 5.0;
        let answered = median(&self.rtt);
        let is_unanswered = self.left as f32 * 2.0 >= self.came && self.held >= ENOUGH && self.came > 0.0;
        let at_least = is_unanswered.then(|| self.held / self.came);
        answered.into_iter().chain(at_least).reduce(f32::max)
    }

    /// The time for which a request waits. By Little's law it is the line, divided by how many come per second.
    fn wait(&self) -> Option<f32> {
        (self.came > 0.0).then(|| self.waited / self.came)
    }
}

/// A partition or a label: the last seconds, and the time before.
struct Subject<'a> {
    name: &'a SampledName,
    now: Side,
    before: Side,
    /// Requests that came in each of the last seconds, and how many waited at the end of the last of these.
    lately: Vec<f32>,
    waiting: f32,
}

/// The partitions, labels or classes that are compared: now, before, and second by second.
fn subjects<'a>([now, before, lately]: &[Vec<&'a Arc<Frame>>; 3], kind: Kind) -> Vec<Subject<'a>> {
    let rows = |frame: &'a Frame| kind.rows(frame);
    let mut busiest: BTreeMap<u64, (f32, &'a SampledName)> = BTreeMap::new();
    for row in now.iter().chain(before.last()).flat_map(|frame| rows(frame)) {
        busiest.entry(row.serial).or_insert((0.0, &*row.name)).0 += row.arrived() as f32 + row.waiting;
    }
    let mut busiest: Vec<_> = busiest.into_iter().collect();
    busiest.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    busiest.truncate(COMPARED);
    let subject = |(serial, (_, name))| {
        let [now, before] = std::array::from_fn(|_| Side::default());
        (serial, Subject { name, now, before, lately: Vec::new(), waiting: 0.0 })
    };
    let mut subjects: BTreeMap<u64, Subject<'a>> = busiest.into_iter().map(subject).collect();
    for frame in lately {
        for (serial, it) in &mut subjects {
            let row = rows(frame).iter().find(|row| row.serial == *serial);
            let (arrived, waiting) = row.map_or((0.0, 0.0), |row| (row.arrived() as f32, row.waiting));
            // A request that waits came already.
            it.lately.push((arrived + waiting - it.waiting).max(0.0));
            it.waiting = waiting;
        }
    }
    let mut lasted = [0.0; 2];
    for (frames, side) in [(now, 0), (before, 1)] {
        for frame in frames.iter().filter(|frame| frame.seconds() > 0.0) {
            lasted[side] += frame.seconds();
            for row in rows(frame) {
                if let Some(it) = subjects.get_mut(&row.serial) {
                    [&mut it.now, &mut it.before][side].add(row, frame.seconds());
                }
            }
        }
    }
    let mut subjects: Vec<_> = subjects.into_values().collect();
    for it in subjects.iter_mut().filter(|_| kind == Kind::Partition) {
        // Nothing happened in a partition without a row. A label without one was not followed, and may have sent anything.
        for (side, lasted) in [&mut it.now, &mut it.before].into_iter().zip(lasted) {
            side.rates.push((0.0, lasted - side.seconds));
            side.seconds = lasted;
        }
    }
    subjects
}

impl Subject<'_> {
    /// The requests per second of the time before, and how many that were in as long a time as the last seconds.
    fn expected(&self) -> Option<(f32, f32)> {
        let usual = median(&self.before.rates).filter(|_| self.before.seconds >= KNOWN)?;
        Some((usual, usual * self.now.seconds))
    }

    /// Whether it sends in bursts, as it did not before.
    fn bursts(&self) -> Option<Change> {
        let (usual, _) = self.expected()?;
        let Bursts { requests, seconds, factor } = bursts::find(&self.lately, &self.before.rates, usual)?;
        let words = [format!("{requests:.0} requests in {seconds} s"), text::rate(usual.into())];
        Some(self.change(factor, "sends in bursts of", words))
    }

    /// Whether it sends far more than before.
    fn sends(&self) -> Option<Change> {
        if let Some(bursts) = self.bursts() {
            return Some(bursts);
        }
        let (usual, expected) = self.expected()?;
        let came = self.now.came;
        let is_more = came >= expected * FACTOR && came - expected >= DEVIATIONS * expected.max(1.0).sqrt();
        is_more.then(|| {
            let words = [came / self.now.seconds, usual].map(|it| text::rate(it.into()));
            self.change(came / expected.max(1.0), "sends", words)
        })
    }

    /// Whether it sends nothing any more. Callers that leave the line come as well.
    fn stopped(&self) -> Option<Change> {
        let (usual, expected) = self.expected()?;
        let has_stopped = self.now.came == 0.0 && self.now.left == 0 && expected >= DEVIATIONS * FACTOR;
        has_stopped.then(|| self.change(expected, "sends", ["nothing".to_owned(), text::rate(usual.into())]))
    }

    /// Whether its requests take far longer than before.
    fn takes(&self) -> Option<Change> {
        let (now, usual) = (self.now.takes()?, median(&self.before.rtt)?);
        // Of times that are spread exponentially, a part of 2^-f is above f medians. That half of n are is no more likely than
        // 2^n 2^(-f n / 2), which is one in ten million from here on.
        let is_longer = now >= usual * (FACTOR + 46.0 / self.now.came.max(1.0)) && self.before.seconds >= KNOWN;
        is_longer.then(|| self.change(now / usual, "takes", [now, usual].map(|it| text::seconds(it.into()))))
    }

    /// Whether its requests wait far longer than before, than in nine of ten frames before, and than they take.
    fn waits(&self) -> Option<Change> {
        /// A wait that is worth a word, in seconds: most waits are none, so that a few of these are far longer.
        const LONG: f32 = 0.03;
        let (now, usual) = (self.now.wait()?, self.before.wait()?);
        let often = quantile(&self.before.waits, 0.9)?.max(usual);
        let takes = median(&self.now.rtt).unwrap_or(0.0);
        let is_longer = now >= often * FACTOR * FACTOR && now >= takes && now >= LONG;
        let words = || [now, usual].map(|it| text::seconds(it.into()));
        is_longer.then(|| self.change(now / usual.max(0.01), "waits", words()))
    }

    fn change(&self, factor: f32, verb: &str, [now, before]: [String; 2]) -> Change {
        let name = match text::full_name(&self.name.namespace, &self.name.name) {
            // Only a class has no name but that of its class.
            name if name.is_empty() => format!("class {}", text::name(&self.name.class)),
            name => name,
        };
        Change { factor, place: 0, words: format!("{name} {verb} {now}, {before} before") }
    }
}

fn of_limit(now: &[&Arc<Frame>], before: &[&Arc<Frame>]) -> Option<Change> {
    let limit = |frames: &[&Arc<Frame>]| {
        let limits: Vec<_> = frames.iter().map(|it| (it.limit, it.seconds())).collect();
        median(&limits)
    };
    let (now, usual) = (limit(now)?, limit(before)?);
    let factor = (usual / now).max(now / usual);
    (factor > FACTOR * 0.9).then(|| Change {
        factor,
        place: 0,
        words: format!("the limit is {now:.0}, {usual:.0} before"),
    })
}
