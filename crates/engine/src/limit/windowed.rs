//! Many samples in, one step of the law out.

use std::{num::NonZeroU32, time::Duration};

use super::{LimitAlgorithm, LimitInputs, LimitState, Number, Sample, time_some};
use crate::{Outcome, Problem, Timestamp, nanos, short};

/// A window with this many samples knows its mean to a few per cent, and is no worse off with one in eight of the further ones.
const ENOUGH: u32 = 128;

/// A law that steps once per window of samples.
///
/// Closes after 1 s with 10 samples or more, after 10 s in any case, and hands on the mean, unless told otherwise.
///
/// A window opens with a sample and closes when it is both long enough and full enough, or too old. The law then gets
/// one aggregate: one slow burst is one decrease, not forty, and a limit takes at most one step per window.
///
/// Samples of requests that started before the last decrease are left out: they were slow under the old limit, and
/// counting them would punish the new one for it. Windows as such are those of `WindowedLimit` in Netflix's
/// concurrency-limits; the rule about old samples is the loss epoch of TCP (RFC 6582, section 3.2).
#[derive(Debug)]
pub struct Windowed<L> {
    law: L,
    /// Of the round-trip times; `None` for their mean.
    percentile: Option<f64>,
    min_time: Duration,
    min_samples: u32,
    max_time: Duration,
    overload_percent: f64,
    /// Requests that started before this moment belong to the limit before the last decrease.
    epoch: Timestamp,
    window: Window,
}

#[derive(Debug, Default)]
struct Window {
    opened: Timestamp,
    start: Timestamp,
    in_flight: usize,
    running: usize,
    successes: u32,
    cancelled: u32,
    overloads: u32,
    /// Requests for which timed ones stand, and that brought no sample.
    untimed: u32,
    /// Sum of the round-trip times, and of the requests that these stand for.
    total_nanos: u128,
    total_weight: u64,
    values: Thinned,
}

impl<L: LimitAlgorithm> Windowed<L> {
    /// Puts the default window before `law`.
    pub fn new(law: L) -> Self {
        Self {
            law,
            percentile: None,
            min_time: Duration::from_secs(1),
            min_samples: 10,
            max_time: Duration::from_secs(10),
            overload_percent: 5.0,
            epoch: Timestamp::ZERO,
            window: Window::new(false),
        }
    }

    /// The round-trip time that a window hands on: the given percentile, more than 0 and at most 100, of at most 1,024 of its
    /// times, spread evenly over it. The arithmetic mean of all unless set.
    #[must_use]
    pub fn percentile(mut self, percentile: f64) -> Self {
        self.percentile = Some(percentile);
        self.window = Window::new(true);
        self
    }

    plain_setters! {
        /// A window is at least this long: 1 s unless set.
        min_time: Duration,
        /// A window holds at least this many samples, unless it grows too old: 10 unless set.
        min_samples: u32,
        /// A window that is this old closes with what it has: 10 s unless set.
        max_time: Duration,
        /// From this percentage of overloads on, the window as a whole is one: 5 % unless set.
        ///
        /// A single 503 among thousands of answers is no reason to cut the limit of all of them.
        overload_percent: f64,
    }

    fn close(&mut self, now: Timestamp) {
        let sample = self.window.aggregate(self.percentile, self.overload_percent, now);
        self.window.clear();
        let Some(sample) = sample else { return };
        let before = self.law.limit();
        self.law.on_sample(&sample);
        if self.law.limit() < before {
            self.epoch = now;
        }
    }
}

impl<L> Windowed<L> {
    pub(super) const fn law(&self) -> &L {
        &self.law
    }

    pub(super) fn window_parameters(&self) -> Vec<(&'static str, Number)> {
        let percentile = self.percentile.map(|it| ("percentile", Number::Real(it)));
        let time = |it| Number::Nanos(nanos(it));
        let others = [
            ("min_time", time(self.min_time)),
            ("min_samples", Number::Count(self.min_samples as usize)),
            ("max_time", time(self.max_time)),
            ("overload_percent", Number::Real(self.overload_percent)),
        ];
        others.into_iter().chain(percentile).collect()
    }
}

impl<L: LimitAlgorithm> LimitAlgorithm for Windowed<L> {
    fn limit(&self) -> usize {
        self.law.limit()
    }

    fn max_limit(&self) -> usize {
        self.law.max_limit()
    }

