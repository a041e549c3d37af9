//! Delay that concurrency does not explain: where an answer takes longer downstream, in a network say, all requests take that much longer,
//! however few there are.
//!
//! # Why it has to be left out
//!
//! With a delay `D` in each answer a server that runs `n'` requests has `n = n' + X D` of them under way, and latency is `R = R' + D`. With
//! a long `D` latency hardly depends on `n`, up to the limit at which the server behind the delay is flooded: on a server that congests,
//! `g` is 1.06 at the best limit where `D` is fifteen times the time of a request, and twice that limit has an eighth of the throughput. So
//! `g` is taken where the crowd is, from `R - D` and `n - X D`.
//!
//! # How large it is
//!
//! `R'` of few requests is known from before: the least of what cohorts took in the last minute or two. What the lower point took beyond
//! that is delay. That holds only where latency doesn't depend on concurrency otherwise: a server that became slower by itself has its `g`,
//! and a throughput that fell.
//!
//! # How far the limit may grow at once
//!
//! Where most of an answer is delay, `g` says nothing until the server behind the delay is flooded, which is too late. What the server has
//! shown says more: where an answer takes `R`, a throughput of `X` takes a limit of `X R`. Up to the highest throughput of late the limit
//! may double. Beyond it the limit grows by small steps, for as long as the throughput follows. The throughput is remembered over lulls. So
//! it is for each growth, also for that which makes room for requests that come by chance: the room is filled by the next burst, and the
//! server behind the delay with it.

use std::time::Duration;

use super::point::{Comparison, Point};
use crate::Timestamp;

/// Time after which the least and the most are found anew; two such times are looked at.
const EPOCH: Duration = Duration::from_secs(60);
/// Weights of a cohort in the moving averages of which the least or the most counts: that of single cohorts would be luck.
const WEIGHT: f64 = 0.2;
const WEIGHT_OF_THROUGHPUT: f64 = 0.3;
/// Part of requests that a cohort has to have answered to tell how fast the server is.
const ANSWERED: f64 = 0.9;
/// A lower point this many times slower than the server alone has a delay.
const DELAYED: f64 = 2.0;
/// Answers that take so many times as long as the server alone takes are slow. From 2 to 5 the law does as well.
const SLOW: f64 = 3.0;
/// Answers that take at most so many times as long as the server alone takes are quick. With 1.5 the law lost 0.17 ± 0.14 points after trouble.
const QUICK: f64 = 1.25;
/// Part of the highest throughput of late below which the server itself became slower.
const UNHURT: f64 = 0.6;
/// Growth by less than this would tell nothing.
const LEAST_GROWTH: f64 = 1.05;
/// Where the lower point is slower than the server alone by this factor, the limit doubles only up to this part of the
/// throughput that was shown, and grows by steps of this size from there.
const LONGER: f64 = 1.5;
const SHOWN: f64 = 0.9;
const SMALL_STEP: f64 = 1.15;
/// Starts that are spread may come this many times as fast as answers do. From 1.2 to 2 times the law does as well.
const QUICKER: f64 = 1.5;
/// Requests that scatter less, relative to the square of their mean, hardly scatter.
const LITTLE: f64 = 0.02;
/// What fewer points have shown may be luck, and at a cold start there is more to come.
const FEWEST_POINTS: u32 = 10;

/// Moving averages; or the least one of the round-trip time within an epoch, the variance then, and the highest throughput.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rtt: f64,
    /// Of single requests.
    variance: f64,
    throughput: f64,
}

impl Seen {
    const NOTHING: Self = Self { rtt: 0.0, variance: 0.0, throughput: 0.0 };
    const EMPTY: Self = Self { rtt: f64::INFINITY, ..Self::NOTHING };
}

/// What the server can do without a delay, as far as it has shown that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    average: Seen,
    points: u32,
    /// In this epoch, and in the one before.
    now: Seen,
    before: Seen,
    since: Timestamp,
}

impl Shown {
    pub(super) const NOTHING: Self =
        Self { average: Seen::NOTHING, points: 0, now: Seen::EMPTY, before: Seen::EMPTY, since: Timestamp::ZERO };

