//! The few labels whose rejections are counted by reason and rule: those with the most requests, where a rejection, a caller that leaves and
//! a slot that is held count as ten.
//!
//! Strangers invent labels, so the places are few, and a label takes the place of another label seldom: the names in a history
//! stay bounded, whatever labels are invented.

use std::time::Duration;

use super::totals::Scored;
use crate::Timestamp;

/// Labels that are followed at the same time.
pub(super) const PLACES: usize = 16;
/// A place changes hands at most this often, after all places changed hands once.
const REFILL: Duration = Duration::from_secs(10);
/// Part of its score that a followed label keeps after a second without requests: half of it after 23 seconds.
const KEEPS: f64 = 0.97;
/// What a rejection, a caller that leaves and a slot weigh, next to a request that was admitted.
pub(super) const REJECTION: f64 = 10.0;

/// A label that is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FollowedLabel {
    pub(crate) it: Scored,
    /// Number of the time that it took a place, from 1 on: it tells its counts from those of another label that has its place later,
    /// and of a later time.
    pub(crate) serial: u64,
}

/// The labels that are followed, by place.
#[derive(Debug)]
pub(super) struct Followed {
    places: [Option<FollowedLabel>; PLACES],
    /// Places that may change hands now.
    changes: usize,
    refilled: Timestamp,
    /// How often a place was taken.
    taken: u64,
}

impl Default for Followed {
    fn default() -> Self {
        Self { places: [None; PLACES], changes: PLACES, refilled: Timestamp::ZERO, taken: 0 }
    }
}

impl Followed {
    /// Returns the followed labels, with the row of each: 0 is for all other labels.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, FollowedLabel)> {
        (1..).zip(self.places).filter_map(|(row, place)| Some((row, place?)))
    }

    /// Scores the followed labels anew: `score` is that of the last seconds, and `None` for a label that is gone.
    pub(super) fn score(&mut self, score: impl Fn(&Scored) -> Option<f64>) {
        for place in &mut self.places {
            let Some(known) = place else { continue };
            match score(&known.it) {
                Some(score) => known.it.score = score.max(known.it.score * KEEPS),
                None => *place = None,
            }
        }
    }

    /// Follows a label, if a place is free or another label has far fewer requests. Returns the row, and the label that had it.
    pub(super) fn offer(&mut self, now: Timestamp, it: Scored) -> Option<(u8, Option<Scored>)> {
        if self.places.iter().flatten().any(|known| known.it.label == it.label) {
            return None;
        }
        let refills = now.nanos_since(self.refilled) / crate::nanos(REFILL);
        if refills > 0 {
            self.refilled = now;
            self.changes = self.changes.saturating_add(usize::try_from(refills).unwrap_or(PLACES)).min(PLACES);
        }
        let score = |place: &Option<FollowedLabel>| place.map_or(f64::NEG_INFINITY, |known| known.it.score);
        let least = (1..).zip(&mut self.places).min_by(|(_, a), (_, b)| score(a).total_cmp(&score(b)));
        let (row, place) = least.filter(|(_, place)| self.changes > 0 && it.score > score(place) * 1.5)?;
        self.changes -= 1;
        self.taken += 1;
        let before = place.replace(FollowedLabel { it, serial: self.taken });
        Some((row, before.map(|before| before.it)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LabelId;

    fn candidate(label: u32, score: f64) -> Scored {
        Scored { label: LabelId::from_index(label), named_from: 0, score }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_busiest_labels_have_the_places_and_equal_ones_do_not_change() {
        let mut followed = Followed::default();
        for label in 2..40 {
            let row = followed.offer(at(1), candidate(label, 10.0)).map(|(row, _)| row);
            assert_eq!(row, (label < 18).then(|| u8::try_from(label - 1).unwrap()), "the first ones stay");
        }
        let (row, before) = followed.offer(at(11), candidate(50, 1_000.0)).unwrap();
        assert_eq!((row, before.unwrap().label.index()), (1, 2));
        assert_eq!(followed.offer(at(12), candidate(50, 1_000.0)), None, "it has a place already");
        assert_eq!(followed.iter().count(), PLACES);
    }

    /// An hour in which each second brings a label with more requests than all before.
    #[test]
    fn strangers_change_the_places_no_more_than_once_in_ten_seconds() {
        let mut followed = Followed::default();
        let took = (0..3_600u32).filter(|&second| {
            followed.score(|it| Some(it.score));
            followed.offer(at(second.into()), candidate(2 + second, 1.15f64.powf(second.into()))).is_some()
        });
        let took = took.count();
        assert!((300..=16 + 360).contains(&took), "{took} of 3600");
    }

    #[test]
    fn a_label_that_is_gone_or_quiet_leaves_its_place() {
        let mut followed = Followed::default();
        (2..18).for_each(|label| _ = followed.offer(at(1), candidate(label, 100.0)));
        assert_eq!(followed.offer(at(20), candidate(40, 20.0)), None, "control: they are busier");
        followed.score(|it| (it.label.index() != 5).then_some(100.0));
        let (row, before) = followed.offer(at(20), candidate(40, 20.0)).unwrap();
        assert_eq!((row, before), (4, None));
        (0..90).for_each(|_| followed.score(|_| Some(0.0)));
        assert!(followed.offer(at(40), candidate(41, 20.0)).is_some(), "they have become quiet");
    }
}
