//! What is known of the curve, and where the limit goes by that.

use std::time::Duration;

use super::{
    LimitInputs,
    point::{Comparison, ERRORS, PLAIN_ERRORS, Point, SOME_DEMAND, Scatter},
    rules::{Rule, Rules},
    space::Shown,
};
use crate::Timestamp;

/// A mean is known well enough at a relative standard error of 10 %, if that doesn't take too many samples.
const WANTED_ERROR: f64 = 0.1;
/// Fewest and most samples that a cohort takes.
const FEWEST: f64 = 16.0;
const MOST: f64 = 100.0;
/// After this number of nanoseconds, or of times as long as a request takes, a cohort makes do with fewer samples:
/// a better mean that comes later is about a server that may be another one by then.
const LONG_ENOUGH: f64 = 2e9;
const FEWEST_ROUNDS: f64 = 2.0;
/// Where the law wants `g`: between "halving costs half" and "halving costs nothing". Throughput hardly depends on the
/// limit near there, so within some distance of it the limit stays.
pub(super) const TARGET: f64 = 1.5;
const LOW_ENOUGH: f64 = 1.35;
const HIGH_ENOUGH: f64 = 1.7;
const GAIN: f64 = 0.7;
/// Where an answer takes less than this part of the time that callers wait, latency is no reason to cut the limit: only a
/// throughput that falls is, which is a `g` above 2.
const UNNOTICED: f64 = 0.1;
const FALLS: f64 = 2.0;
/// A lower point has at most this part of the concurrency.
pub(super) const LOW: f64 = 0.75;
/// Below this `g` latency hardly depends on the limit.
const FLAT: f64 = 1.15;
/// Above this `g` a single cohort is enough to see that the limit is too high.
const STEEP: f64 = 2.2;
/// A server that is only too crowded hardly reaches this `g`. More means that the server became slower since the lower
/// point, or that the lower point is from before the crowd.
const IMPLAUSIBLE: f64 = 3.0;
/// Twice as many requests take at most that many times as long, on a server that is only too crowded.
const STEEPEST: f64 = 4.0;
/// The gap between probes while things change, and where they find nothing new.
pub(super) const SHORTEST_GAP: Duration = Duration::from_secs(5);
pub(super) const LONGEST_GAP: Duration = Duration::from_secs(40);
/// A lower point is good for this many times as long as it takes to measure the upper one, or for the gap between probes.
const LASTS: u32 = 5;
/// From this part of late requests on the limit is too high.
const LATE: f64 = 0.2;
/// A limit of this many times what runs on average has room for requests that come by chance.
const ROOM: f64 = 2.0;
/// From this relative variance of single requests on they scatter much.
pub(super) const MUCH: f64 = 0.8;
/// A limit that stood for so many cohorts is tried half again as high where `g` is this unsure. Where work comes in stretches of
/// light and of heavy requests, a probe is about one of them and the limit about many, so a limit of two could stay for ever. What
/// was pooled for so long is the surest lower point that there is. After half as many cohorts single scenarios lose up to 37 points. From
/// an error of 0.1 on the step costs 0.2 points, and half a point however sure `g` is; from 0.25 on twice as many outages take long.
const STOOD: u32 = 16;
const UNSURE: f64 = 0.15;
/// Of fewer slots a long request holds a good part. So a limit that requests meet grows to this one also where that brings nothing,
/// as long as callers don't notice. With eight, single scenarios lose up to 23 points.
const DEAR: f64 = 4.0;
/// A lower point that old is good enough to cut by.
const FRESH: Duration = Duration::from_secs(3);
/// Concurrency is the same within this, as a logarithm.
const SAME: f64 = 0.15;
/// From this part of requests on that took the last slot, the limit is what holds the server back and may double.
const DEMAND: f64 = 0.25;

/// What is known of the curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Point that was measured at about half of the present concurrency.
    pub(super) low: Option<Point>,
    /// Time for which it is good, and until the next probe.
    pub(super) gap: Duration,
    /// Point that was measured last at the limit.
    pub(super) high: Option<Point>,
    /// Whether there was ever something to compare with.
    pub(super) started: bool,
    /// Whether most of an answer is delay, by the lower point.
    pub(super) is_delayed: bool,
    /// Mean round-trip time of what was answered of late, and mean time that a slot was taken.
    pub(super) usual: f64,
    pub(super) pace: f64,
    pub(super) scatter: Scatter,
    /// What the server has shown that it can do.
    pub(super) shown: Shown,
    /// Nanoseconds for which callers wait for an answer; 0 where that is not known.
    pub(super) patience: f64,
    pub(super) rules: Rules,
}

