//! Rests: while no request meets the limit, two cohorts a second are enough.
//!
//! A cohort of a busy server takes some dozens of milliseconds, and says the same as the one before it. So after a lull the law rests until
//! half a second after the cohort was opened, and few requests are timed meanwhile. Its lower points are older by as much, which they may
//! be by seconds; and a limit that no request meets has nowhere to go. The first request that meets the limit, is refused or is an overload
//! ends the rest.
//!
//! The next cohort opens once each request is timed again. A request that was not timed started before: it is one of those that are older
//! than the cohort, and the sample after it says by its weight that it has left.

use std::time::Duration;

use super::{super::Sample, point::Point};
use crate::{Outcome, Timestamp};

/// From one cohort to the next.
const REST: Duration = Duration::from_millis(500);
/// Requests per second from which on there is anything to save.
const BUSY: f64 = 1_000.0;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rest {
    /// There is a cohort, or will be with the next sample.
    Over,
    /// Until then, unless the limit matters before.
    Until(Timestamp),
    /// Each request has to be timed since then. A cohort opens with the first one that came later.
    Ending(Timestamp),
}

impl Rest {
    /// The rest after a lull; over where there is nothing to save, or where the lull took its time.
    pub(super) fn after(lull: &Point) -> Self {
        let until = lull.at.after(REST.saturating_sub(lull.length));
        let is_busy = f64::from(lull.finished) >= BUSY * lull.length.as_secs_f64();
        if is_busy && until > lull.at { Self::Until(until) } else { Self::Over }
    }

    /// Takes a sample of the time when at most `limit` requests ran. Returns whether the rest is over.
    pub(super) fn ends_with(&mut self, sample: &Sample, limit: usize) -> bool {
        let is_scarce = || {
            let meets_limit = sample.in_flight.max(sample.running) >= limit;
            meets_limit || sample.refused || sample.outcome == Outcome::Overload
        };
        *self = match *self {
            Self::Until(until) if sample.end >= until => Self::Ending(sample.end),
            // However few are timed, a rest is over in time.
            Self::Ending(since) if sample.start >= since && (sample.weight <= 1 || sample.end >= since.after(REST)) => {
                Self::Over
            }
            // Where the limit binds, each request is timed.
            _ if is_scarce() => Self::Over,
            rest => rest,
        };
        *self == Self::Over
    }

    /// Whether some requests are timed rather than each.
    pub(super) const fn times_some(self) -> bool {
        matches!(self, Self::Until(_))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::limit::{LimitAlgorithm, TwoPoint};

    /// Requests that run one after the other in pairs, and take 100 us each, from `from` to `to` milliseconds.
    fn run(law: &mut TwoPoint, from: u64, to: u64, weight: u32) {
        for number in from * 10..to * 10 {
            let start = Timestamp::from_nanos(number * 100_000);
            let sample = Sample::new(start, Duration::from_micros(100), 2, Outcome::Success);
            law.on_sample(&Sample { weight, ..sample });
        }
    }

    fn at_rest() -> TwoPoint {
        let mut law = TwoPoint::new();
        run(&mut law, 0, 100, 1);
        assert!(matches!(law.rest, Rest::Until(_)) && law.cohort.is_none());
        law
    }

    #[test]
    fn a_busy_server_without_load_is_timed_in_part_between_cohorts_and_in_full_for_them() {
        let mut law = at_rest();
        assert_eq!(law.time_one_in(None).get(), 8);
        let asked = [1, 2, 64].map(|asked| law.time_one_in(NonZeroU32::new(asked)).get());
        assert_eq!(asked, [1, 2, 8], "as many as are asked for, and never fewer than the law needs");
        run(&mut law, 100, 501, 8);
        assert_eq!((law.time_one_in(None).get(), law.cohort.is_none()), (1, true), "no cohort before all are timed");
        run(&mut law, 501, 502, 8);
        assert!(law.cohort.is_none());
        let mut sampled = law.clone();
        run(&mut sampled, 502, 1_003, 8);
        assert!(!matches!(sampled.rest, Rest::Ending(_)), "a rest is over although few are timed");
        run(&mut law, 502, 503, 1);
        assert!(law.cohort.is_some());
        run(&mut law, 503, 600, 1);
        assert_eq!(law.time_one_in(None).get(), 8);
    }

    #[test]
    fn a_limit_that_binds_a_refusal_or_an_overload_ends_a_rest() {
        let sample = Sample::new(Timestamp::from_nanos(200_000_000), Duration::from_micros(100), 2, Outcome::Success);
        let met = Sample { in_flight: at_rest().limit(), ..sample.clone() };
        let refused = Sample { refused: true, ..sample.clone() };
        let overload = Sample { outcome: Outcome::Overload, ..sample.clone() };
        for (sample, ends) in [(met, true), (refused, true), (overload, true), (sample, false)] {
            let mut law = at_rest();
            law.on_sample(&sample);
            assert_eq!((law.cohort.is_some(), law.time_one_in(None).get() == 1), (ends, ends), "{sample:?}");
        }
    }

    #[test]
    fn a_slow_server_is_always_timed() {
        let mut law = TwoPoint::new();
        for number in 0..1_000 {
            let start = Timestamp::from_nanos(number * 2_000_000);
            law.on_sample(&Sample::new(start, Duration::from_micros(100), 2, Outcome::Success));
            assert_eq!(law.time_one_in(None).get(), 1);
        }
    }
}
