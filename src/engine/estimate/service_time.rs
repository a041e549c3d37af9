//! How long work takes, by its kind: a waiter with less time left than that gets no slot.

use std::time::Duration;

use crate::{
    engine::ids::ClassId,
    time::{Timestamp, nanos},
};

/// Fewer answers than this say nothing.
const FEWEST: u32 = 16;

/// For each kind of work a running mean and the mean distance from it, as TCP estimates round-trip times (RFC 6298).
#[derive(Debug, Default)]
pub(crate) struct ServiceTime {
    kinds: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    mean: u64,
    distance: u64,
    answers: u32,
    /// When the newest request started that was answered.
    newest: Timestamp,
}

impl ServiceTime {
    /// Takes the round-trip time of an answer to a request that started at this time.
    pub(crate) fn answered(&mut self, class: ClassId, start: Timestamp, rtt: Duration) {
        let class = class.index();
        if self.kinds.len() <= class {
            self.kinds.resize(class + 1, Kind::default());
        }
        let (kind, rtt) = (&mut self.kinds[class], nanos(rtt));
        if kind.answers == 0 {
            (kind.mean, kind.distance) = (rtt, 0);
        }
        let distance = kind.mean.abs_diff(rtt);
        kind.distance = kind.distance - kind.distance / 16 + distance / 16;
        kind.mean = (kind.mean - kind.mean / 16).saturating_add(rtt / 16);
        kind.answers = kind.answers.saturating_add(1);
        kind.newest = kind.newest.max(start);
    }

    /// Returns how long such work takes nearly always: the mean and four times the distance from it, as TCP waits for
    /// an answer.
    pub(crate) fn likely(&self, class: ClassId) -> Option<Duration> {
        let kind = self.kinds.get(class.index()).filter(|kind| kind.answers >= FEWEST)?;
        Some(Duration::from_nanos(kind.mean.saturating_add(kind.distance.saturating_mul(4))))
    }

    /// Whether a request of this kind was answered that started later than at this time.
    pub(crate) fn has_answered_later(&self, class: ClassId, start: Timestamp) -> bool {
        self.kinds.get(class.index()).is_some_and(|kind| kind.newest > start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_spread_is_covered_and_few_answers_say_nothing() {
        let (mut work, class) = (ServiceTime::default(), ClassId::from_index);
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        for i in 0..1_000_u64 {
            assert_eq!(work.likely(class(3)).is_some(), i >= u64::from(FEWEST));
            work.answered(class(3), at(i), Duration::from_millis(1_000 + i * 617 % 1_000));
        }
        assert!(work.has_answered_later(class(3), at(998)) && !work.has_answered_later(class(3), at(999)));
        assert!(!work.has_answered_later(class(0), at(0)) && !work.has_answered_later(class(9), at(0)));
        let likely = work.likely(class(3)).unwrap();
        assert!((2_300..2_900).contains(&likely.as_millis()), "{likely:?}");
        assert_eq!((work.likely(class(0)), work.likely(class(9))), (None, None));
        work.answered(class(0), at(0), Duration::MAX);
        work.answered(class(0), at(0), Duration::ZERO);
    }
}
