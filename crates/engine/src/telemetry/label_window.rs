//! What became of the requests of each label in the last seconds, and which label is rejected most.
//!
//! There may be millions of labels. Nothing is counted for this: a sweep goes round the totals that exist anyway, a part of
//! them each second, and notes each label twice. Of a label, what happened since the note before the last is known: in the
//! last 5 to 10 seconds for up to twenty thousand labels, and over a longer time for more. A label that the last round did not meet has
//! had all of its requests since then.

use std::time::Duration;

use super::followed::{Candidate, REJECTION};
use super::{recent::RejectionKind, totals::Totals};
use crate::{Timestamp, ids::LabelId};

/// Seconds that one round takes, and most labels that are noted in one second, under the lock.
const ROUND: usize = 5;
const SECONDS: Duration = Duration::from_secs(ROUND as u64);
const MOST: usize = 4_096;

/// Labels of a second that a history may begin to follow.
const BUSIEST: usize = 4;

/// The totals of a label at the last two notes. Small, for there may be many: what wraps around is only compared.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Lower half of the entry of the journal from which on the label has its name: another label has other notes.
    named_from: u32,
    /// Units of 2^20 ns; 0 for no note.
    at: [u32; 2],
    admitted: [u32; 2],
    rejected: [[u32; 3]; 2],
}

/// What became of the requests of a label in the last seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabelWindow {
    pub(crate) seconds: f64,
    pub(crate) admitted: u64,
    /// Rejections in the order of [`RejectionKind::ALL`].
    rejected: [u64; 3],
}

