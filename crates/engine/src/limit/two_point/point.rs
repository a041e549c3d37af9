//! Latency at one level of concurrency, and what two of them say together.

use std::time::Duration;

use super::rules::{Rule, Rules};
use crate::Timestamp;

/// Latency at one level of concurrency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Mean requests in flight whose samples were not taken before, and mean requests in flight that the limit counts.
    pub(super) concurrency: f64,
    pub(super) counted: f64,
    /// Time of a slot that one answer takes, in nanoseconds: the mean round-trip time where all are answered.
    pub(super) rtt: f64,
    /// Mean time that a slot was taken, answered or not, and mean round-trip time of the answered requests.
    pub(super) pace: f64,
    pub(super) answer: f64,
    /// The part of requests that were answered, of how many.
    pub(super) answered: f64,
    pub(super) finished: u32,
    /// The part of requests that took the time for which callers wait, and were not answered by then.
    pub(super) late: f64,
    /// Like `rtt`, without what is guessed of the unfinished requests: a lower bound.
    pub(super) at_least: f64,
    /// Variance of single requests, relative to the square of the mean.
    pub(super) scatter: f64,
    /// Independent samples that the mean is worth.
    pub(super) samples: f64,
    /// The part of requests that met the limit.
    pub(super) saturation: f64,
    /// The part of requests before whose end others were refused while slots were free: a cap that follows from the
    /// limit was in the way.
    pub(super) refused: f64,
    /// The part of requests that the service refused.
    pub(super) overloads: f64,
    /// Time that the last cohort took to measure, and its end.
    pub(super) length: Duration,
    pub(super) at: Timestamp,
    /// Cohorts in a row with which the point was measured.
    pub(super) cohorts: u32,
}

/// From this part of requests on that met the limit, it rejects some by chance.
pub(super) const SOME_DEMAND: f64 = 0.02;
/// Below this part of answers the limit is far too high, if that many requests say so.
pub(super) const FEW_ANSWERS: f64 = 0.35;
pub(super) const ENOUGH_TO_DROWN: u32 = 8;

impl Point {
    /// Returns the variance of single requests.
    pub(super) fn variance(&self) -> f64 {
        self.scatter * self.pace * self.pace
    }

    /// Whether the limit holds requests back by caps that follow from it, and hardly any by itself.
    pub(super) fn is_by_shares(&self) -> bool {
        self.saturation < SOME_DEMAND && self.refused >= SOME_DEMAND
    }

    /// Whether all callers left early, so that nothing is known of the server.
    pub(super) fn says_nothing(&self) -> bool {
        self.finished == 0 && self.overloads <= 0.0
    }

    /// Whether most of the slots were taken for nothing.
    pub(super) fn drowns(&self) -> bool {
        self.finished >= ENOUGH_TO_DROWN && self.answered < FEW_ANSWERS
    }

    /// Returns this point pooled with another one of the same concurrency, which is newer and counts at least a
    /// quarter.
    pub(super) fn pooled(&self, newer: &Self) -> Self {
        let part = (newer.samples / (self.samples + newer.samples)).max(0.25);
        let mix = |a: f64, b: f64| a + (b - a) * part;
        Self {
            concurrency: mix(self.concurrency, newer.concurrency),
            counted: mix(self.counted, newer.counted),
            rtt: mix(self.rtt, newer.rtt),
            scatter: mix(self.scatter, newer.scatter),
            samples: 1.0 / ((1.0 - part).powi(2) / self.samples + part.powi(2) / newer.samples),
            saturation: mix(self.saturation, newer.saturation),
            refused: mix(self.refused, newer.refused),
            cohorts: self.cohorts.saturating_add(1),
            ..*newer
        }
    }

    /// Returns the standard error of the mean, relative to it, where single requests scatter at least as much as
    /// `scatter`.
    pub(super) fn error(&self, scatter: f64) -> f64 {
        (self.scatter.max(scatter) / self.samples).sqrt()
    }
}

/// What is left, after each point, of the largest scatter so far: half of it after 34 points.
const SCATTER_LEFT: f64 = 0.98;

/// How much single requests scatter: the largest variance of late, relative to the square of the mean.
///
/// Where a crowd slows all work in proportion, the relative variance stays. Where each request takes longer by the same time, by a
/// delay or in a queue, the variance itself stays, and the relative one falls by the square. So where answers are slow the smaller of
/// the two counts. Without this, cohorts take many times too long there, and steps that are due are not made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    variance: f64,
    relative: f64,
    /// The relative variance that counts.
    pub(super) of_late: f64,
}

impl Scatter {
    pub(super) const NONE: Self = Self { variance: 0.0, relative: 0.0, of_late: 0.0 };

    /// Learns from each point.
    pub(super) fn learn(&mut self, point: &Point, is_slow: bool, rules: Rules) {
        let left = if rules.has(Rule::Scatter) { SCATTER_LEFT } else { 0.0 };
        let square = point.pace * point.pace;
        self.variance = (self.variance * left).max(point.variance());
        self.relative = (self.relative * left).max(point.scatter);
        self.of_late = if is_slow { self.relative.min(self.variance / square) } else { self.relative };
    }
}

/// What two points say about half of the concurrency of the upper one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// Factor by which latency grows with the last doubling, as if the lower point were at exactly half.
    pub(super) g: f64,
    /// Factor by which `g` may be wrong.
    pub(super) margin: f64,
    /// Halvings of the concurrency of the upper point that lead to the lower one.
    pub(super) halvings: f64,
    /// Standard error of the logarithm of `g`.
    pub(super) error: f64,
}

/// Standard errors that the margin has. A step too many does little harm: the next comparison takes it back. Waiting
/// for certainty while a server drowns costs more.
pub(super) const ERRORS: f64 = 0.6;
/// What is off by so many is plain: for an alarm, and for a cut where one that was not due costs much.
pub(super) const PLAIN_ERRORS: f64 = 2.0;

impl Comparison {
    pub(super) fn new(high: &Point, low: &Point, scatter: f64) -> Self {
        let halvings = (high.concurrency / low.concurrency).log2();
        let slower = (high.rtt / low.rtt).ln();
        let error = high.error(scatter).hypot(low.error(scatter)) / halvings.abs();
        Self { g: (slower / halvings).exp(), margin: (ERRORS * error).exp(), halvings, error }
    }

    /// Whether `g` is above this by a number of standard errors.
    pub(super) fn is_above(&self, bound: f64, errors: f64) -> bool {
        self.halvings > 0.0 && self.g.ln() - errors * self.error > bound.ln()
    }

    /// Returns `g`, as far as it is certain; zero where the lower point is not lower.
    pub(super) fn at_least(&self) -> f64 {
        if self.halvings > 0.0 { self.g / self.margin } else { 0.0 }
    }
}
