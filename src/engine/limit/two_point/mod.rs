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
//! cohort the limit is half of what ran. A probe lasts for a few round-trip times. The next one comes after 5 s, and after
//! twice as long, 40 s at most, each time that a probe finds the limit right; a limit that moves starts anew. So a steady
//! overload has few of them, and a changing one pays: see the table in [`docs::tuning`](crate::docs::tuning).
//!
//! *No cut without a probe.* If the environment becomes slower, a downstream service say, both points rise and `g` stays:
//! a limit that falls then would throw away throughput that is there. Only a fresh lower point tells the two apart. A
//! probe that can't finish, because nothing does any more, is a cut.
//!
//! # What else keeps it honest
//!
//! - *It grows only on demand*: at least a tenth of the requests must have met the limit.
//! - *Slow start*: while `g < 1.15` and many requests meet the limit, it doubles. The point before the doubling is the
//!   lower point after it, so this needs no probes.
//! - *Noise margin*: 1.5 is widened by the standard error of both points on either side; within, the limit stays.
//! - *A shift at equal concurrency clears the lower point*: latency that changed without the limit having changed is news
//!   about the environment, and comparing across it would be comparing apples with oranges.

mod cohort;

use std::time::Duration;

use self::cohort::{Cohort, Point};
use super::{Law, Sample, clamp_to_limit, range_problems};
use crate::{problem::Problem, time::Timestamp};

/// Finds the limit by itself, without a threshold: compares latency at the limit with latency at half of it.
///
/// Starts at 20, within 1 and 10,000, unless told otherwise.
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