/// What becomes of the limit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Stay,
    /// It stays, and doubles no more.
    Settle,
    /// It stays, and the upper point says nothing any more.
    Forget,
    /// A lower point is missing.
    Probe,
    Double(f64),
    MakeRoom,
    Grow(f64),
    /// Back to a limit before a step that was too much.
    GoBack(f64),
    Cut(f64),
}

impl Curve {
    pub(super) const UNKNOWN: Self = Self {
        low: None,
        gap: SHORTEST_GAP,
        high: None,
        started: false,
        is_delayed: false,
        usual: 0.0,
        pace: 0.0,
        scatter: Scatter::NONE,
        shown: Shown::NOTHING,
        patience: 0.0,
        rules: Rules::ALL,
    };

    /// Learns from each point how long requests take and how much they scatter.
    pub(super) fn learn(&mut self, point: &Point) {
        self.usual = if point.answer > 0.0 { point.answer } else { self.usual };
        self.pace = point.pace;
        self.shown.learn(point);
        self.scatter.learn(point, self.shown.is_slow(self.usual), self.rules);
    }

    /// Returns how many samples a cohort takes under this limit: few slots take long to give many.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "limits are far below 2^52, and a conversion that overflows saturates"
    )]
    pub(super) fn wanted(&self, limit: usize) -> u32 {
        let rounds = (LONG_ENOUGH / self.pace.max(1.0)).max(FEWEST_ROUNDS);
        let samples = (self.scatter.of_late / (WANTED_ERROR * WANTED_ERROR)).clamp(FEWEST, MOST);
        samples.min((limit as f64 * rounds).max(FEWEST)) as u32
    }

    /// Whether answers take much longer than the server alone.
    pub(super) fn is_slow(&self) -> bool {
        self.shown.is_slow(self.usual)
    }

    /// Whether answers are slow, and a good part of them comes too late. Where work of callers that left goes on in the server, both
    /// points wait behind it, and `g` is 1. Callers that leave sooner say nothing of that.
    pub(super) fn comes_late(&self, point: &Point) -> bool {
        point.late >= LATE && self.shown.is_slow(point.answer) && self.rules.has(Rule::Late)
    }

    /// Takes an upper point.
    pub(super) fn watched(&mut self, point: Point) {
        let is_same = |high: &Point| (high.concurrency / point.concurrency).ln().abs() < SAME;
        let same = self.high.filter(|high| is_same(high) && self.rules.has(Rule::Pool));
        self.high = Some(same.map_or(point, |high| high.pooled(&point)));
    }

    /// Takes note of a limit that grew: its lower point is whichever is nearer to half of it.
    pub(super) fn grown_to(&mut self, limit: f64) {
        let distance = |point: &Point| (point.concurrency / (limit / 2.0)).ln().abs();
        let points = self.low.into_iter().chain(self.high.take());
        self.low = points.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    }

    /// Returns by what factor this limit may grow at once.
    pub(super) fn most_growth(&self, limit: f64) -> f64 {
        let points = self.high.zip(self.low).filter(|_| self.rules.has(Rule::Shown));
        points.map_or(f64::INFINITY, |(high, low)| self.shown.most_growth(limit, &high, &low))
    }

    /// Returns the limit that brought the most answers of late, where most of an answer is delay; else 0.
    pub(super) fn limit_behind_delay(&self) -> f64 {
        let low = self.low.filter(|_| self.is_delayed && self.rules.has(Rule::Shown));
        low.map_or(0.0, |low| self.shown.limit(low.rtt))
    }

    /// Forgets what there is to compare with, and how much requests scattered.
    pub(super) fn begin_anew(&mut self) {
        (self.low, self.started, self.scatter) = (None, false, Scatter::NONE);
    }

    /// Where the limit goes, by what both points say; or that a point is missing. With the inputs of a comparison, if there was one.
    pub(super) fn decide(
        &mut self,
        now: Timestamp,
        limit: f64,
        grown_from: Option<f64>,
    ) -> (Move, Option<LimitInputs>) {
        self.is_delayed = self.low.map_or(self.is_delayed, |low| self.shown.is_delay(&low));
        let Some(high) = &self.high else { return (Move::Stay, None) };
        let has_started = std::mem::replace(&mut self.started, true);
        let comparison = |low: &Point| Comparison::new(high, low, self.scatter.of_late);
        // A lull says little about a burst, unless it was plainly faster: with fewer requests, or with as many.
        let is_crowded = |low: &Point| {
            let comparison = comparison(low);
            comparison.at_least() > TARGET || comparison.halvings <= 0.0 && high.at_least > low.rtt * TARGET
        };
        let starts = !has_started && !high.is_by_shares() && self.rules.has(Rule::Start);
        if limit < 2.0 || starts && !self.low.as_ref().is_some_and(is_crowded) {
            // There is nothing to compare with yet.
            return (Move::Double(2.0), None);
        }
        let lasts = self.gap.max(high.length.saturating_mul(LASTS));
        let known = self.low.as_ref().filter(|low| {
            let ratio = low.concurrency / high.concurrency;
            // However old: if it is hardly slower than with so much less, latency doesn't depend on the limit.
            let is_flat = high.rtt < low.rtt * FLAT && self.rules.has(Rule::Flat);
            ratio <= LOW && (is_flat || (ratio >= 0.3 && now.since(low.at) <= lasts))
        });
        let Some(low) = known else {
            let is_room = high.saturation.max(high.refused) < DEMAND && self.rules.has(Rule::Room);
            return (if is_room { self.room(limit, high) } else { Move::Probe }, None);
        };
        let plain = comparison(low);
        let inputs = LimitInputs::of_nanos(high.rtt, low.rtt).ratio(plain.g);
        (self.compare(now, limit, grown_from, (high, low), plain), Some(inputs))
    }

    /// Where the limit goes, by two points that can be compared.
    fn compare(
        &self,
        now: Timestamp,
        limit: f64,
        grown_from: Option<f64>,
        (high, low): (&Point, &Point),
        plain: Comparison,
    ) -> Move {
        let delay = self.shown.delay(high, low, &plain, TARGET).filter(|_| self.rules.has(Rule::Space));
        let comparison = delay.map_or(plain, |delay| {
            let (high, low) = delay.inside(high, low);
            Comparison::new(&high, &low, self.scatter.of_late)
        });
        let Comparison { g, margin, .. } = comparison;
        let growth = |factor: f64| delay.map_or(factor, |delay| delay.growth(factor));
        // A point from a lull and the first one after it, when concurrency was still rising, look flatter than they
        // are.
        let settled = low.saturation >= SOME_DEMAND || high.cohorts > 1 || !self.rules.has(Rule::Settled);
        let just_probed = low.at == now;
        let is_plain = comparison.at_least() > STEEP && high.at_least > low.rtt * TARGET;
        // What a cut costs that was not due: where requests scatter, the law finds that out late, and where shares of the limit refuse
        // requests, the shares shrink at once. Elsewhere the next comparison finds it out.
        let is_costly = self.scatter.of_late.max(high.scatter) > MUCH || high.refused > high.saturation;
        let errors = if is_costly && self.rules.has(Rule::Evidence) { PLAIN_ERRORS } else { ERRORS };
        let is_implausible = g > IMPLAUSIBLE && !just_probed && self.rules.has(Rule::Implausible);
        let is_old = now.since(low.at) > FRESH.max(high.length.saturating_mul(2)) && self.rules.has(Rule::Fresh);
        let is_unnoticed = high.rtt < UNNOTICED * self.patience && self.rules.has(Rule::Unnoticed);
        let (high_enough, errors) = if is_unnoticed { (FALLS, PLAIN_ERRORS) } else { (HIGH_ENOUGH, errors) };
        if just_probed && g < 1.0 / FLAT && self.rules.has(Rule::Slower) {
            // Slower with fewer requests: the environment became slower in between.
            Move::Forget
        } else if g < FLAT * margin.sqrt() && high.saturation > DEMAND && settled {
            Move::Double(growth(2.0))
        } else if g * margin < LOW_ENOUGH && settled {
            // Behind shares of the limit twice what runs is enough, unless it is plain that the server is idle.
            let is_enough = high.is_by_shares() && limit >= high.counted * ROOM && g * margin > FLAT;
            if is_enough { Move::Settle } else { Move::Grow(growth((TARGET / g).powf(GAIN).min(2.0))) }
        } else if !comparison.is_above(high_enough, errors) {
            let is_unsure = high.cohorts >= STOOD && comparison.error > UNSURE && self.rules.has(Rule::Doubt);
            let is_unnoticed_after = high.rtt * TARGET < UNNOTICED * self.patience;
            let is_dear = limit < DEAR && is_unnoticed_after && self.rules.has(Rule::Dear);
            if (is_unsure || is_dear) && high.saturation > DEMAND { Move::Grow(growth(TARGET)) } else { Move::Settle }
        } else if let Some(before) = grown_from.filter(|_| is_plain && self.rules.has(Rule::Back)) {
            Move::GoBack(before)
        } else if is_implausible || is_old {
            Move::Probe
        } else {
            Move::Cut((TARGET / g.min(STEEPEST)).powf(GAIN))
        }
    }

    /// Raises a limit that is low for the requests that come by chance: room for them costs nothing, and a probe would
    /// reject more. Behind shares of the limit there is no such bound: room comes by the share only.
    fn room(&self, limit: f64, high: &Point) -> Move {
        let is_slower = self.low.is_some_and(|low| high.rtt > low.rtt * TARGET);
        let is_enough = limit >= high.counted * ROOM && !high.is_by_shares();
        if is_slower || is_enough { Move::Stay } else { Move::MakeRoom }
    }
}
