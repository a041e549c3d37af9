//! Two points of the curve: is the server faster with half as many requests?
//!
//! # Derivation
//!
//! A server that runs `n` requests at once, each for `R(n)`, finishes `X(n) = n / R(n)` per second (Little's law). What a
//! limit is for is throughput, so the question about a limit `L` is what halving it would cost:
//!
//! ```text
//! X(L) / X(L/2) = 2 R(L/2) / R(L) = 2 / g        with g = R(L) / R(L/2)
//! ```
//!
//! With `g = 1` latency doesn't depend on the limit yet and half of the throughput would be lost: the limit is too low.
//! With `g = 2` nothing would be lost: the upper half of the requests only waits inside the server, and the limit is too
//! high. In between lies the knee. The law moves the limit until `g = 1.5`:
//!
//! ```text
//! L = L * (1.5 / g)^0.7
//! ```
//!
//! On a pool of `c` workers, where `R(n) = S max(1, n/c)`, that is `L = 1.5 c`: every worker is busy and half as many
//! requests stand behind them. On a server that congests, where `R(n) = S (1 + (n/k)^2)`, it is 0.89 of the knee `k`, at
//! 99.4 % of the highest throughput it has.
//!
//! No threshold has to be configured, for `g` has no unit. And nothing can drift: both points are recent. That is what
//! distinguishes it from laws that compare with a minimum (which is a lucky sample, so that ordinary scatter looks like
//! a queue) or with a long average (which follows the overload, so that after some minutes the overload looks normal).
//!
//! # Where the points come from
//!
//! The upper one is measured all the time, in [cohorts](cohort). The lower one is free where load fluctuates: whenever
//! about half as many requests ran. Under a standing overload there are no such lulls, and a *probe* makes one: for one
//! cohort the limit is half of what it was. Probes are rare, every 5 to 40 s, and last for a few round-trip times, so they
//! cost less than one percent of the throughput.
//!
//! *No cut without a probe.* If the environment becomes slower, a downstream service say, both points rise and `g` stays:
//! a limit that falls then would throw away throughput that is there. Only a fresh lower point tells the two apart. A
//! probe that can't finish, because nothing does any more, is a cut.
//!
//! # What else keeps it honest
//!
//! - *It grows only on demand*: at least a tenth of the requests must have met the limit.
//! - *Slow start*: while `g < 1.25` and nearly all requests meet the limit, it doubles. The point before the doubling is the
//!   lower point after it, so this needs no probes.
//! - *Noise margin*: 1.5 is widened by the standard error of both points on either side; within, the limit stays.
//! - *A shift at equal concurrency clears the lower point*: latency that changed without the limit having changed is news
//!   about the environment, and comparing across it would be comparing apples with oranges.

mod cohort;

use std::time::Duration;

use self::cohort::{Cohort, Point};
use super::{Law, Sample, clamp_to_limit};
use crate::{problem::Problem, time::Timestamp};

/// Finds the limit by itself, without a threshold: compares latency at the limit with latency at half of it.
///
/// The default law. Starts at 20, within 1 and 10,000, unless told otherwise.
#[derive(Clone, Debug)]
pub struct TwoPoint {
    min: usize,
    max: usize,
    limit: f64,
    /// What was measured at about half of the present concurrency.
    low: Option<Point>,
    /// What was measured last at the limit.
    high: Option<Point>,
    cohort: Option<Cohort>,
    phase: Phase,
    /// How long a lower point is good, and how long until the next probe.
    gap: Duration,
    samples_wanted: u32,
    /// Whether there was ever something to compare with.
    started: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Measures at the limit.
    Watch,
    /// Measures at half of it.
    Probe,
}

/// Where the law wants `g`: between "halving costs half" and "halving costs nothing".
const TARGET: f64 = 1.5;
const GAIN: f64 = 0.7;
/// Below this latency hardly depends on the limit.
const FLAT: f64 = 1.25;
/// Above this half of the limit is as good.
const FLOODED: f64 = 1.8;
const SHORTEST_GAP: Duration = Duration::from_secs(5);
const LONGEST_GAP: Duration = Duration::from_secs(40);
/// A change of latency by more than this at the same concurrency is one of the environment.
const SHIFT: f64 = 0.35;
/// From this part of refused requests on, the service says itself that it is too much.
const REFUSED: f64 = 0.05;

impl Default for TwoPoint {
    fn default() -> Self {
        Self::new()
    }
}

impl TwoPoint {
    /// The law with its defaults.
    pub const fn new() -> Self {
        Self {
            min: 1,
            max: 10_000,
            limit: 20.0,
            low: None,
            high: None,
            cohort: None,
            phase: Phase::Watch,
            gap: SHORTEST_GAP,
            samples_wanted: 16,
            started: false,
        }
    }

