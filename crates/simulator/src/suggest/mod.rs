//! Whether another policy would have helped in an incident that was recorded.
//!
//! The capture says what went wrong; policies that may suit it follow from its own, and each is replayed.

mod cause;
mod derive;

use std::collections::BTreeMap;

use tower_admission::Outcome;

use self::{
    cause::{Incident, Kind},
    derive::Base,
};
use super::{
    candidate::Candidate,
    captured::{Captured, Group},
    compare::{compare, sum},
    what_if::{Fate, Fates, recorded, what_if_under},
};

pub use self::cause::Cause;

/// What became of requests under a policy.
#[derive(Clone, Debug, Default)]
pub struct Count {
    pub offered: u64,
    /// Answered in time.
    pub served: u64,
    /// Answered after their deadlines.
    pub late: u64,
    pub refused: u64,
    /// Requests whose callers left, in line or before the answer.
    pub left: u64,
    /// Requests that got a slot, and had not ended when the capture ended.
    pub unended: u64,
    waits: Vec<u64>,
}

impl Count {
    /// Requests without an answer in time.
    pub const fn hurt(&self) -> u64 {
        self.offered - self.served
    }

    /// What 99 in a hundred waits of requests that got a slot don't exceed, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "seconds to be shown")]
    pub fn wait_p99(&self) -> f64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let at = (waits.len() * 99 / 100).min(waits.len().saturating_sub(1));
        waits.get(at).map_or(0.0, |&nanos| nanos as f64 / 1e9)
    }

    fn add(&mut self, captured: &Captured, number: usize, fate: Option<&Fate>) {
        let service = &captured.requests[number].service;
        self.offered += 1;
        match fate {
            Some(Fate::Served { wait, is_late }) => {
                self.waits.push(*wait);
                match () {
                    () if service.has_no_end() => self.unended += 1,
                    () if service.outcome == Outcome::Cancelled => self.left += 1,
                    () if *is_late => self.late += 1,
                    () => self.served += 1,
                }
            }
            Some(Fate::Refused(_)) => self.refused += 1,
            Some(Fate::Left) => self.left += 1,
            // It waited yet when the capture ended.
            None => {}
        }
    }
}

/// What became of the requests under a policy, and whether that would have helped.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Settings that it has in place of those of the capture, or the name of its file.
    pub name: String,
    pub all: Count,
    /// The group that was hurt most.
    pub victim: Count,
    pub helps: bool,
    others: u64,
    kind: Kind,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Suggestion {
    pub cause: Cause,
    /// Which requests were hurt most, besides those that are the cause.
    pub victim: Group,
    /// What was recorded, the policy of the capture, and the others.
    pub replayed: Vec<Replayed>,
    /// Which of them would have helped most.
    pub best: Option<usize>,
    /// How many requests fare otherwise than recorded under the policy of the capture, where these are too many for a forecast.
    pub departs: Option<u64>,
}

impl Suggestion {
    /// The answer in a line.
    pub fn headline(&self) -> String {
        let own = &self.replayed[1];
        if own.all.hurt() == own.all.unended {
            return "none of these would have helped: no request was hurt".to_owned();
        }
        let Some(best) = self.best.map(|best| &self.replayed[best]) else {
            return format!("none of these would have helped: {}", self.cause.why_nothing_helps());
        };
        let (victim, before, after) = (self.victim.title(), &own.victim, &best.victim);
        let fares = format!(
            "{} of {} requests of {victim} answered in time, not {}",
            after.served, after.offered, before.served
        );
        let fares = if after.served > before.served {
            fares
        } else {
            format!("{} of {} requests answered in time, not {}", best.all.served, best.all.offered, own.all.served)
        };
        let cost = match (&self.cause, own.all.served.saturating_sub(best.all.served)) {
            (Cause::Noisy(group), lost) if lost > 0 => {
                format!(", and {lost} fewer of all, most of them of {}", group.title())
            }
            _ => String::new(),
        };
        let condition = if matches!(best.kind, Kind::MoreAtOnce) {
            ", if the service gets no slower by more requests at once"
        } else {
            ""
        };
        format!("would have helped most: {}: {fares}{cost}{condition}", best.name)
    }

