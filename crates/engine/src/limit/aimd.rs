//! AIMD: additive increase, multiplicative decrease, by a latency threshold.

use std::{num::NonZeroU32, time::Duration};

use super::{LimitAlgorithm, LimitInputs, LimitState, Number, Reference, Sample, range_problems};
use crate::{Outcome, Problem, nanos, short};

/// AIMD, additive increase, multiplicative decrease: the limit grows by one while answers come within the threshold,
/// and falls by a tenth when they don't.
///
/// Starts at 20, stays within 1 and 1,000, backs off to 0.9 unless told otherwise. Given to a builder it stands behind
/// the default [`Windowed`](super::Windowed).
///
/// # Formula
///
/// ```text
/// if timed_out or rtt > threshold:   limit = floor(limit * backoff)
/// else if in_flight * 2 >= limit:    limit = limit + 1
/// limit = clamp(limit, min, max)
/// ```
///
/// `in_flight` is the count when the request was admitted, itself included: a server that uses less than half of its
/// limit learns nothing about the other half, so the limit stays.
///
/// The form is that of Klaviyo's "Adaptive Concurrency Control for Mixed Analytical Workloads" (2023), after
/// `AIMDLimit` of Netflix's concurrency-limits. The law itself comes from D.-M. Chiu and R. Jain, "Analysis of the
/// Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks" (1989).
#[derive(Clone, Debug)]
pub struct Aimd {
    threshold: Duration,
    backoff: f64,
    min: usize,
    max: usize,
    stabilizing: bool,
    limit: usize,
    /// Round-trip time that was judged last.
    rtt: Option<Duration>,
    /// Requests in flight then.
    in_flight: usize,
}

impl Aimd {
    /// Answers that take longer than `threshold` mean that the server is too full.
    ///
    /// Half of what the callers wait for is a fair start: answers that take longer are about to be late. A threshold
    /// near the latency of an idle server takes every dependency that slows down for overload, and drives the limit to
    /// its minimum. Set [`max`](Self::max) as well, to what the slowest server that you prepare for can still answer in
    /// time.
    pub const fn new(threshold: Duration) -> Self {
        Self { threshold, backoff: 0.9, min: 1, max: 1_000, stabilizing: false, limit: 20, rtt: None, in_flight: 0 }
    }

    /// The limit to start from: 20 unless set; moved into the range of [`min`](Self::min) and [`max`](Self::max).
    #[must_use]
    pub const fn initial(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    plain_setters! {
        /// The limit never falls below this: 1 unless set.
        min: usize,
        /// The limit never rises above this: 1,000 unless set.
        max: usize,
        /// What the limit is multiplied with when answers are slow: 0.9 unless set, at least 0.5 and less than 1.
        backoff: f64,
        /// Whether a slow request that was admitted while more ran than the limit allows now is ignored: false unless set.
        ///
        /// Such a request was slow under the old limit, so it does not cut the new one again: the saw-tooth of the bare law
        /// becomes one cut. The rule is that of `StabilizingAIMDLimit` in Camunda's Zeebe. Behind a
        /// [`Windowed`](super::Windowed), which leaves such samples out by their start, it changes little.
        stabilizing: bool,
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the product of a limit and a ratio in [0.5, 1) is finite and in range"
    )]
    fn decrease(&mut self) {
        self.limit = (self.limit as f64 * self.backoff).floor() as usize;
    }

    pub(super) fn parameters(&self) -> Option<Vec<(&'static str, Number)>> {
        let (min, max) = (Number::Count(self.min), Number::Count(self.max));
        (!self.stabilizing).then(|| {
            let (threshold, initial) = (Number::Nanos(nanos(self.threshold)), Number::Count(self.limit));
            let backoff = Number::Real(self.backoff);
            vec![("threshold", threshold), ("initial", initial), ("min", min), ("max", max), ("backoff", backoff)]
        })
    }
}

impl LimitAlgorithm for Aimd {
    fn limit(&self) -> usize {
        // `max` before `min`: a range that `problems` refuses must not panic here either.
        self.limit.min(self.max).max(self.min)
    }

    fn max_limit(&self) -> usize {
        self.max
    }

    fn adopt(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// As many as are asked for: a step looks at one time, or at the mean of a window.
    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        asked.unwrap_or(NonZeroU32::MIN)
    }

