//! How long work takes, by its kind: a waiter with less time left than that gets no slot.

use std::time::Duration;

use crate::words::nanos;

/// Fewer answers than this say nothing.
const FEWEST: u32 = 16;

/// A running mean and the mean distance from it, as TCP estimates round-trip times (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    mean: u64,
    distance: u64,
    answers: u32,
}

impl Usual {
    /// Takes the round-trip time of an answer.
    #[inline]
    pub(super) fn answered(&mut self, rtt: Duration) {
        let rtt = nanos(rtt);
        if self.answers == 0 {
            (self.mean, self.distance) = (rtt, 0);
        }
        let distance = self.mean.abs_diff(rtt);
        self.distance = self.distance - self.distance / 16 + distance / 16;
        self.mean = (self.mean - self.mean / 16).saturating_add(rtt / 16);
        self.answers = self.answers.saturating_add(1);
    }

    /// Returns the mean and four times the distance from it, as TCP waits for an answer, if enough answers came.
    pub(super) fn likely(&self) -> Option<Duration> {
        let likely = self.mean.saturating_add(self.distance.saturating_mul(4));
        (self.answers >= FEWEST).then_some(Duration::from_nanos(likely))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Estimates, *};
    use crate::{
        Timestamp,
        ids::{ClassId, PartitionId},
    };

    #[test]
    fn an_even_spread_is_covered_and_few_answers_say_nothing() {
        let (mut work, class) = (Estimates::default(), ClassId::from_index);
        let answered = |work: &mut Estimates, class, rtt| {
            work.answered((class, PartitionId::DEFAULT), Timestamp::ZERO, rtt, true);
        };
        for i in 0..1_000_u64 {
            assert_eq!(work.likely(class(3)).is_some(), i >= u64::from(FEWEST));
            answered(&mut work, class(3), Duration::from_millis(1_000 + i * 617 % 1_000));
        }
        let likely = work.likely(class(3)).unwrap();
        assert!((2_300..2_900).contains(&likely.as_millis()), "{likely:?}");
        assert_eq!((work.likely(class(0)), work.likely(class(9))), (None, None));
        answered(&mut work, class(0), Duration::MAX);
        answered(&mut work, class(0), Duration::ZERO);
    }
}