    /// What the replay can't know, where that matters for this incident.
    pub fn unknown(&self) -> Vec<&'static str> {
        let mut unknown = Vec::from(self.cause.unknown());
        unknown.extend([
            "whether the service gets slower or faster with more or fewer requests at once: each is served for as long as recorded",
            "how long requests would have taken that never ran, and whether refused callers would have come again: \
             the requests are those that came",
        ]);
        unknown
    }
}

/// Replays a capture under its own policy, under others that may suit what it shows, and under these `files`, which have a name and a text.
///
/// # Errors
///
/// What is wrong with a file; or that there is no policy to derive others from, in words.
pub fn suggest(captured: &Captured, files: &[(String, String)]) -> Result<Suggestion, String> {
    let read = |(name, text): &(String, String)| {
        let candidate = Candidate::parse(text).map_err(|problem| format!("{name}: {problem}"))?;
        Ok((name.clone(), candidate))
    };
    let files_read: Vec<_> = files.iter().map(read).collect::<Result<_, String>>()?;
    let (own_name, base) = match (&captured.policy, files.first()) {
        (Ok(own), _) => ("the policy of the capture".to_owned(), Base::of_policy(own)),
        (Err(_), Some((name, text))) => (name.clone(), Base::of_file(text)?),
        (Err(what), None) => {
            return Err(format!(
                "the capture can't describe {what}: give --policy FILE, from which others are derived"
            ));
        }
    };
    let then = recorded(captured);
    let incident = Incident::of(captured, &then);
    let mut rows = vec![Replayed::of("recorded".to_owned(), Kind::Other, captured, &then, &incident)];
    let own = what_if_under(captured, &base.candidate()?);
    let departs = sum(compare(captured, &then, std::slice::from_ref(&own)).iter().map(|(_, tallies)| tallies));
    rows.push(Replayed::of(own_name, Kind::Other, captured, &own, &incident));
    let is_base = |name: &String| captured.policy.is_err() && *name == rows[1].name;
    let files_read: Vec<_> = files_read.into_iter().filter(|(name, _)| !is_base(name)).collect();
    for change in derive::changes(captured, &incident, &base) {
        // Settings that contradict those of the capture are none.
        let Ok(candidate) = base.with(&change) else { continue };
        rows.push(Replayed::of(change.name, change.kind, captured, &what_if_under(captured, &candidate), &incident));
    }
    for (name, candidate) in files_read {
        rows.push(Replayed::of(name, Kind::Other, captured, &what_if_under(captured, &candidate), &incident));
    }
    let best = judge(&mut rows, &incident.cause);
    let departs = departs.last().and_then(super::compare::Tally::departs);
    Ok(Suggestion { cause: incident.cause, victim: incident.victim, replayed: rows, best, departs })
}

impl Replayed {
    fn of(name: String, kind: Kind, captured: &Captured, fates: &Fates, incident: &Incident) -> Self {
        let mut this = Self { name, all: Count::default(), victim: Count::default(), helps: false, others: 0, kind };
        let mut groups: BTreeMap<Group, Count> = BTreeMap::new();
        for (i, request) in captured.requests.iter().enumerate().filter(|(_, it)| !it.is_present) {
            this.all.add(captured, i, fates.each[i].as_ref());
            groups.entry(request.group()).or_default().add(captured, i, fates.each[i].as_ref());
        }
        let culprit = incident.cause.culprit();
        this.others = groups.iter().filter(|(group, _)| Some(*group) != culprit).map(|(_, count)| count.hurt()).sum();
        this.victim = groups.remove(&incident.victim).unwrap_or_default();
        this
    }
}

/// Says which policies help: those under which a fifth fewer requests are hurt, of those that are not the cause. Of policies that help
/// about as much, the best one costs the cause least.
fn judge(rows: &mut [Replayed], cause: &Cause) -> Option<usize> {
    /// Fewer requests are no difference.
    const LEAST: u64 = 5;
    let before = rows[1].others;
    let gain = |row: &Replayed| before.saturating_sub(row.others);
    let mut most = 0;
    for row in rows.iter_mut().skip(2) {
        let gain = gain(row);
        row.helps = gain >= LEAST.max(before / 5) && cause.can_be_helped_by(row.kind);
        most = if row.helps { most.max(gain) } else { most };
    }
    let helpful = rows.iter().enumerate().filter(|(_, row)| row.helps && gain(row) * 10 >= most * 9);
    helpful.min_by_key(|(_, row)| row.all.hurt()).map(|(place, _)| place)
}
