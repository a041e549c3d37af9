//! Gradient against a minimum that is measured with the limit pinned low.

use std::time::Duration;

use super::{
    LimitAlgorithm, LimitInputs, LimitState, Phase, Reference, Sample, clamp_to_limit, smallest, windowed::Thinned,
};
use crate::{Outcome, Problem, Timestamp, nanos, short};

/// Compares latency with a minimum that is measured anew from time to time with the limit pinned low.
///
/// Median, every 100 ms, a buffer of 25 %, a probe of 50 requests at a limit of 3 every 60 s, at most 1,000, unless
/// told otherwise. Starts with a probe.
///
/// # Formula
///
/// Each [`interval`](Self::interval) the sampled latency (a percentile of all since the last update) is compared with
/// the minimum:
///
/// ```text
/// gradient = clamp(min_rtt * (1 + buffer) / rtt, 0.5, 2)
/// limit = clamp(floor(limit * gradient) + sqrt(limit * gradient), pinned, max)
/// ```
///
/// Every [`probe`](Self::probe) interval, and after five updates at the minimum, the limit is pinned to
/// [`pinned`](Self::pinned) until enough requests *that started after the pinning* have finished: their percentile is
/// the new minimum. Samples from before would make the loaded latency the minimum, and the limit would climb a little
/// with each probe.
///
/// This is the gradient controller of Envoy's adaptive concurrency filter, in its form with a pinned window.
///
/// # Weaknesses
///
/// Each probe refuses what is beyond `pinned` for as long as it takes, and the limit grows without demand, up to `max`
/// on an idle server.
#[derive(Debug)]
pub struct Gradient {
    max: usize,
    pinned: usize,
    percentile: f64,
    buffer: f64,
    interval: Duration,
    probe_interval: Duration,
    probe_samples: usize,
    limit: f64,
    /// That of the last probe; there is one before the first update.
    min_rtt: u64,
    at_minimum: u32,
    probing_since: Option<Timestamp>,
    next_probe: Timestamp,
    next_update: Timestamp,
    window: Thinned,
    in_window: usize,
    basis: LimitInputs,
}

impl Default for Gradient {
    fn default() -> Self {
        Self::new()
    }
}

impl Gradient {
    /// Returns the law with its defaults.
    pub fn new() -> Self {
        Self {
            max: 1_000,
            pinned: 3,
            percentile: 50.0,
            buffer: 0.25,
            interval: Duration::from_millis(100),
            probe_interval: Duration::from_secs(60),
            probe_samples: 50,
            limit: 3.0,
            min_rtt: 0,
            at_minimum: 0,
            probing_since: Some(Timestamp::ZERO),
            next_probe: Timestamp::ZERO,
            next_update: Timestamp::ZERO,
            window: Thinned::new(1_024),
            in_window: 0,
            basis: LimitInputs::UNKNOWN,
        }
    }

    /// The limit during a probe, and the lowest there is: 3 unless set.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    pub const fn pinned(mut self, limit: usize) -> Self {
        self.pinned = limit;
        self.limit = limit as f64;
        self
    }

    plain_setters! {
        /// The limit never rises above this: 1,000 unless set.
        max: usize,
        /// The percentile of the latency that counts: 50 unless set.
        percentile: f64,
        /// How much slower than the minimum is still normal: 0.25, a quarter, unless set.
        buffer: f64,
        /// How often the limit is updated: every 100 ms unless set.
        interval: Duration,
    }

    /// How often the minimum is measured, and with how many requests: every 60 s with 50 unless set.
    #[must_use]
    pub const fn probe(mut self, interval: Duration, samples: usize) -> Self {
        self.probe_interval = interval;
        self.probe_samples = samples;
        self
    }

    fn start_probe(&mut self, now: Timestamp) {
        self.probing_since = Some(now);
        self.at_minimum = 0;
        self.clear();
    }

    fn clear(&mut self) {
        self.window.clear();
        self.in_window = 0;
    }

    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of latencies and limits are far below 2^52")]
    fn update(&mut self) {
        let rtt = self.window.percentile(self.percentile).max(1);
        let (rtt, min_rtt) = (rtt as f64, self.min_rtt as f64);
        let gradient = (min_rtt * (1.0 + self.buffer) / rtt).clamp(0.5, 2.0);
        self.basis = LimitInputs::of_nanos(rtt, min_rtt).ratio(gradient);
        let limit = self.limit * gradient;
        let pinned = self.pinned as f64;
        self.limit = smallest(self.max as f64, limit.floor() + limit.sqrt()).max(pinned).floor();
        self.at_minimum = if self.limit > pinned { 0 } else { self.at_minimum + 1 };
    }
}

impl LimitAlgorithm for Gradient {
    fn limit(&self) -> usize {
        let limit = if self.probing_since.is_some() { self.pinned } else { clamp_to_limit(self.limit, 1, self.max) };
        limit.max(1)
    }

    fractional_limit!(limit);

    fn state(&self) -> LimitState {
        let phase = if self.probing_since.is_some() { Phase::Probing } else { Phase::Steady };
        LimitState::new("gradient").within(self.pinned.min(self.max), self.max).against(Reference::Minimum).phase(phase)
    }

    fn on_sample(&mut self, sample: &Sample) {
        let Some(rtt) = sample.rtt.filter(|_| sample.outcome == Outcome::Success) else { return };
        if self.probing_since.is_some_and(|since| sample.start < since) {
            return;
        }
        self.window.push(nanos(rtt));
        self.in_window += 1;
        let (now, is_probe) = (sample.end, self.probing_since.is_some());
        let is_over = if is_probe { self.in_window >= self.probe_samples } else { now >= self.next_update };
        if !is_over {
            return;
        }
        if is_probe {
            self.min_rtt = self.window.percentile(self.percentile).max(1);
            self.probing_since = None;
            self.next_probe = now.after(self.probe_interval);
        } else {
            self.update();
        }
        self.next_update = now.after(self.interval);
        self.clear();
        if !is_probe && (self.at_minimum >= 5 || now >= self.next_probe) {
            self.start_probe(now);
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let is_percentile = self.percentile > 0.0 && self.percentile <= 100.0;
        let is_buffer = self.buffer >= 0.0 && self.buffer.is_finite();
        let pinned = format_args!("pinned ({}) or more", self.pinned);
        let all = [
            Problem::unless(self.pinned > 0, "gradient.pinned", 0, "1 or more"),
            Problem::unless(self.max >= self.pinned, "gradient.max", self.max, pinned),
            Problem::unless(
                is_percentile,
                "gradient.percentile",
                short(self.percentile),
                "more than 0 and at most 100",
            ),
            Problem::unless(is_buffer, "gradient.buffer", short(self.buffer), "0 or more"),
            Problem::unless(self.probe_samples > 0, "gradient.probe", "0 samples", "1 or more"),
        ];
        all.into_iter().flatten().collect()
    }
}
