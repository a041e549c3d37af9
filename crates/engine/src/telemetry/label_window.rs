//! What became of the requests of each label in the last seconds, and which label is rejected most, holds most slots, and waits most.
//!
//! There may be millions of labels. Nothing is counted for this: a sweep goes round the totals that exist anyway, a part of
//! them each second, and notes each label twice. Of a label, what happened since the note before the last is known: in the
//! last 5 to 10 seconds for up to twenty thousand labels, and over a longer time for more. A label that the last round did not meet has
//! had all of its requests since then.

use std::time::Duration;

use super::{
    followed::REJECTION,
    recent::{FEW, Held, RejectionKind},
    totals::{Scored, Totals},
};
use crate::{Timestamp, ids::LabelId};

/// Seconds that one round takes, and most labels that are noted in one second, under the lock.
const ROUND: usize = 5;
const SECONDS: Duration = Duration::from_secs(ROUND as u64);
const MOST: usize = 4_096;

/// Labels of a second that a history may begin to follow.
const BUSIEST: usize = 4;

/// The last two notes of a label, the older one first.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Lower half of the entry of the journal from which on the label has its name: another label has other notes.
    named_from: u32,
    notes: [Note; 2],
}

/// The totals of a label at one moment. Small, for there may be many: what wraps around is only compared.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    /// Units of 2^20 ns; 0 for no note.
    at: u32,
    running: u32,
    admitted: u32,
    left: u32,
    rejected: [u32; 3],
}

/// What became of the requests of a label in the last seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabelWindow {
    pub(crate) seconds: f64,
    pub(crate) admitted: u64,
    /// Rejections in the order of [`RejectionKind::ALL`].
    rejected: [u64; 3],
    /// Requests that had no answer in time.
    pub(crate) left: u64,
    pub(crate) held: Held,
}

/// What a label may have most of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Most {
    Rejected,
    Left,
    Held,
    /// Slots that are held by requests which don't end.
    Stuck,
    Waiting,
}

impl Most {
    const ALL: [Self; 5] = [Self::Rejected, Self::Left, Self::Held, Self::Stuck, Self::Waiting];
}

/// What is seen of a label at one moment, besides counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LabelGauges {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    /// Time for which its requests usually hold a slot.
    pub(crate) hold: Duration,
}