    fn inputs(&self) -> LimitInputs {
        let known = self.rtt.map_or_else(LimitInputs::default, LimitInputs::of);
        known.compared_with(self.threshold)
    }

    fn state(&self) -> LimitState {
        let state = LimitState::new("aimd").within(self.min, self.max).against(Reference::Threshold);
        state.idle_if(self.in_flight.saturating_mul(2) < self.limit())
    }

    fn on_sample(&mut self, sample: &Sample) {
        (self.rtt, self.in_flight) = (sample.rtt, sample.in_flight);
        self.limit = self.limit();
        let slow = sample.rtt.is_some_and(|rtt| rtt > self.threshold);
        if slow || sample.outcome == Outcome::Overload {
            if !self.stabilizing || sample.in_flight <= self.limit {
                self.decrease();
            }
        } else if sample.outcome == Outcome::Success && sample.in_flight.saturating_mul(2) >= self.limit {
            self.limit += 1;
        }
        self.limit = self.limit();
    }

    fn problems(&self) -> Vec<Problem> {
        let is_part = (0.5..1.0).contains(&self.backoff);
        let own = [
            Problem::unless(!self.threshold.is_zero(), "aimd.threshold", 0, "any longer time"),
            Problem::unless(is_part, "aimd.backoff", short(self.backoff), "0.5 or more and less than 1"),
        ];
        own.into_iter().flatten().chain(range_problems("aimd", self.limit == 0, self.min, self.max)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn step(law: &mut Aimd, millis: u64, in_flight: usize, outcome: Outcome) -> usize {
        law.on_sample(&Sample::new(Timestamp::ZERO, Duration::from_millis(millis), in_flight, outcome));
        law.limit()
    }

    #[test]
    fn it_follows_the_formula_sample_by_sample() {
        let mut law = Aimd::new(Duration::from_millis(100)).initial(20).max(22);
        assert_eq!(step(&mut law, 100, 10, Outcome::Success), 21, "at the threshold is not over it");
        assert_eq!(step(&mut law, 10, 10, Outcome::Success), 21, "2 * 10 < 21");
        assert_eq!(step(&mut law, 10, 11, Outcome::Success), 22);
        assert_eq!(step(&mut law, 10, 22, Outcome::Success), 22, "max");
        assert_eq!(step(&mut law, 101, 1, Outcome::Success), 19, "floor(22 * 0.9)");
        assert_eq!(step(&mut law, 1, 1, Outcome::Overload), 17, "floor(19 * 0.9)");
        assert_eq!(step(&mut law, 1, 17, Outcome::Cancelled), 17, "a client that left early says nothing");
        assert_eq!(step(&mut law, 101, 17, Outcome::Cancelled), 15, "one that left late says slow");
    }

    #[test]
    fn stabilizing_it_cuts_once_for_those_admitted_under_the_old_limit() {
        let mut law = Aimd::new(Duration::from_secs(1)).initial(10).stabilizing(true);
        assert_eq!(step(&mut law, 1, 9, Outcome::Success), 11);
        assert_eq!(step(&mut law, 1, 2, Outcome::Success), 11);
        assert_eq!(step(&mut law, 2_000, 11, Outcome::Success), 9);
        assert_eq!(step(&mut law, 2_000, 11, Outcome::Success), 9, "eleven ran: that was before the cut");
    }

    #[test]
    fn it_recovers_from_its_floor() {
        let mut law = Aimd::new(Duration::from_millis(100));
        for _ in 0..100 {
            step(&mut law, 1_000, 1, Outcome::Success);
        }
        assert_eq!(law.limit(), 1);
        for expected in 2..=100 {
            let in_flight = law.limit();
            assert_eq!(step(&mut law, 10, in_flight, Outcome::Success), expected);
        }
    }

    #[test]
    fn every_bad_setting_is_named() {
        let law = Aimd::new(Duration::ZERO).backoff(f64::NAN).min(0).max(usize::MAX);
        let paths: Vec<_> = law.problems().iter().map(|problem| problem.path().to_owned()).collect();
        assert_eq!(paths, ["aimd.threshold", "aimd.backoff", "aimd.min", "aimd.max"]);
        assert_eq!(Aimd::new(Duration::from_millis(1)).min(9).max(3).limit(), 9, "and none of them panics");
    }
}
