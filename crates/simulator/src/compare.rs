//! What became of the requests of a capture under several policies, by partition and label.

use std::collections::BTreeMap;

use super::{
    captured::{Captured, Group},
    what_if::{Fate, Fates},
};

/// What became of the requests of a group, under one policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    pub offered: u64,
    pub served: u64,
    /// Served, and answered after their deadlines.
    pub late: u64,
    pub refused: BTreeMap<String, u64>,
    /// Requests whose clients left while they waited.
    pub left: u64,
    /// Requests that waited yet when the capture ended.
    pub undecided: u64,
    /// Requests that are served and were not when they were recorded, and the other way round.
    pub gained: u64,
    pub lost: u64,
}

impl Tally {
    pub fn all_refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether too many requests fare otherwise than recorded for a replay, and how many: more than one in ten, and than a handful.
    pub fn departs(&self) -> Option<u64> {
        Some(self.gained + self.lost).filter(|&others| others > 5 && others > self.offered / 10)
    }

    fn count(&mut self, then: Option<&Fate>, now: Option<&Fate>) {
        self.offered += 1;
        match now {
            Some(Fate::Served { is_late, .. }) => {
                self.served += 1;
                self.late += u64::from(*is_late);
            }
            Some(Fate::Refused(reason)) => *self.refused.entry(reason.clone()).or_default() += 1,
            Some(Fate::Left) => self.left += 1,
            None => self.undecided += 1,
        }
        let is_served = |fate| matches!(fate, Some(&Fate::Served { .. }));
        self.gained += u64::from(is_served(now) && !is_served(then));
        self.lost += u64::from(is_served(then) && !is_served(now));
    }
}

/// Counts the requests of each group: a tally for what was recorded, and for each policy. The group that offered the most
/// comes first.
pub fn compare(captured: &Captured, then: &Fates, now: &[Fates]) -> Vec<(Group, Vec<Tally>)> {
    let mut groups: BTreeMap<Group, Vec<Tally>> = BTreeMap::new();
    for (i, request) in captured.requests.iter().enumerate().filter(|(_, request)| !request.is_present) {
        let tallies = groups.entry(request.group()).or_insert_with(|| vec![Tally::default(); now.len() + 1]);
        for (tally, fates) in tallies.iter_mut().zip(std::iter::once(then).chain(now)) {
            tally.count(then.each[i].as_ref(), fates.each[i].as_ref());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, tallies)| std::cmp::Reverse(tallies[0].offered));
    groups
}

/// Adds up what became of several groups.
pub fn sum<'a>(groups: impl IntoIterator<Item = &'a Vec<Tally>>) -> Vec<Tally> {
    let mut all: Vec<Tally> = Vec::new();
    for tallies in groups {
        all.resize(tallies.len().max(all.len()), Tally::default());
        for (all, it) in all.iter_mut().zip(tallies) {
            all.offered += it.offered;
            all.served += it.served;
            all.late += it.late;
            all.left += it.left;
            all.undecided += it.undecided;
            all.gained += it.gained;
            all.lost += it.lost;
            it.refused.iter().for_each(|(reason, count)| *all.refused.entry(reason.clone()).or_default() += count);
        }
    }
    all
}