    /// As few as the law allows for. And no more than one in eight, or in what the settings ask for, once the mean of the window
    /// is known; after an overload each again, since what comes next decides.
    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        let is_known = self.percentile.is_none() && self.window.timed() >= ENOUGH && self.window.overloads == 0;
        self.law.time_one_in(asked).max(time_some(is_known, asked))
    }

    fn pacing(&self) -> Duration {
        self.law.pacing()
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

    fn note_patience(&mut self, patience: Option<Duration>) {
        self.law.note_patience(patience);
    }

    fn learns_hold_times(&self) -> bool {
        self.law.learns_hold_times()
    }

    fn on_sample(&mut self, sample: &Sample) {
        if sample.start < self.epoch {
            return;
        }
        if self.window.samples() > 0 {
            let (age, max) = (sample.end.nanos_since(self.window.opened), nanos(self.max_time));
            if age > max.saturating_mul(2) {
                self.window.clear();
            } else if age > max {
                self.close(sample.end);
                if sample.start < self.epoch {
                    return;
                }
            }
        }
        self.window.add(sample);
        if self.window.samples() >= self.min_samples
            && sample.end.nanos_since(self.window.opened) >= nanos(self.min_time)
        {
            self.close(sample.end);
        }
    }

    fn problems(&self) -> Vec<Problem> {
        const PART: &str = "more than 0 and at most 100";
        let is_part = |percent: f64| percent > 0.0 && percent <= 100.0;
        let percentile = self.percentile.unwrap_or(100.0);
        let is_long = self.max_time >= self.min_time && !self.max_time.is_zero();
        let (longest, overloads) = (format!("{:?}", self.max_time), short(self.overload_percent));
        let least = format_args!("min_time ({:?}) or longer, and more than 0", self.min_time);
        let own = [
            Problem::unless(is_part(percentile), "window.aggregate", format_args!("percentile {percentile}"), PART),
            Problem::unless(self.min_samples > 0, "window.min_samples", 0, "1 or more"),
            Problem::unless(is_long, "window.max_time", longest, least),
            Problem::unless(is_part(self.overload_percent), "window.overload_percent", overloads, PART),
        ];
        self.law.problems().into_iter().chain(own.into_iter().flatten()).collect()
    }
}

impl Window {
    /// `keeps`: the values are needed, not their sum alone.
    fn new(keeps: bool) -> Self {
        Self { start: Timestamp::NEVER, values: Thinned::new(if keeps { 1_024 } else { 0 }), ..Self::default() }
    }

    fn clear(&mut self) {
        self.values.clear();
        let values = std::mem::take(&mut self.values);
        *self = Self { start: Timestamp::NEVER, values, ..Self::default() };
    }

    const fn samples(&self) -> u32 {
        self.timed().saturating_add(self.overloads)
    }

    /// Returns how many samples brought a round-trip time.
    const fn timed(&self) -> u32 {
        self.successes.saturating_add(self.cancelled)
    }

    fn mean(&self) -> u64 {
        u64::try_from(self.total_nanos / u128::from(self.total_weight.max(1))).unwrap_or(u64::MAX)
    }

    #[inline]
    fn add(&mut self, sample: &Sample) {
        let rtt = sample.rtt.map_or(0, nanos);
        match sample.outcome {
            Outcome::Success => {
                self.successes += 1;
                let untimed = sample.weight.saturating_sub(1);
                self.untimed = self.untimed.saturating_add(untimed);
                self.take(rtt, u64::from(untimed) + 1);
            }
            Outcome::Overload => self.overloads += 1,
            // Only a lower bound: it can show that the window is slower than it seems, never that it is faster.
            Outcome::Cancelled if sample.rtt.is_none() || rtt < self.mean() => return,
            Outcome::Cancelled => {
                self.cancelled += 1;
                self.take(rtt, 1);
            }
            Outcome::Ignore => return,
        }
        if self.samples() == 1 {
            self.opened = sample.end;
        }
        self.start = self.start.min(sample.start);
        self.in_flight = self.in_flight.max(sample.in_flight);
        self.running = sample.running;
    }

    /// Takes a round-trip time that stands for so many.
    #[inline]
    fn take(&mut self, rtt: u64, weight: u64) {
        self.total_nanos += u128::from(rtt) * u128::from(weight);
        self.total_weight += weight;
        self.values.push(rtt);
    }

    fn aggregate(&mut self, percentile: Option<f64>, overload_percent: f64, end: Timestamp) -> Option<Sample> {
        if self.samples() == 0 {
            return None;
        }
        let rtt = match percentile {
            None => self.mean(),
            Some(percentile) => self.values.percentile(percentile),
        };
        let weight = self.samples().saturating_add(self.untimed);
        let overloaded = f64::from(self.overloads) * 100.0 >= f64::from(weight) * overload_percent;
        let outcome = match (overloaded && self.overloads > 0, self.successes) {
            (true, _) => Outcome::Overload,
            (false, 0) => Outcome::Cancelled,
            (false, _) => Outcome::Success,
        };
        let rtt = (self.timed() > 0).then_some(Duration::from_nanos(rtt));
        Some(Sample {
            start: self.start,
            end,
            rtt,
            in_flight: self.in_flight,
            running: self.running,
            answering: 0,
            outcome,
            refused: false,
            weight,
        })
    }
}

/// At most `capacity` values of a stream of unknown length, evenly spaced: when full, every other one goes, and only
/// half as many are taken from then on. Deterministic, and no allocation after the first window.
#[derive(Debug, Default)]
pub(super) struct Thinned {
    capacity: usize,
    values: Vec<u64>,
    stride: u32,
    skipped: u32,
}

impl Thinned {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, values: Vec::with_capacity(capacity), stride: 1, skipped: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        (self.stride, self.skipped) = (1, 0);
    }

    #[inline]
    pub(super) fn push(&mut self, value: u64) {
        if self.capacity > 0 {
            self.push_one(value);
        }
    }

    fn push_one(&mut self, value: u64) {
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.values.len() == self.capacity {
            let mut index = 0;
            self.values.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.values.push(value);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank within at most 1,024 values"
    )]
    pub(super) fn percentile(&mut self, percentile: f64) -> u64 {
        let rank = (self.values.len() as f64 * percentile / 100.0).ceil() as usize;
        let index = rank.saturating_sub(1).min(self.values.len().saturating_sub(1));
        if self.values.is_empty() { 0 } else { *self.values.select_nth_unstable(index).1 }
    }
}

#[cfg(test)]
#[path = "windowed_tests.rs"]
mod tests;