/// Where the law wants `g`: between "halving costs half" and "halving costs nothing". Throughput hardly depends on the
/// limit near there, so within some distance of it the limit stays.
const TARGET: f64 = 1.5;
const LOW_ENOUGH: f64 = 1.35;
const HIGH_ENOUGH: f64 = 1.7;
const GAIN: f64 = 0.7;
/// Below this latency hardly depends on the limit.
const FLAT: f64 = 1.15;
/// Above this half of the limit is as good.
const FLOODED: f64 = 1.85;
const SHORTEST_GAP: Duration = Duration::from_secs(5);
const LONGEST_GAP: Duration = Duration::from_secs(40);
/// A lower point that is further below than this many halvings tells little about the last of them: latency grows slowly
/// at first.
const FAR: f64 = 1.35;
/// A lower point that old is good enough to cut by.
const FRESH: Duration = Duration::from_secs(3);
/// A change of latency by more than this at the same concurrency is one of the environment.
const SHIFT: f64 = 0.4;
/// From this part of refused requests on, the service says itself that it is too much.
const REFUSED: f64 = 0.05;
/// From this part of requests on that took the last slot, the limit is what holds the server back and may double.
const DEMAND: f64 = 0.25;
/// From this part on it turns some away by chance.
const SOME_DEMAND: f64 = 0.02;

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

    /// Half of what ran, which may be less than half of the limit.
    fn probed_limit(&self) -> f64 {
        self.high.map_or(self.limit, |high| high.concurrency.min(self.limit)) / 2.0
    }

    /// Asks for a lower point. A probe that brought none that can be compared is not repeated at once.
    fn probe(&mut self, now: Timestamp) {
        if self.low.is_some_and(|low| low.at == now) {
            return self.set(self.limit, now);
        }
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
        let same = self.high.filter(|high| (high.concurrency / point.concurrency).ln().abs() < 0.15);
        let shifted = same.is_some_and(|high| (high.ln_rtt - point.ln_rtt).abs() > SHIFT + high.error + point.error);
        if shifted {
            self.low = None;
            self.gap = SHORTEST_GAP;
        }
        if point.saturation < SOME_DEMAND {
            // Not at its limit: a lull, which is a lower point for free if it is low enough.
            if point.concurrency < 0.75 * self.limit {
                self.low = Some(point);
            }
            self.high = None;
            return self.set(self.limit, now);
        }
        self.high = Some(same.filter(|_| !shifted).map_or(point, |high| high.pooled(&point)));
        self.decide(now);
    }

    /// Moves the limit by what both points say, or asks for the one that is missing.
    fn decide(&mut self, now: Timestamp) {
        let Some(high) = self.high else { return self.set(self.limit, now) };
        if !std::mem::replace(&mut self.started, true) || self.limit < 2.0 {
            // There is nothing to compare with yet.
            return self.double(now);
        }
        let known = self.low.filter(|low| {
            (0.3..=0.75).contains(&(low.concurrency / high.concurrency)) && now.since(low.at) <= self.gap
        });
        let Some(low) = known else { return self.probe(now) };
        // As if the lower point were at exactly half.
        let halvings = (high.concurrency / low.concurrency).log2();
        let g = ((high.ln_rtt - low.ln_rtt) / halvings).exp();
        let margin = (high.error.hypot(low.error) / halvings).exp();
        // A point from a lull and the first one after it, when concurrency was still rising, look flatter than they are.
        let settled = low.saturation >= SOME_DEMAND || high.cohorts > 1;
        if g < FLAT * margin.sqrt() && high.saturation > DEMAND && settled {
            self.double(now);
        } else if g * margin < LOW_ENOUGH && settled {
            self.grow((TARGET / g).powf(GAIN).min(2.0), now);
        } else if halvings > FAR {
            self.probe(now);
        } else if g / margin <= HIGH_ENOUGH || high.cohorts < 2 {
            self.set(self.limit, now);
        } else if now.since(low.at) > FRESH {
            self.probe(now);
        } else if g > FLOODED {
            self.cut(0.55, now);
        } else {
            self.cut((TARGET / g).powf(GAIN), now);
        }
    }

    fn grow(&mut self, factor: f64, now: Timestamp) {
        let limit = (self.limit * factor).max(self.limit + 1.0);
        // The lower point of the new limit is whichever is nearer to half of it.
        let distance = |point: &Point| (point.concurrency / (limit / 2.0)).ln().abs();
        self.low = self.low.into_iter().chain(self.high).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        self.high = None;
        self.set(limit, now);
    }

    /// Grows to where the present point is the lower one.
    fn double(&mut self, now: Timestamp) {
        if clamp_to_limit(self.limit, self.min, self.max) < self.max {
            self.grow(2.0, now);
        } else {
            self.set(self.limit, now);
        }
    }

    fn cut(&mut self, factor: f64, now: Timestamp) {
        self.high = None;
        self.gap = SHORTEST_GAP;
        self.set(self.limit * factor, now);
    }

    /// Whether a probe takes so much longer than it should that nothing seems to move any more.
    fn is_stuck(&self, now: Timestamp) -> bool {
        let Some((high, cohort)) = self.high.zip(self.cohort.as_ref()) else { return false };
        // Each of the requests wanted takes its turn in half of the slots, and the last ones have to end.
        let turns = f64::from(self.samples_wanted) / self.probed_limit().max(1.0) + 2.0;
        let usual = Duration::try_from_secs_f64(turns * high.ln_rtt.exp() / 1e9).unwrap_or(LONGEST_GAP);
        cohort.age(now) > usual.saturating_mul(4) + Duration::from_secs(1)
    }

    fn probed(&mut self, point: Point) {
        self.phase = Phase::Watch;
        self.low = Some(point);
        let before = self.limit;
        self.decide(point.at);
        // The limit was right: there is no hurry to ask again.
        #[expect(clippy::float_cmp, reason = "unchanged")]
        if self.limit == before {
            self.gap = (self.gap * 2).min(LONGEST_GAP);
        }
    }
}

impl Law for TwoPoint {
    fn limit(&self) -> usize {
        let limit = match self.phase {
            Phase::Probe => self.probed_limit(),
            Phase::Watch => self.limit,
        };
        clamp_to_limit(limit, self.min, self.max)
    }

    fn on_sample(&mut self, sample: &Sample) {
        let limit = self.limit();
        let wanted = self.samples_wanted;
        if self.phase == Phase::Probe && self.is_stuck(sample.end) {
            self.phase = Phase::Watch;
            return self.cut(0.5, sample.end);
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
        range_problems("two_point", self.min, self.max)
    }
}