    /// The limit to start from: 20 unless set.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    pub const fn initial(mut self, limit: usize) -> Self {
        self.limit = limit as f64;
        self
    }

    /// The limit never falls below this, probes included: 1 unless set.
    #[must_use]
    pub const fn min(mut self, min: usize) -> Self {
        self.min = min;
        self
    }

    /// The limit never rises above this: 10,000 unless set.
    #[must_use]
    pub const fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Sets the limit within its range; the next cohort starts now.
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    fn set(&mut self, limit: f64, now: Timestamp) {
        self.limit = limit.max(self.min as f64).min(self.max as f64).max(1.0);
        self.cohort = Some(Cohort::open(now, self.samples_wanted));
    }

    fn probe(&mut self, now: Timestamp) {
        self.phase = Phase::Probe;
        self.cohort = Some(Cohort::open(now, self.samples_wanted));
    }

    /// What was measured at the limit, or below it.
    fn watched(&mut self, point: Point) {
        self.samples_wanted = point.samples_wanted;
        let now = point.at;
        if point.overloads >= REFUSED {
            return self.set(self.limit * 0.9, now);
        }
        if let Some(high) = self.high
            && (high.concurrency / point.concurrency).ln().abs() < 0.2
            && (high.ln_rtt - point.ln_rtt).abs() > SHIFT + high.error + point.error
        {
            self.low = None;
            self.gap = SHORTEST_GAP;
        }
        if point.saturation < 0.1 {
            // Not at its limit: a lull, which is a lower point for free if it is low enough.
            if point.concurrency < 0.75 * self.limit {
                self.low = Some(point);
            }
            self.high = None;
            return self.set(self.limit, now);
        }
        self.high = Some(point);
        self.decide(now);
    }

    /// Moves the limit by what both points say, or asks for the one that is missing.
    fn decide(&mut self, now: Timestamp) {
        let Some(high) = self.high else { return };
        let known = self.low.filter(|low| {
            let ratio = low.concurrency / high.concurrency;
            (0.3..=0.75).contains(&ratio) && now.since(low.at) <= self.gap
        });
        let Some(low) = known else {
            // The very first points: there is nothing to compare with, and a step up makes the first a lower one.
            if !std::mem::replace(&mut self.started, true) {
                self.low = Some(high);
                return self.set(self.limit * 2.0, now);
            }
            return self.probe(now);
        };
        // As if the lower point were at exactly half.
        let halvings = (high.concurrency / low.concurrency).log2();
        let g = ((high.ln_rtt - low.ln_rtt) / halvings).exp();
        let margin = (high.error.hypot(low.error) / halvings).exp();
        let fresh = now.since(low.at) <= SHORTEST_GAP / 2;
        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
        let at_max = self.limit >= self.max as f64;
        if g < FLAT && high.saturation > 0.5 && !at_max {
            self.low = Some(high);
            self.set(self.limit * 2.0, now);
        } else if g * margin < TARGET && !at_max {
            self.set(self.limit * (TARGET / (g * margin)).powf(GAIN).min(2.0), now);
        } else if g / margin <= TARGET {
            self.gap = (self.gap * 2).min(LONGEST_GAP);
            self.set(self.limit, now);
        } else if !fresh {
            self.probe(now);
        } else if g > FLOODED {
            self.set(self.limit * 0.55, now);
        } else {
            self.set(self.limit * (TARGET * margin / g).powf(GAIN), now);
        }
    }

    /// Whether a probe takes so much longer than it should that nothing seems to move any more.
    fn is_stuck(&self, now: Timestamp) -> bool {
        let usual = self.high.map_or(0.0, |high| high.ln_rtt.exp() / 1e9);
        let patience = Duration::try_from_secs_f64(20.0 * usual).unwrap_or(LONGEST_GAP).max(Duration::from_secs(2));
        self.cohort.as_ref().is_some_and(|cohort| cohort.age(now) > patience)
    }

    fn probed(&mut self, point: Point) {
        self.phase = Phase::Watch;
        self.low = Some(point);
        self.decide(point.at);
        if self.phase == Phase::Watch && self.cohort.is_none() {
            self.set(self.limit, point.at);
        }
    }
}

impl Law for TwoPoint {
    fn limit(&self) -> usize {
        let limit = if self.phase == Phase::Probe { self.limit / 2.0 } else { self.limit };
        clamp_to_limit(limit, self.min, self.max)
    }

    fn on_sample(&mut self, sample: &Sample) {
        let limit = self.limit();
        let wanted = self.samples_wanted;
        if self.phase == Phase::Probe && self.is_stuck(sample.end) {
            self.phase = Phase::Watch;
            return self.set(self.limit / 2.0, sample.end);
        }
        let cohort = self.cohort.get_or_insert_with(|| Cohort::open(Timestamp::ZERO, wanted));
        if let Some(point) = cohort.add(sample, limit) {
            self.cohort = None;
            match self.phase {
                Phase::Watch => self.watched(point),
                Phase::Probe => self.probed(point),
            }
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.min == 0 {
            problems.push(Problem::new("two_point.min", "found 0, allowed is 1 or more"));
        }
        if self.max < self.min {
            problems.push(Problem::new(
                "two_point.max",
                format!("found {}, allowed is min ({}) or more", self.max, self.min),
            ));
        }
        problems
    }
}
