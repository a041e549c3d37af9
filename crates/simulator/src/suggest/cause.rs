//! What went wrong, as far as a capture shows it.

use std::collections::BTreeMap;

use crate::{
    captured::{Captured, Group, Request},
    what_if::{Fate, Fates},
};

/// What a change is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// More requests at once.
    MoreAtOnce,
    Other,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// Requests of this group don't end, and hold so many slots at the end.
    Leak(Group, usize),
    /// Requests of several groups don't end, and hold so many slots at the end.
    Hang(usize),
    /// Requests of this group, among others, took so many times longer while requests were hurt: from seconds to seconds.
    Slower(Group, f64, f64),
    /// This group asks for more than half of all work.
    Noisy(Group),
    Unknown,
}

impl Cause {
    /// The group that is to have less.
    pub const fn culprit(&self) -> Option<&Group> {
        match self {
            Self::Leak(group, _) | Self::Noisy(group) => Some(group),
            _ => None,
        }
    }

    /// The cause in a line, and what follows from it.
    pub fn sentence(&self) -> String {
        match self {
            Self::Leak(group, slots) => format!(
                "requests of {} do not end, and hold {slots} slots at the end: a larger limit only takes longer to fill",
                group.title()
            ),
            Self::Hang(slots) => {
                format!("requests of several labels do not end, and hold {slots} slots at the end: the service hangs")
            }
            Self::Slower(group, before, after) => format!(
                "the service was slower while requests were hurt: {} for {}, not {}; with more requests at once it would be no faster",
                time(*after),
                group.title(),
                time(*before)
            ),
            Self::Noisy(group) => format!("{} asks for more than half of all work", group.title()),
            Self::Unknown => {
                "requests ask for more than the limit lets through, and no label asks for most of it".to_owned()
            }
        }
    }

    pub(super) fn why_nothing_helps(&self) -> &'static str {
        match self {
            Self::Slower(..) | Self::Hang(_) => "the service itself became slow, which no setting mends",
            _ => "about as many requests are hurt under each of them",
        }
    }

    pub(super) fn unknown(&self) -> &'static [&'static str] {
        match self {
            Self::Leak(..) => &[
                "whether work goes on in a slot that is taken back (`permit_time_to_live`), or when what did not end would have ended",
            ],
            _ => &[],
        }
    }

    /// Whether a policy of this kind can help at all: the replay serves requests for as long as they were served, and so flatters more
    /// of them at once.
    pub(super) const fn can_be_helped_by(&self, kind: Kind) -> bool {
        match self {
            Self::Slower(..) | Self::Hang(_) => false,
            Self::Leak(..) => !matches!(kind, Kind::MoreAtOnce),
            _ => true,
        }
    }
}

/// What went wrong, and for which requests.
#[derive(Debug)]
pub(super) struct Incident {
    pub(super) cause: Cause,
    pub(super) victim: Group,
    /// The groups with a label that ask for most work, and that sent the most requests.
    pub(super) foremost: Vec<Group>,
    /// Four times the longest time for which a request held a slot that ended, in nanoseconds.
    pub(super) longest: u64,
    /// The time after which half of those callers leave that leave, or have deadlines, in nanoseconds.
    pub(super) patience: Option<u64>,
}

/// What the requests of a group ask for.
#[derive(Default)]
struct Demand {
    requests: u64,
    /// Slots times nanoseconds.
    work: u128,
    hurt: u64,
    stuck: usize,
}

impl Incident {
    pub(super) fn of(captured: &Captured, then: &Fates) -> Self {
        let mut ended: Vec<u64> = captured.requests.iter().filter_map(held).collect();
        ended.sort_unstable();
        let usual = ended.get(ended.len() * 99 / 100).copied().unwrap_or(0);
        let long = usual.saturating_mul(4).max(captured.duration / 20);
        let mut groups: BTreeMap<Group, Demand> = BTreeMap::new();
        for (request, fate) in captured.requests.iter().zip(&then.each) {
            let it = groups.entry(request.group()).or_default();
            let rest = captured.duration.saturating_sub(request.started.unwrap_or(request.at));
            it.stuck += usize::from(request.is_unfinished() && rest >= long);
            it.work += u128::from(request.service.held.min(rest));
            it.requests += u64::from(!request.is_present);
            it.hurt += u64::from(!request.is_present && !is_well(fate.as_ref()));
        }
        let most = |of: &dyn Fn(&Demand) -> u128| {
            let named = groups.iter().filter(|(group, it)| group.label.is_some() && of(it) > 0);
            named.max_by_key(|(_, it)| of(it)).map(|(group, _)| group.clone())
        };
        let mut foremost: Vec<Group> =
            most(&|it| it.work).into_iter().chain(most(&|it| u128::from(it.requests))).collect();
        let cause = cause(captured, then, &groups, foremost.first());
        if let Cause::Leak(group, _) = &cause {
            foremost.insert(0, group.clone());
            foremost.retain(|it| it.label.is_some());
            foremost.truncate(1);
        }
        foremost.dedup();
        let hurt = |is_other: bool| {
            let others =
                groups.iter().filter(|(group, it)| it.requests > 0 && is_other == (Some(*group) != cause.culprit()));
            others
                .max_by_key(|(_, it)| it.hurt)
                .filter(|(_, it)| !is_other || it.hurt > 0)
                .map(|(group, _)| group.clone())
        };
        let victim = hurt(true).or_else(|| hurt(false)).or_else(|| groups.keys().next().cloned()).unwrap_or_default();
        let longest = ended.last().copied().unwrap_or(0).saturating_mul(4);
        Self { victim, foremost, longest, patience: patience(captured), cause }
    }
}

