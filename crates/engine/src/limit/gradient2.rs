//! Gradient2: compares the round-trip time with its own long-term average.

use super::{LimitAlgorithm, LimitInputs, LimitState, Reference, Sample, clamp_to_limit, range_problems, smallest};
use crate::{Outcome, Problem, nanos, short};

/// Compares the round-trip time with its own long-term average.
///
/// Starts at 20, within 20 and 200, tolerance 1.5, smoothing 0.2, a queue of 4, a window of 600, unless told otherwise.
/// Given to a builder it stands behind the default [`Windowed`](super::Windowed).
///
/// # Formula
///
/// ```text
/// gradient = clamp(tolerance * long / rtt, 0.5, 1)
/// if in_flight < limit / 2:   limit
/// else:                       (1 - smoothing) * limit + smoothing * (limit * gradient + queue), clamped to min, max
/// ```
///
/// `long` is the mean of the first ten samples, then an exponential average over 600; it falls by a twentieth with each
/// sample while it is more than twice the present one. The exact arithmetic of `Gradient2Limit` in Netflix's
/// concurrency-limits, which ignores drops. With [`ignore_overloads(false)`](Self::ignore_overloads) an overload counts
/// as a gradient of 0.5.
///
/// # Weaknesses
///
/// The average: under a standing overload it follows the latency that the overload causes, the gradient returns to 1,
/// and the limit climbs to its maximum. Given to it bare, 600 samples are seconds; behind a
/// [`Windowed`](super::Windowed) they are minutes.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    min: usize,
    max: usize,
    smoothing: f64,
    tolerance: f64,
    queue: QueueSize,
    window: u32,
    ignore_overloads: bool,
    estimate: f64,
    long: Average,
    basis: LimitInputs,
    /// Requests in flight at the last sample.
    in_flight: usize,
}

/// How many requests may queue without it being called congestion.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum QueueSize {
    /// As many as this.
    Fixed(u32),
    /// `max(4, floor(sqrt(limit)))`.
    SquareRoot,
}

impl QueueSize {
    /// Returns the number, if it is always the same.
    #[doc(hidden)]
    pub const fn fixed(self) -> Option<u32> {
        match self {
            Self::Fixed(requests) => Some(requests),
            Self::SquareRoot => None,
        }
    }
}

/// A mean at first, an exponential average afterwards.
#[derive(Clone, Debug)]
struct Average {
    value: f64,
    sum: f64,
    count: u32,
    factor: f64,
}

const WARM_UP: u32 = 10;

impl Default for Gradient2 {
    fn default() -> Self {
        Self::new()
    }
}

impl Gradient2 {
    /// Returns the law with its defaults.
    pub fn new() -> Self {
        Self {
            min: 20,
            max: 200,
            smoothing: 0.2,
            tolerance: 1.5,
            queue: QueueSize::Fixed(4),
            window: 600,
            ignore_overloads: true,
            estimate: 20.0,
            long: Average::over(600),
            basis: LimitInputs::UNKNOWN,
            in_flight: 0,
        }
    }

    /// The limit to start from: 20 unless set.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    pub const fn initial(mut self, limit: usize) -> Self {
        self.estimate = limit as f64;
        self
    }

    plain_setters! {
        /// The limit never falls below this: 20 unless set.
        min: usize,
        /// The limit never rises above this: 200 unless set.
        max: usize,
        /// How much of each step is taken: 0.2 unless set, more than 0 and at most 1.
        smoothing: f64,
        /// How much slower than the long-term average is still normal: 1.5 times unless set, 1 or more.
        tolerance: f64,
        /// How many requests may queue: 4 unless set.
        queue: QueueSize,
        /// Whether overloads say nothing, as in the original: true unless set.
        ignore_overloads: bool,
    }

    /// Over how many samples the long-term average runs: 600 unless set.
    #[must_use]
    pub fn long_window(mut self, samples: u32) -> Self {
        self.window = samples;
        self.long = Average::over(samples);
        self
    }
}

impl Average {
    fn over(window: u32) -> Self {
        Self { value: 0.0, sum: 0.0, count: 0, factor: 2.0 / (f64::from(window) + 1.0) }
    }

    fn add(&mut self, sample: f64) -> f64 {
        if self.count < WARM_UP {
            self.count += 1;
            self.sum += sample;
            self.value = self.sum / f64::from(self.count);
        } else {
            self.value = self.value * (1.0 - self.factor) + sample * self.factor;
        }
        self.value
    }
}

impl LimitAlgorithm for Gradient2 {
    fn limit(&self) -> usize {
        clamp_to_limit(self.estimate, self.min, self.max)
    }

    fractional_limit!(estimate);

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn state(&self) -> LimitState {
        let state = LimitState::new("gradient2").within(self.min, self.max).against(Reference::Average);
        state.idle_if((self.in_flight as f64) < self.estimate / 2.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "conformance asks for exactly this arithmetic")]
    fn on_sample(&mut self, sample: &Sample) {
        let rtt = match (sample.rtt.map_or(0, nanos), sample.outcome) {
            (0, _) | (_, Outcome::Cancelled) => return,
            (rtt, _) => rtt as f64,
        };
        self.in_flight = sample.in_flight;
        let queue = match self.queue {
            QueueSize::Fixed(queue) => f64::from(queue),
            QueueSize::SquareRoot => self.estimate.trunc().sqrt().floor().max(4.0),
        };
        let long = self.long.add(rtt);
        if long / rtt > 2.0 {
            self.long.value *= 0.95;
        }
        if (sample.in_flight as f64) < self.estimate / 2.0 {
            return;
        }
        let overloaded = sample.outcome == Outcome::Overload && !self.ignore_overloads;
        let gradient = if overloaded { 0.5 } else { smallest(1.0, self.tolerance * long / rtt).max(0.5) };
        self.basis = LimitInputs::of_nanos(rtt, long).ratio(gradient);
        let next = self.estimate * gradient + queue;
        let next = self.estimate * (1.0 - self.smoothing) + next * self.smoothing;
        self.estimate = smallest(self.max as f64, next).max(self.min as f64);
    }

    fn problems(&self) -> Vec<Problem> {
        let is_part = self.smoothing > 0.0 && self.smoothing <= 1.0;
        let is_factor = self.tolerance >= 1.0 && self.tolerance.is_finite();
        let own = [
            Problem::unless(is_part, "gradient2.smoothing", short(self.smoothing), "more than 0 and at most 1"),
            Problem::unless(is_factor, "gradient2.tolerance", short(self.tolerance), "1 or more"),
            Problem::unless(self.window > 0, "gradient2.long_window", 0, "1 or more"),
        ];
        let range = range_problems("gradient2", self.estimate < 1.0, self.min, self.max);
        range.into_iter().chain(own.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    impl super::Gradient2 {
        /// The limit before it is rounded, and the long-term average in nanoseconds.
        pub(crate) const fn inner(&self) -> (f64, f64) {
            (self.estimate, self.long.value)
        }
    }
}
