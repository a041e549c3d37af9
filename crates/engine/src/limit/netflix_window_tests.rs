//! The window of Netflix's concurrency-limits, sample for sample: what the recordings of its laws are compared with.

use std::time::Duration;

use super::{LimitAlgorithm, LimitInputs, LimitState, Sample};
use crate::{Outcome, Problem, Timestamp, nanos};

/// The window of Netflix's concurrency-limits before another law, sample for sample.
///
/// 1 s, 10 samples, faster ones than 100 µs left out, the mean, unless told otherwise.
///
/// This window differs from [`Windowed`](super::Windowed) in what made users of the original stumble: a window with too
/// few samples is thrown away with its drops, so that a service with eight requests per second is never limited; a
/// single drop makes a drop of the whole window; samples from before a decrease count.
#[derive(Debug)]
pub(crate) struct NetflixWindow<L> {
    law: L,
    percentile: Option<f64>,
    capacity: usize,
    min_time: u64,
    max_time: u64,
    samples: u32,
    min_rtt: u64,
    next: u64,
    window: Window,
}

#[derive(Debug)]
struct Window {
    min_rtt: u64,
    in_flight: usize,
    count: u32,
    sum: u64,
    values: Vec<u64>,
    dropped: bool,
}

impl<L: LimitAlgorithm> NetflixWindow<L> {
    /// Puts the default window before `law`.
    pub(crate) fn new(law: L) -> Self {
        Self {
            law,
            percentile: None,
            capacity: 0,
            min_time: 1_000_000_000,
            max_time: 1_000_000_000,
            samples: 10,
            min_rtt: 100_000,
            next: 0,
            window: Window::new(0),
        }
    }

    /// The length of a window is twice its fastest round-trip time, within these: both 1 s unless set.
    #[must_use]
    pub(crate) fn time(mut self, min: Duration, max: Duration) -> Self {
        (self.min_time, self.max_time) = (nanos(min), nanos(max));
        self
    }

    /// Windows with fewer samples are thrown away: 10 unless set.
    #[must_use]
    pub(crate) const fn samples(mut self, samples: u32) -> Self {
        self.samples = samples;
        self
    }

    /// Hands on a percentile of the first `capacity` samples of a window instead of the mean.
    #[must_use]
    pub(crate) fn percentile(mut self, percentile: f64, capacity: usize) -> Self {
        self.percentile = Some(percentile);
        self.capacity = capacity;
        self.window = Window::new(capacity);
        self
    }

    /// Returns the law behind the window.
    pub(crate) const fn law(&self) -> &L {
        &self.law
    }
}

impl Window {
    fn new(capacity: usize) -> Self {
        Self { min_rtt: u64::MAX, in_flight: 0, count: 0, sum: 0, values: Vec::with_capacity(capacity), dropped: false }
    }

    fn reset(&mut self) {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        *self = Self { values, ..Self::new(0) };
    }

    fn add(&mut self, rtt: u64, in_flight: usize, dropped: bool, percentile: Option<f64>, capacity: usize) {
        if percentile.is_some() {
            // Once full, the original counts nothing more, not even drops.
            if self.values.len() >= capacity {
                return;
            }
            self.values.push(rtt);
        }
        self.min_rtt = self.min_rtt.min(rtt);
        self.in_flight = self.in_flight.max(in_flight);
        self.sum = self.sum.saturating_add(rtt);
        self.count += 1;
        self.dropped |= dropped;
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "conformance asks for exactly this arithmetic"
    )]
    fn tracked(&mut self, percentile: Option<f64>) -> u64 {
        match percentile {
            None => self.sum / u64::from(self.count.max(1)),
            Some(percentile) => {
                self.values.sort_unstable();
                // Java's Math.round: halves go up.
                let rank = (self.values.len() as f64 * percentile / 100.0 + 0.5).floor() as usize;
                self.values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
            }
        }
    }
}

impl<L: LimitAlgorithm> LimitAlgorithm for NetflixWindow<L> {
    fn limit(&self) -> usize {
        self.law.limit()
    }

    fn inputs(&self) -> LimitInputs {
        self.law.inputs()
    }

    fn state(&self) -> LimitState {
        self.law.state()
    }

    fn adopt(&mut self, limit: usize) {
        self.law.adopt(limit);
    }

    fn on_sample(&mut self, sample: &Sample) {
        let rtt = sample.rtt.map_or(0, nanos);
        if rtt < self.min_rtt || sample.outcome == Outcome::Cancelled {
            return;
        }
        let end = sample.start.as_nanos().saturating_add(rtt);
        let dropped = sample.outcome == Outcome::Overload;
        self.window.add(rtt, sample.in_flight, dropped, self.percentile, self.capacity);
        if end <= self.next {
            return;
        }
        self.next = end.saturating_add(self.window.min_rtt.saturating_mul(2).max(self.min_time).min(self.max_time));
        if self.window.count >= self.samples {
            let rtt = Duration::from_nanos(self.window.tracked(self.percentile));
            let outcome = if self.window.dropped { Outcome::Overload } else { Outcome::Success };
            let sample = Sample {
                rtt: Some(rtt),
                in_flight: self.window.in_flight,
                outcome,
                weight: self.window.count,
                end: Timestamp::from_nanos(end),
                ..sample.clone()
            };
            self.law.on_sample(&sample);
        }
        self.window.reset();
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = self.law.problems();
        if self.max_time < self.min_time {
            problems.push(Problem::new("window.time", "found max shorter than min, allowed is min <= max"));
        }
        if let Some(percentile) = self.percentile
            && !(percentile > 0.0 && percentile <= 100.0 && self.capacity > 0)
        {
            problems.push(Problem::new(
                "window.percentile",
                format!(
                    "found {percentile} of {} samples, allowed is more than 0 and at most 100 of at least 1",
                    self.capacity
                ),
            ));
        }
        problems
    }
}
