//! Vegas: estimates the queue from how much slower requests are than the fastest ever seen.

use super::{LimitAlgorithm, LimitInputs, LimitState, Reference, Sample, clamp_to_limit, range_problems, smallest};
use crate::{Outcome, Problem, nanos, short};

/// Estimates the queue from how much slower requests are than the fastest: TCP Vegas, as in Netflix's
/// concurrency-limits.
///
/// Starts at 20, at most 1,000, without smoothing, unless told otherwise. Given to a builder it stands behind the
/// default [`Windowed`](super::Windowed).
///
/// # Formula
///
/// With `base` the round-trip time without load, and `lg(x) = max(1, floor(log10 x))`:
///
/// ```text
/// queue = ceil(limit * (1 - base / rtt))
/// if dropped:                      limit - lg
/// else if in_flight * 2 < limit:   limit
/// else if queue <= threshold:      limit + beta            threshold = lg, alpha = 3 lg, beta = 6 lg
/// else if queue < alpha:           limit + lg
/// else if queue > beta:            limit - lg
/// limit = (1 - smoothing) * limit + smoothing * clamp(that, 1, max)
/// ```
///
/// Every `30 * limit` samples or so, `base` becomes whatever the round-trip time is at that moment. The exact
/// arithmetic of `VegasLimit` in Netflix's concurrency-limits, after TCP Vegas (L. Brakmo, L. Peterson: "TCP Vegas: End
/// to End Congestion Avoidance on a Global Internet", 1995).
///
/// # Weaknesses
///
/// The baseline. The minimum of single samples is a lucky one: with service times that scatter, ordinary requests look
/// like a queue, and a third or more of a healthy load is refused. Hence the [`Windowed`](super::Windowed) before it.
/// And a probe under load makes the loaded time the baseline.
#[derive(Clone, Debug)]
pub struct Vegas {
    max: usize,
    smoothing: f64,
    /// Grow below a queue of the first, shrink above one of the second: by the limit unless set.
    queue: Option<(u32, u32)>,
    probe_multiplier: u32,
    /// Drawn anew at each probe, so that instances don't probe together.
    jitter: f64,
    #[cfg(test)]
    is_pinned: bool,
    estimate: f64,
    base_nanos: u64,
    since_probe: u64,
    basis: LimitInputs,
    /// Requests in flight at the last sample.
    in_flight: usize,
}

impl Default for Vegas {
    fn default() -> Self {
        Self::new()
    }
}

impl Vegas {
    /// Returns the law with its defaults.
    pub const fn new() -> Self {
        Self {
            max: 1_000,
            smoothing: 1.0,
            queue: None,
            probe_multiplier: 30,
            jitter: 0.75,
            #[cfg(test)]
            is_pinned: false,
            estimate: 20.0,
            base_nanos: 0,
            since_probe: 0,
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
        /// The limit never rises above this: 1,000 unless set.
        max: usize,
        /// How much of each step is taken: 1 unless set, more than 0 and at most 1.
        smoothing: f64,
        /// A new baseline is taken every `multiplier * limit` samples, times a jitter of 0.5 to 1: 30 unless set.
        probe_multiplier: u32,
    }

    /// Grow below a queue of `alpha`, shrink above one of `beta`: 3 and 6 times `lg(limit)` unless set.
    #[must_use]
    pub const fn queue(mut self, alpha: u32, beta: u32) -> Self {
        self.queue = Some((alpha, beta));
        self
    }

    fn redraw(&mut self, sample: &Sample) {
        #[cfg(test)]
        if self.is_pinned {
            return;
        }
        self.jitter = drawn_from(sample.end.as_nanos());
    }

    #[expect(clippy::cast_precision_loss, reason = "conformance asks for exactly this arithmetic")]
    fn should_probe(&self) -> bool {
        self.jitter * f64::from(self.probe_multiplier) * self.estimate <= self.since_probe as f64
    }
}

/// From 0.5 to 1, out of the nanosecond in which a request ended: no two instances have the same.
#[expect(clippy::cast_precision_loss, reason = "53 bits of a random number")]
fn drawn_from(nanos: u64) -> f64 {
    // The finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
    let mut z = nanos.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    0.5 + (z >> 11) as f64 / (1u64 << 53) as f64 / 2.0
}

/// `max(1, floor(log10 x))`.
fn lg(estimate: f64) -> f64 {
    estimate.trunc().max(1.0).log10().floor().max(1.0)
}

impl LimitAlgorithm for Vegas {
    fn limit(&self) -> usize {
        clamp_to_limit(self.estimate, 1, self.max)
    }