    /// Learns from each point.
    pub(super) fn learn(&mut self, point: &Point) {
        if point.answered < ANSWERED {
            return;
        }
        if point.at.since(self.since) > EPOCH {
            (self.before, self.now, self.since) = (self.now, Seen::EMPTY, point.at);
        }
        let average = |last: f64, new: f64, weight: f64| if last > 0.0 { last + (new - last) * weight } else { new };
        let Seen { rtt, variance, throughput } = &mut self.average;
        *rtt = average(*rtt, point.rtt, WEIGHT);
        *throughput = average(*throughput, point.concurrency / point.rtt, WEIGHT_OF_THROUGHPUT);
        *variance = average(*variance, point.variance(), WEIGHT);
        self.points = self.points.saturating_add(1);
        if *rtt < self.now.rtt {
            (self.now.rtt, self.now.variance) = (*rtt, *variance);
        }
        self.now.throughput = self.now.throughput.max(*throughput);
    }

    /// Whether answers that take this long take much longer than the server alone takes: by a delay, or in a queue.
    pub(super) fn is_slow(&self, rtt: f64) -> bool {
        rtt > SLOW * self.best().rtt
    }

    /// Whether an answer that takes this long takes hardly longer than the server alone.
    pub(super) fn is_quick(&self, rtt: f64) -> bool {
        self.best().rtt.is_finite() && rtt <= QUICK * self.best().rtt
    }

    /// Whether a lower point says that most of an answer is delay: few requests take much longer than they do alone, and scatter no
    /// more for it. A server that became slower stretches the scatter as well, by the square. Where requests hardly scatter, that
    /// can't be told, and it is taken for delay.
    pub(super) fn is_delay(&self, low: &Point) -> bool {
        let alone = self.best();
        let scatters = alone.variance > LITTLE * alone.rtt * alone.rtt;
        let is_stretched = scatters && low.variance() >= alone.variance * low.rtt / alone.rtt;
        self.is_slow(low.rtt) && !is_stretched
    }

    /// Returns the least time from one start to the next where answers take `rtt`: starts may come half again as fast as the limit
    /// brings answers. Nothing is spread where an answer takes about as long as the server alone, and one start in that time
    /// floods no server.
    pub(super) fn gap(&self, rtt: f64, limit: f64) -> Duration {
        let alone = self.best().rtt;
        let delay = (rtt - LONGER * alone).max(0.0);
        Duration::from_nanos((delay / (QUICKER * limit)).min(alone) as u64)
    }

    /// Returns the times of the server alone, and its highest throughput.
    const fn best(&self) -> Seen {
        let alone = if self.now.rtt < self.before.rtt { self.now } else { self.before };
        Seen { throughput: self.now.throughput.max(self.before.throughput), ..alone }
    }

    /// Returns the limit that was enough for most of the highest throughput, where an answer takes `rtt`.
    pub(super) const fn limit(&self, rtt: f64) -> f64 {
        SHOWN * self.best().throughput * rtt
    }

    /// Returns by what factor a limit may grow at once.
    pub(super) fn most_growth(&self, limit: f64, high: &Point, low: &Point) -> f64 {
        let is_bounded = low.rtt > LONGER * self.best().rtt && self.points >= FEWEST_POINTS;
        if is_bounded { (self.limit(high.rtt) / limit).max(SMALL_STEP) } else { f64::INFINITY }
    }

    /// Returns the delay, if both points say that there is one.
    pub(super) fn delay(&self, high: &Point, low: &Point, comparison: &Comparison, target: f64) -> Option<Delay> {
        let Seen { rtt: alone, throughput: most, .. } = self.best();
        let is_delayed =
            low.rtt > DELAYED * alone && comparison.g < target && high.concurrency / high.rtt > UNHURT * most;
        is_delayed.then(|| Delay { delay: low.rtt - alone, alone, crowd: (high.rtt - low.rtt).max(0.0) })
    }
}

/// A delay, the time of a request without it, and by how much the upper point is slower.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    delay: f64,
    alone: f64,
    crowd: f64,
}

impl Delay {
    /// Returns both points as the server sees them.
    pub(super) fn inside(&self, high: &Point, low: &Point) -> (Point, Point) {
        let within =
            |point: &Point, rtt: f64| Point { concurrency: point.concurrency * rtt / point.rtt, rtt, ..*point };
        (within(high, self.alone + self.crowd), within(low, self.alone))
    }

    /// Returns by how much the limit grows so that the server has `factor` times as many requests, all of them
    /// together: those that are under way besides grow by no more than the throughput.
    pub(super) fn growth(&self, factor: f64) -> f64 {
        let rtt = self.alone + self.crowd;
        // On the most crowded of servers latency grows by the square: a doubling brought three quarters of that.
        let then = rtt + self.crowd * 4.0 / 3.0 * (factor * factor - 1.0);
        (factor * (1.0 + self.delay / then) / (1.0 + self.delay / rtt)).max(LEAST_GROWTH)
    }
}