impl LabelWindow {
    /// Returns the requests per second. A rejection counts as several, and so do a caller that leaves and a slot that is held.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(super) fn score(&self) -> f64 {
        let others = self.per_second(self.rejected() + self.left) + self.held.slots as f64;
        self.per_second(self.admitted) + REJECTION * others
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Returns the part of the requests that had no answer in time, where these are enough to say something.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn part_left(&self) -> f64 {
        if self.left < FEW { 0.0 } else { self.left as f64 / self.admitted.max(self.left) as f64 }
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
    /// The labels with most of each, in this round so far and in the last one.
    leading: [Leaders<2>; Most::ALL.len()],
    found: [Leaders<2>; Most::ALL.len()],
    /// The labels with the most requests among those that were noted last.
    pub(super) busiest: Leaders<BUSIEST>,
}

/// The labels with most of something, the first one first; of equal ones, that which was met first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaders<const N: usize>([Option<Scored>; N]);

impl<const N: usize> Default for Leaders<N> {
    fn default() -> Self {
        Self([None; N])
    }
}

impl<const N: usize> Leaders<N> {
    /// Puts a label in its place, unless it has a better one or others have more.
    fn insert(&mut self, it: Scored) {
        // What stands there leaves: the label itself, or the last one.
        let leaves = self.0.iter().position(|known| known.is_some_and(|known| known.label == it.label));
        let until = &mut self.0[..=leaves.unwrap_or(N - 1)];
        let place = until.iter().position(|known| known.is_none_or(|known| known.score < it.score));
        if let Some(place) = place.filter(|_| it.score > 0.0) {
            until[place..].rotate_right(1);
            until[place] = Some(it);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Scored> {
        self.0.iter().flatten().copied()
    }
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
    /// Notes the totals, one `round` after the last note.
    fn note(&mut self, now: Timestamp, round: Duration, totals: &Totals, running: usize) {
        let mut before = self.notes[1];
        if self.named_from != low(totals.named_from) || before.at == 0 {
            // Not there at the last note, so that all was counted since.
            self.named_from = low(totals.named_from);
            before = Note { at: coarse(now.before(round)), ..Note::default() };
        }
        let note = Note {
            at: coarse(now),
            running: u32::try_from(running).unwrap_or(u32::MAX),
            admitted: low(totals.admitted),
            left: low(totals.left),
            rejected: totals.rejected.map(low),
        };
        self.notes = [before, note];
    }

    /// Returns what has happened since the older note.
    fn since(&self, now: Timestamp, totals: &Totals, running: usize) -> Option<LabelWindow> {
        let before = &self.notes[0];
        if self.named_from != low(totals.named_from) || before.at == 0 {
            return None;
        }
        let units = coarse(now).wrapping_sub(before.at);
        let rejected = std::array::from_fn(|it| low(totals.rejected[it]).wrapping_sub(before.rejected[it]).into());
        // A slot that was given back untouched is taken back from the count.
        let admitted = low(totals.admitted).wrapping_sub(before.admitted).cast_signed().max(0);
        let admitted = u64::from(admitted.unsigned_abs());
        let seconds = f64::from(units) * f64::from(1 << 20) / 1e9;
        let left = u64::from(low(totals.left).wrapping_sub(before.left));
        let held = Held::between([(before.running as usize, 0), (running, admitted)], seconds);
        Some(LabelWindow { seconds, admitted, rejected, left, held })
    }
}

impl WindowsByLabel {
    /// Notes the next part of all labels. Once a second is enough.
    pub(super) fn note(&mut self, now: Timestamp, totals: &[Totals], gauges: impl Fn(LabelId) -> LabelGauges) {
        self.marks.resize(totals.len(), Mark::default());
        let count = totals.len().div_ceil(ROUND).min(MOST);
        self.busiest = Leaders::default();
        for _ in 0..count {
            if self.next >= totals.len() {
                (self.next, self.found) = (0, std::mem::take(&mut self.leading));
                self.took = Some(now.since(self.began));
                self.began = now;
            }
            let round = self.took.unwrap_or(SECONDS);
            #[expect(clippy::cast_possible_truncation, reason = "labels have numbers of 32 bits")]
            let label = LabelId::from_index(self.next as u32);
            let LabelGauges { running, waiting, hold } = gauges(label);
            let (totals, mark) = (&totals[self.next], &mut self.marks[self.next]);
            mark.note(now, round, totals, running);
            let window = mark.since(now, totals, running);
            self.next += 1;
            // Requests without a label have no name to tell.
            let Some(window) = window.filter(|_| label != LabelId::DEFAULT) else { continue };
            let named_from = totals.named_from;
            for (most, leading) in Most::ALL.into_iter().zip(&mut self.leading) {
                let value = match most {
                    Most::Rejected => window.per_second(window.rejected()),
                    Most::Left => window.per_second(window.left),
                    Most::Held => running as f64,
                    Most::Stuck if window.held.is_stuck(hold) => running as f64,
                    Most::Stuck => 0.0,
                    Most::Waiting => waiting as f64,
                };
                leading.insert(Scored { label, named_from, score: value });
            }
            self.busiest.insert(Scored { label, named_from, score: window.score() });
        }
    }

    /// Returns what became of the requests of a label, if it was noted, given how many of them run.
    pub(super) fn of(&self, now: Timestamp, label: LabelId, totals: &Totals, running: usize) -> Option<LabelWindow> {
        self.marks.get(label.index() as usize)?.since(now, totals, running)
    }

    /// Returns the score of a label, given its totals: that of the slots which it held when it was noted last.
    pub(super) fn score(&self, now: Timestamp, label: LabelId, totals: &Totals) -> Option<f64> {
        let mark = self.marks.get(label.index() as usize)?;
        Some(mark.since(now, totals, mark.notes[1].running as usize)?.score())
    }

    /// Returns the two labels that have most of this, unless other labels have their numbers by now.
    pub(super) fn most(&self, most: Most, totals: &[Totals]) -> impl Iterator<Item = LabelId> {
        let mut both = Leaders::<2>::default();
        let found = [self.found, self.leading].map(|it| it[most as usize].0);
        found.into_iter().flatten().flatten().filter(|it| it.totals(totals).is_some()).for_each(|it| both.insert(it));
        both.0.into_iter().flatten().map(|it| it.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::at_second as at;

    const NONE: fn(LabelId) -> LabelGauges = |_| LabelGauges { running: 0, waiting: 0, hold: Duration::ZERO };

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
            windows.note(at(second), &totals, NONE);
            if second >= 11 {
                let found = windows.of(at(second), label(700), &totals[700], 0).unwrap();
                assert!((4.9..=10.1).contains(&found.seconds), "{found:?}");
                let [rejected, admitted] = [found.rejected(), found.admitted].map(|it| found.per_second(it));
                assert!((rejected - 30.0).abs() < 1.0 && (admitted - 10.0).abs() < 1.0, "{found:?}");
                assert_eq!(found.mostly_rejected(), Some(RejectionKind::Throttled));
                assert_eq!(windows.of(at(second), label(3), &totals[3], 0).unwrap().mostly_rejected(), None);
                assert_eq!(
                    windows.most(Most::Rejected, &totals).next(),
                    Some(label(700)),
                    "requests without a label are none"
                );
            }
        }
        for second in 60..80 {
            windows.note(at(second), &totals, NONE);
        }
        assert_eq!(windows.most(Most::Rejected, &totals).next(), None, "it is over");
    }

    #[test]
    fn leaders_are_different_labels_and_the_first_of_equal_ones_stays() {
        let mut leaders = Leaders::<2>::default();
        for (name, score, expected) in [
            (1, 0.0, vec![]),
            (1, 5.0, vec![1]),
            (2, 5.0, vec![1, 2]),
            (3, 5.0, vec![1, 2]),
            (2, 7.0, vec![2, 1]),
            (2, 6.0, vec![2, 1]),
            (3, 6.0, vec![2, 3]),
            (3, 6.5, vec![2, 3]),
            (4, 9.0, vec![4, 2]),
        ] {
            leaders.insert(Scored { label: label(name), named_from: 0, score });
            assert_eq!(leaders.iter().map(|it| it.label.index()).collect::<Vec<_>>(), expected, "{name} with {score}");
        }
    }

    #[test]
    fn another_label_of_the_same_number_begins_anew() {
        let mut totals = vec![Totals::default(); 2];
        let mut windows = WindowsByLabel::default();
        for second in 0..20 {
            totals[1].rejected[0] += 9;
            windows.note(at(second), &totals, NONE);
        }
        assert_eq!(windows.most(Most::Rejected, &totals).next(), Some(label(1)), "control");
        totals[1] = Totals { named_from: 77, ..Totals::default() };
        assert_eq!(
            (windows.of(at(20), label(1), &totals[1], 0), windows.most(Most::Rejected, &totals).next()),
            (None, None)
        );
        windows.note(at(20), &totals, NONE);
        windows.note(at(21), &totals, NONE);
        let found = windows.of(at(22), label(1), &totals[1], 0).unwrap();
        assert_eq!((found.rejected(), found.admitted), (0, 0), "{found:?}");
    }

    /// With the first note as the only thing to compare with, this label was never rejected.
    #[test]
    fn a_new_label_has_had_all_of_its_requests_since_the_last_round() {
        let mut totals = vec![Totals::default(); 5];
        let mut windows = WindowsByLabel::default();
        for second in 0..20 {
            windows.note(at(second), &totals, NONE);
        }
        totals[3] = Totals { named_from: 9, admitted: 10, rejected: [40, 0, 0], ..Totals::default() };
        for second in 20..25 {
            windows.note(at(second), &totals, NONE);
        }
        let found = windows.of(at(25), label(3), &totals[3], 0).unwrap();
        assert_eq!((found.rejected(), found.admitted), (40, 10));
        assert!((5.0..=10.0).contains(&found.seconds), "{found:?}");
        assert_eq!(windows.most(Most::Rejected, &totals).next(), Some(label(3)));
    }

    #[test]
    fn a_second_costs_no_more_than_some_thousand_labels_however_many_there_are() {
        let totals = vec![Totals::default(); 100_000];
        let mut windows = WindowsByLabel::default();
        windows.note(at(0), &totals, NONE);
        assert_eq!(windows.next, MOST);
    }
}