    fractional_limit!(estimate);

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn state(&self) -> LimitState {
        let state = LimitState::new("vegas").within(1, self.max).against(Reference::Minimum);
        state.idle_if((self.in_flight as f64) * 2.0 < self.estimate)
    }

    #[expect(clippy::cast_precision_loss, reason = "conformance asks for exactly this arithmetic")]
    fn on_sample(&mut self, sample: &Sample) {
        let rtt = match (sample.rtt.map_or(0, nanos), sample.outcome) {
            (0, Outcome::Overload) => self.base_nanos.max(1),
            (0, _) => return,
            (_, Outcome::Cancelled) => return,
            (rtt, _) => rtt,
        };
        self.since_probe += 1;
        self.in_flight = sample.in_flight;
        if self.should_probe() {
            self.redraw(sample);
            self.since_probe = 0;
            self.base_nanos = rtt;
            return;
        }
        if self.base_nanos == 0 || rtt < self.base_nanos {
            self.base_nanos = rtt;
            return;
        }
        let estimate = self.estimate;
        let step = lg(estimate);
        let queue = (estimate * (1.0 - self.base_nanos as f64 / rtt as f64)).ceil();
        let (alpha, beta) = self.queue.map_or((3.0 * step, 6.0 * step), |(alpha, beta)| (alpha.into(), beta.into()));
        let next = if sample.outcome == Outcome::Overload {
            estimate - step
        } else if (sample.in_flight as f64) * 2.0 < estimate {
            return;
        } else if queue <= step {
            estimate + beta
        } else if queue < alpha {
            estimate + step
        } else if queue > beta {
            estimate - step
        } else {
            return;
        };
        let (base, rtt) = (self.base_nanos as f64, rtt as f64);
        self.basis = LimitInputs::of_nanos(rtt, base).ratio(rtt / base);
        let next = smallest(self.max as f64, next).max(1.0);
        self.estimate = (1.0 - self.smoothing) * estimate + self.smoothing * next;
    }

    fn problems(&self) -> Vec<Problem> {
        let is_part = self.smoothing > 0.0 && self.smoothing <= 1.0;
        let (alpha, beta) = self.queue.unwrap_or((0, u32::MAX));
        let found = format_args!("{alpha} to {beta}");
        let own = [
            Problem::unless(is_part, "vegas.smoothing", short(self.smoothing), "more than 0 and at most 1"),
            Problem::unless(alpha <= beta, "vegas.queue", found, "alpha <= beta"),
        ];
        range_problems("vegas", self.estimate < 1.0, 1, self.max).into_iter().chain(own.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Vegas {
        pub(crate) const fn pinned_jitter(mut self, value: f64) -> Self {
            (self.jitter, self.is_pinned) = (value, true);
            self
        }

        /// The limit before it is rounded, and the round-trip time that counts as unloaded.
        pub(crate) const fn inner(&self) -> (f64, u64) {
            (self.estimate, self.base_nanos)
        }
    }

    #[test]
    fn thresholds_grow_with_each_power_of_ten_from_a_hundred_on() {
        for (estimate, expected) in [(0.0, 1.0), (99.9, 1.0), (100.0, 2.0), (999.9, 2.0), (1_000.0, 3.0)] {
            assert!((lg(estimate) - expected).abs() < f64::EPSILON, "{estimate}: {}", lg(estimate));
        }
    }

    #[test]
    fn the_jitter_of_neighbouring_nanoseconds_is_spread_evenly() {
        let mut drawn: Vec<f64> = (0..100).map(|nanos| drawn_from(1_000_000_000 + nanos)).collect();
        drawn.sort_by(f64::total_cmp);
        assert!(drawn.iter().enumerate().all(|(rank, it)| (it - 0.5 - rank as f64 / 200.0).abs() < 0.08), "{drawn:?}");
    }
}