impl LabelWindow {
    /// Returns the requests per second, a rejection counting as several.
    pub(super) fn score(&self) -> f64 {
        self.per_second(self.admitted) + REJECTION * self.per_second(self.rejected())
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Returns what most rejections stand for, if more requests were rejected than admitted.
    pub(crate) fn mostly_rejected(&self) -> Option<RejectionKind> {
        RejectionKind::mostly(self.rejected, self.admitted)
    }

    /// Returns a count as a rate per second.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }
}

/// The notes of all labels.
#[derive(Debug, Default)]
pub(super) struct WindowsByLabel {
    marks: Vec<Mark>,
    /// Label that is noted next.
    next: usize,
    /// When this round began, and how long the last one took, if there was any.
    began: Timestamp,
    took: Option<Duration>,
    /// The label that was rejected most per second, in this round so far and in the last one.
    leading: Option<Leader>,
    worst: Option<Leader>,
    /// The labels with the most requests among those that were noted last.
    busiest: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Leader {
    label: LabelId,
    named_from: u64,
    per_second: f64,
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted; 0 is kept for no note")]
fn coarse(at: Timestamp) -> u32 {
    ((at.as_nanos() >> 20) as u32).max(1)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower halves are compared")]
fn low(count: u64) -> u32 {
    count as u32
}

impl Mark {
    fn of(totals: &Totals) -> Self {
        Self { named_from: low(totals.named_from), ..Self::default() }
    }

    /// Notes the totals, one `round` after the last note.
    fn note(&mut self, now: Timestamp, round: Duration, totals: &Totals) {
        if self.named_from != low(totals.named_from) || self.at[1] == 0 {
            // Not there at the last note, so that all was counted since.
            *self = Self { at: [0, coarse(now.before(round))], ..Self::of(totals) };
        }
        self.at = [self.at[1], coarse(now)];
        self.admitted = [self.admitted[1], low(totals.admitted)];
        self.rejected = [self.rejected[1], totals.rejected.map(low)];
    }

    /// Returns what has happened since the older note.
    fn since(&self, now: Timestamp, totals: &Totals) -> Option<LabelWindow> {
        if self.named_from != low(totals.named_from) || self.at[0] == 0 {
            return None;
        }
        let units = coarse(now).wrapping_sub(self.at[0]);
        let rejected: [u64; 3] =
            std::array::from_fn(|it| u64::from(low(totals.rejected[it]).wrapping_sub(self.rejected[0][it])));
        // A slot that was given back untouched is taken back from the count.
        let admitted = low(totals.admitted).wrapping_sub(self.admitted[0]).cast_signed().max(0);
        let seconds = f64::from(units) * f64::from(1 << 20) / 1e9;
        Some(LabelWindow { seconds, admitted: u64::from(admitted.unsigned_abs()), rejected })
    }
}

impl WindowsByLabel {
    /// Notes the next part of all labels. Once a second is enough.
    pub(super) fn note(&mut self, now: Timestamp, totals: &[Totals]) {
        self.marks.resize(totals.len(), Mark::default());
        let count = totals.len().div_ceil(ROUND).min(MOST);
        self.busiest.clear();
        for _ in 0..count {
            if self.next >= totals.len() {
                (self.next, self.worst) = (0, self.leading.take());
                self.took = Some(now.since(self.began));
                self.began = now;
            }
            let round = self.took.unwrap_or(SECONDS);
            let (totals, mark) = (&totals[self.next], &mut self.marks[self.next]);
            mark.note(now, round, totals);
            let windows = mark.since(now, totals);
            let rejected = windows.map_or(0.0, |it| it.per_second(it.rejected()));
            // Requests without a label have no name to tell.
            if self.next > 0 && rejected > self.leading.map_or(0.0, |it| it.per_second) {
                #[expect(clippy::cast_possible_truncation, reason = "labels have numbers of 32 bits")]
                let label = LabelId::from_index(self.next as u32);
                self.leading = Some(Leader { label, named_from: totals.named_from, per_second: rejected });
            }
            if self.next > 0
                && let Some(windows) = windows
            {
                #[expect(clippy::cast_possible_truncation, reason = "labels have numbers of 32 bits")]
                let label = LabelId::from_index(self.next as u32);
                let candidate = Candidate { label, named_from: totals.named_from, score: windows.score(), serial: 0 };
                self.consider(candidate);
            }
            self.next += 1;
        }
    }

    /// Keeps a label if it is among the busiest ones of this second.
    fn consider(&mut self, it: Candidate) {
        let place = self.busiest.partition_point(|other| other.score >= it.score);
        if it.score > 0.0 && place < BUSIEST {
            self.busiest.truncate(BUSIEST - 1);
            self.busiest.insert(place, it);
        }
    }

    /// Returns the labels with the most requests among those that were noted last, the busiest first.
    pub(super) fn busiest(&self) -> &[Candidate] {
        &self.busiest
    }

    /// Returns what became of the requests of a label, if it was noted.
    pub(super) fn of(&self, now: Timestamp, label: LabelId, totals: &Totals) -> Option<LabelWindow> {
        self.marks.get(label.index() as usize)?.since(now, totals)
    }

    /// Returns the label that was rejected most, unless another label has its number by now.
    pub(super) fn worst(&self, totals: &[Totals]) -> Option<LabelId> {
        let found = [self.worst, self.leading].into_iter().flatten();
        let known =
            found.filter(|it| totals.get(it.label.index() as usize).is_some_and(|t| t.named_from == it.named_from));
        known.max_by(|a, b| a.per_second.total_cmp(&b.per_second)).map(|it| it.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(1_000 + seconds))
    }

    fn label(index: usize) -> LabelId {
        LabelId::from_index(u32::try_from(index).unwrap())
    }

    #[test]
    fn each_label_is_known_for_five_to_ten_seconds_and_the_worst_is_found() {
        let mut totals = vec![Totals::default(); 1_000];
        let mut windows = WindowsByLabel::default();
        for second in 0..60 {
            totals[0].rejected[0] += 1_000;
            totals[700].rejected[1] += 30;
            totals[700].admitted += 10;
            totals[3].rejected[0] += 2;
            totals[3].admitted += 50;
            windows.note(at(second), &totals);
            if second >= 11 {
                let found = windows.of(at(second), label(700), &totals[700]).unwrap();
                assert!((4.9..=10.1).contains(&found.seconds), "{found:?}");
                let [rejected, admitted] = [found.rejected(), found.admitted].map(|it| found.per_second(it));
                assert!((rejected - 30.0).abs() < 1.0 && (admitted - 10.0).abs() < 1.0, "{found:?}");
                assert_eq!(found.mostly_rejected(), Some(RejectionKind::Throttled));
                assert_eq!(windows.of(at(second), label(3), &totals[3]).unwrap().mostly_rejected(), None);
                assert_eq!(windows.worst(&totals), Some(label(700)), "requests without a label are none");
            }
        }
        for second in 60..80 {
            windows.note(at(second), &totals);
        }
        assert_eq!(windows.worst(&totals), None, "it is over");
    }

    #[test]
    fn another_label_of_the_same_number_begins_anew() {
        let mut totals = vec![Totals::default(); 2];
        let mut windows = WindowsByLabel::default();
        for second in 0..20 {
            totals[1].rejected[0] += 9;
            windows.note(at(second), &totals);
        }
        assert_eq!(windows.worst(&totals), Some(label(1)), "control");
        totals[1] = Totals { named_from: 77, ..Totals::default() };
        assert_eq!((windows.of(at(20), label(1), &totals[1]), windows.worst(&totals)), (None, None));
        windows.note(at(20), &totals);
        windows.note(at(21), &totals);
        let found = windows.of(at(22), label(1), &totals[1]).unwrap();
        assert_eq!((found.rejected(), found.admitted), (0, 0), "{found:?}");
    }

    /// With the first note as the only thing to compare with, this label was never rejected.
    #[test]
    fn a_new_label_has_had_all_of_its_requests_since_the_last_round() {
        let mut totals = vec![Totals::default(); 5];
        let mut windows = WindowsByLabel::default();
        for second in 0..20 {
            windows.note(at(second), &totals);
        }
        totals[3] = Totals { named_from: 9, admitted: 10, rejected: [40, 0, 0], ..Totals::default() };
        for second in 20..25 {
            windows.note(at(second), &totals);
        }
        let found = windows.of(at(25), label(3), &totals[3]).unwrap();
        assert_eq!((found.rejected(), found.admitted), (40, 10));
        assert!((5.0..=10.0).contains(&found.seconds), "{found:?}");
        assert_eq!(windows.worst(&totals), Some(label(3)));
    }

    #[test]
    fn a_second_costs_no_more_than_some_thousand_labels_however_many_there_are() {
        let totals = vec![Totals::default(); 100_000];
        let mut windows = WindowsByLabel::default();
        windows.note(at(0), &totals);
        assert_eq!(windows.next, MOST);
    }
}
