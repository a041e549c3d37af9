//! What is measured at one level of concurrency: requests that started one after the other.
//!
//! Judging each sample as it comes would favour whatever finishes first: right after a limit was raised, all samples are
//! of quick requests, and the new limit looks better than it is. So a cohort takes everybody who *started* within some
//! time, and is judged when four out of five of them have finished.

use std::time::Duration;

use super::super::Sample;
use crate::{
    outcome::Outcome,
    time::{Timestamp, nanos},
};

/// Latency at one level of concurrency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Mean requests in flight.
    pub(super) concurrency: f64,
    /// Mean of the natural logarithm of the round-trip time in nanoseconds: the median of a skewed distribution rather
    /// than its tail, and ratios become differences.
    pub(super) ln_rtt: f64,
    /// Standard error of that mean.
    pub(super) error: f64,
    /// The part of requests that took the last free slot.
    pub(super) saturation: f64,
    /// The part of requests that the service refused.
    pub(super) overloads: f64,
    pub(super) at: Timestamp,
    /// How many cohorts in a row it was measured with.
    pub(super) cohorts: u32,
    /// How many samples it takes to know the mean well enough.
    pub(super) samples_wanted: u32,
}

impl Point {
    /// This point with another one of the same concurrency, which is newer and counts at least a quarter.
    pub(super) fn pooled(&self, newer: &Self) -> Self {
        // By inverse variance, as independent estimates of one mean are.
        let (old, new) = (self.error.max(1e-3).powi(-2), newer.error.max(1e-3).powi(-2));
        let part = (new / (old + new)).max(0.25);
        let mix = |a: f64, b: f64| a + (b - a) * part;
        Self {
            concurrency: mix(self.concurrency, newer.concurrency),
            ln_rtt: mix(self.ln_rtt, newer.ln_rtt),
            error: (self.error * (1.0 - part)).hypot(newer.error * part),
            saturation: mix(self.saturation, newer.saturation),
            cohorts: self.cohorts.saturating_add(1),
            ..*newer
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cohort {
    opened: Timestamp,
    /// Who starts from here on belongs to a later cohort.
    closed: Option<Timestamp>,
    wanted: u32,
    /// How many belong to it; known once it is closed.
    members: u32,
    finished: u32,
    /// How many have finished that started after it was closed.
    later: u32,
    timed: u32,
    overloads: u32,
    saturated: u32,
    concurrency: f64,
    sum: f64,
    squares: f64,
}

/// A mean of logarithms is known well enough at a standard error of 8 %.
const WANTED_ERROR: f64 = 0.08;
const FEWEST: u32 = 16;
const MOST: u32 = 200;

impl Cohort {
    pub(super) const fn open(now: Timestamp, wanted: u32) -> Self {
        Self {
            opened: now,
            closed: None,
            wanted,
            members: 0,
            finished: 0,
            later: 0,
            timed: 0,
            overloads: 0,
            saturated: 0,
            concurrency: 0.0,
            sum: 0.0,
            squares: 0.0,
        }
    }

    pub(super) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.opened)
    }

    /// Takes a sample of the time when at most `limit` requests ran; answers a point once it is complete.
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds are far below 2^52 here")]
    pub(super) fn add(&mut self, sample: &Sample, limit: usize) -> Option<Point> {
        if sample.start < self.opened {
            return None;
        }
        if self.closed.is_some_and(|closed| sample.start >= closed) {
            // As many of the next cohort are done: whoever of this one isn't may never be.
            self.later += 1;
            return if self.later >= self.members { self.judge(sample.end) } else { None };
        }
        self.finished += 1;
        self.saturated += u32::from(sample.in_flight >= limit);
        self.concurrency += sample.in_flight as f64;
        match (sample.rtt, sample.outcome) {
            (_, Outcome::Overload) => self.overloads += 1,
            (Some(rtt), outcome) => {
                let ln_rtt = (nanos(rtt).max(1) as f64).ln();
                // Cut short: a lower bound, which counts where it says "slower than the others".
                if outcome == Outcome::Success || ln_rtt > self.mean() {
                    self.timed += 1;
                    self.sum += ln_rtt;
                    self.squares += ln_rtt * ln_rtt;
                }
            }
            (None, _) => {}
        }
        if self.closed.is_none() && self.finished >= self.wanted {
            self.closed = Some(sample.end);
            let unfinished = u32::try_from(sample.running.saturating_sub(1)).unwrap_or(u32::MAX);
            self.members = self.finished.saturating_add(unfinished);
        }
        let complete = self.closed.is_some() && u64::from(self.finished) * 5 >= u64::from(self.members) * 4;
        if complete { self.judge(sample.end) } else { None }
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.timed.max(1))
    }

    /// The point as far as it is known.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to a small range before it is rounded"
    )]
    fn judge(&self, now: Timestamp) -> Option<Point> {
        if self.finished == 0 {
            return None;
        }
        let (all, timed) = (f64::from(self.finished), f64::from(self.timed.max(1)));
        let mean = self.mean();
        let variance = (self.squares / timed - mean * mean).max(0.0);
        let wanted = variance / (WANTED_ERROR * WANTED_ERROR);
        Some(Point {
            concurrency: self.concurrency / all,
            ln_rtt: mean,
            error: (variance / timed).sqrt(),
            saturation: f64::from(self.saturated) / all,
            overloads: f64::from(self.overloads) / all,
            at: now,
            cohorts: 1,
            samples_wanted: (wanted.clamp(f64::from(FEWEST), f64::from(MOST)) as u32).max(FEWEST),
        })
    }
}