fn cause(captured: &Captured, then: &Fates, groups: &BTreeMap<Group, Demand>, first: Option<&Group>) -> Cause {
    let stuck: usize = groups.values().map(|it| it.stuck).sum();
    if stuck * 4 >= captured.limit.max(1) {
        let most = groups.iter().max_by_key(|(_, it)| it.stuck);
        return match most {
            Some((group, it)) if it.stuck * 5 >= stuck * 4 => Cause::Leak(group.clone(), it.stuck),
            _ => Cause::Hang(stuck),
        };
    }
    if let Some((group, before, after)) = slower(captured, then) {
        return Cause::Slower(group, before, after);
    }
    let all: u128 = groups.values().map(|it| it.work).sum();
    let noisy = first.filter(|first| groups.len() > 1 && groups[*first].work * 2 > all);
    noisy.map_or(Cause::Unknown, |group| Cause::Noisy(group.clone()))
}

/// The time for which a request held its slot, if it ended.
fn held(request: &Request) -> Option<u64> {
    (!request.is_present && request.started.is_some() && !request.service.has_no_end()).then_some(request.service.held)
}

const fn is_well(fate: Option<&Fate>) -> bool {
    matches!(fate, Some(Fate::Served { is_late: false, .. }))
}

fn patience(captured: &Captured) -> Option<u64> {
    let deadline = |it: &Request| it.asked.deadline.map(|at| at.saturating_sub(it.at));
    let mut times: Vec<u64> = captured.requests.iter().filter_map(deadline).collect();
    if times.is_empty() {
        times = captured.requests.iter().filter_map(|it| Some(it.left?.saturating_sub(it.at))).collect();
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().filter(|time| *time > 0)
}

/// The group with the most requests whose requests took four times as long or longer while requests were hurt, and how long they took
/// before and then, if most requests are of such groups. A group is compared with itself, since another mix is no slower service.
#[expect(clippy::cast_precision_loss, reason = "seconds to be shown")]
fn slower(captured: &Captured, then: &Fates) -> Option<(Group, f64, f64)> {
    const PARTS: u64 = 20;
    const FEWEST: usize = 5;
    let part =
        |at: u64| usize::try_from((at.saturating_mul(PARTS) / captured.duration.max(1)).min(PARTS - 1)).unwrap_or(0);
    let mut hurt = [0_u64; PARTS as usize];
    for (request, fate) in captured.requests.iter().zip(&then.each).filter(|(it, _)| !it.is_present) {
        hurt[part(request.at)] += u64::from(!is_well(fate.as_ref()));
    }
    let mean = hurt.iter().sum::<u64>() / PARTS;
    let mut times: BTreeMap<Group, [Vec<u64>; 2]> = BTreeMap::new();
    for request in &captured.requests {
        if let (Some(held), Some(start)) = (held(request), request.started) {
            let is_hurt = hurt[part(start)] > mean;
            times.entry(request.group()).or_default()[usize::from(is_hurt)].push(held);
        }
    }
    let count = |times: &[Vec<u64>; 2]| times[0].len() + times[1].len();
    let all: usize = times.values().map(count).sum();
    let slow = times.iter_mut().filter_map(|(group, times)| {
        let requests = count(times);
        if times.iter().any(|times| times.len() < FEWEST) {
            return None;
        }
        let [before, after] = times.each_mut().map(|times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        (after >= before.max(1).saturating_mul(4)).then(|| (requests, group.clone(), before, after))
    });
    let slow: Vec<_> = slow.collect();
    let is_most = slow.iter().map(|it| it.0).sum::<usize>() * 2 > all;
    let (_, group, before, after) = slow.into_iter().filter(|_| is_most).max_by_key(|it| it.0)?;
    Some((group, before as f64 / 1e9, after as f64 / 1e9))
}

fn time(seconds: f64) -> String {
    match seconds {
        it if it >= 1.0 => format!("{it:.1} s"),
        it => format!("{:.0} ms", it * 1e3),
    }
}
