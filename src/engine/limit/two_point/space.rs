//! Delay that concurrency does not explain: where an answer takes longer downstream, in a network say, all requests take
//! that much longer, however few there are.
//!
//! # Why it has to be left out
//!
//! With a delay `D` in each answer a server that runs `n'` requests has `n = n' + X D` of them under way, and latency is
//! `R = R' + D`. With a long `D` latency hardly depends on `n`, up to the limit at which the server behind the delay is
//! flooded: on a server that congests, `g` is 1.06 at the best limit where `D` is fifteen times the time of a request,
//! and twice that limit has an eighth of the throughput. So `g` is taken where the crowd is, from `R - D` and `n - X D`.
//!
//! # How large it is
//!
//! `R'` of few requests is known from before: the least of what cohorts took in the last minute or two. What the lower
//! point took beyond that is delay. That holds only where latency doesn't depend on concurrency otherwise: a server
//! that became slower by itself has its `g`, and a throughput that fell.

use std::time::Duration;

use super::point::{Comparison, Point};
use crate::time::Timestamp;

/// Time after which the least and the most are found anew; two such times are looked at.
const EPOCH: Duration = Duration::from_secs(60);
/// Weight of a cohort in the moving average of which the least counts: the least of single cohorts would be luck.
const WEIGHT: f64 = 0.2;
/// Part of requests that a cohort has to have answered to tell how fast the server is.
const ANSWERED: f64 = 0.9;
/// A lower point so many times slower than the server alone has a delay.
const DELAYED: f64 = 2.0;
/// Part of the highest throughput of late below which the server itself became slower.
const UNHURT: f64 = 0.6;
/// Growth by less than this would tell nothing.
const LEAST_GROWTH: f64 = 1.05;

/// What was seen within an epoch.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Least moving average of the round-trip time.
    rtt: f64,
    /// Highest throughput.
    throughput: f64,
}

impl Epoch {
    const EMPTY: Self = Self { rtt: f64::INFINITY, throughput: 0.0 };
}

/// What the server can do without a delay, as far as it has shown that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    average: f64,
    now: Epoch,
    before: Epoch,
    since: Timestamp,
}

impl Shown {
    pub(super) const NOTHING: Self =
        Self { average: 0.0, now: Epoch::EMPTY, before: Epoch::EMPTY, since: Timestamp::ZERO };

    /// Learns from each point.
    pub(super) fn learn(&mut self, point: &Point) {
        if point.answered < ANSWERED {
            return;
        }
        if point.at.since(self.since) > EPOCH {
            (self.before, self.now, self.since) = (self.now, Epoch::EMPTY, point.at);
        }
        let last = if self.average > 0.0 { self.average } else { point.rtt };
        self.average = last + (point.rtt - last) * WEIGHT;
        self.now.rtt = self.now.rtt.min(self.average);
        self.now.throughput = self.now.throughput.max(point.concurrency / point.rtt);
    }

    /// Returns the delay, if both points say that there is one.
    pub(super) fn delay(&self, high: &Point, low: &Point, comparison: &Comparison, target: f64) -> Option<Delay> {
        let alone = self.now.rtt.min(self.before.rtt);
        let most = self.now.throughput.max(self.before.throughput);
        let is_delayed =
            low.rtt > DELAYED * alone && comparison.g < target && high.concurrency / high.rtt > UNHURT * most;
        is_delayed.then_some(Delay { delay: low.rtt - alone, alone })
    }
}

/// A delay, and the time of a request without it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    delay: f64,
    alone: f64,
}

impl Delay {
    /// Returns both points as the server sees them.
    pub(super) fn inside(&self, high: &Point, low: &Point) -> (Point, Point) {
        let within =
            |point: &Point, rtt: f64| Point { concurrency: point.concurrency * rtt / point.rtt, rtt, ..*point };
        (within(high, self.alone + (high.rtt - low.rtt).max(0.0)), within(low, self.alone))
    }

    /// Returns by how much the limit grows so that the server has `factor` times as many requests, all of them
    /// together: those that are under way besides grow by no more than the throughput.
    pub(super) fn growth(&self, high: &Point, low: &Point, factor: f64) -> f64 {
        let crowd = (high.rtt - low.rtt).max(0.0);
        let rtt = self.alone + crowd;
        // On the most crowded of servers latency grows by the square: a doubling brought three quarters of that.
        let then = rtt + crowd * 4.0 / 3.0 * (factor * factor - 1.0);
        (factor * (1.0 + self.delay / then) / (1.0 + self.delay / rtt)).max(LEAST_GROWTH)
    }
}
