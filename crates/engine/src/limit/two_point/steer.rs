//! Where the limit goes: what the law makes of its two points.

use std::time::Duration;

use super::{
    Fall, LimitInputs, Phase, SHORTEST_GAP, Sample, TwoPoint, clamp_to_limit,
    cohort::nanos_f64,
    point::{Comparison, ERRORS, Point, SOME_DEMAND, Scatter},
    rest::Rest,
    rules::Rule,
};
use crate::{Outcome, Timestamp};

/// Where the law wants `g`: between "halving costs half" and "halving costs nothing". Throughput hardly depends on the
/// limit near there, so within some distance of it the limit stays.
const TARGET: f64 = 1.5;
const LOW_ENOUGH: f64 = 1.35;
const HIGH_ENOUGH: f64 = 1.7;
const GAIN: f64 = 0.7;
/// Where an answer takes less than this part of the time that callers wait, latency is no reason to cut the limit: only a
/// throughput that falls is, which is a `g` above 2.
const UNNOTICED: f64 = 0.1;
const FALLS: f64 = 2.0;
/// Below this `g` latency hardly depends on the limit.
const FLAT: f64 = 1.15;
/// Above this `g` a single cohort is enough to see that the limit is too high.
const STEEP: f64 = 2.2;
/// A server that is only too crowded hardly reaches this `g`. More means that the server became slower since the lower
/// point, or that the lower point is from before the crowd.
const IMPLAUSIBLE: f64 = 3.0;
/// Twice as many requests take at most that many times as long, on a server that is only too crowded.
const STEEPEST: f64 = 4.0;
/// A lower point is good for this many times as long as it takes to measure the upper one, or for the gap between probes.
const LASTS: u32 = 5;
/// From this part of late requests on the limit is too high, and what is left of it.
const LATE: f64 = 0.2;
pub(super) const LATE_CUT: f64 = 0.7;
/// What is left of a limit that brings next to no answers.
const DROWNED_CUT: f64 = 0.125;
/// Time for which the law is careful below a limit that was too high.
const REMEMBERED: Duration = Duration::from_secs(40);
/// A limit of this many times what runs on average has room for requests that come by chance.
const ROOM: f64 = 2.0;
/// Standard errors by which `g` has to be too high for a cut where a cut that was not due costs much: where requests scatter,
/// the law finds that out late, and where shares of the limit refuse requests, the shares shrink at once. Elsewhere the
/// next comparison finds it out.
const ERRORS_TO_CUT: f64 = 2.0;
/// From this relative variance of single requests on they scatter much.
const MUCH: f64 = 0.8;
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
/// From this part of rejected requests on, the service says itself that the limit is too high.
const REFUSED: f64 = 0.05;
/// A server is silent from so many requests on that left late, less two for each answer: even odds at a third of requests answered, which
/// is where half of the limit brings more than all of it. With 4 a process that stops is taken for silent; 8 bring less where a knee falls.
const SILENT: u32 = 6;
/// So many slow answers count against quick ones at most.
const MOST_SLOW: i8 = 4;
/// From this part of requests on that took the last slot, the limit is what holds the server back and may double.
const DEMAND: f64 = 0.25;

/// What becomes of the limit.
#[derive(Clone, Copy, Debug)]
enum Move {
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

/// What becomes of the limit, and the numbers by which that was decided.
#[derive(Clone, Copy, Debug)]
struct Decision {
    to: Move,
    basis: LimitInputs,
}

impl TwoPoint {
    /// Takes a point that was measured at the limit, or below it.
    pub(super) fn watched(&mut self, point: Point) {
        self.learn_scatter(&point);
        let now = point.at;
        self.basis = LimitInputs::of_nanos(point.rtt, f64::NAN);
        let grown_from = self.grown_from.take();
        self.is_idle = false;
        if point.drowns() && self.rules.has(Rule::Drowned) {
            // Before the limit grew there were answers. If there are none at that limit either, it falls as far as it must.
            return match grown_from.filter(|_| self.rules.has(Rule::Back)) {
                Some(before) => self.go_back(before, now),
                None => self.drowned(now),
            };
        }
        if self.comes_late(&point) {
            return match grown_from {
                Some(before) => self.go_back(before, now),
                None => self.cut(LATE_CUT, now),
            };
        }
        if point.overloads >= REFUSED {
            return self.set(self.limit * 0.9, now);
        }
        let is_same = |high: &Point| (high.concurrency / point.concurrency).ln().abs() < SAME;
        let same = self.high.filter(|high| is_same(high) && self.rules.has(Rule::Pool));
        if point.saturation.max(point.refused) < SOME_DEMAND {
            // The server is not at its limit: a lull, which is a lower point for free if it is low enough.
            let is_far = point.counted < 0.75 * self.limit;
            if is_far && self.rules.has(Rule::Lull) {
                self.low = Some(point);
            }
            self.high = None;
            (self.slow_start, self.is_idle) = (false, true);
            if is_far && self.rules.has(Rule::Rest) {
                self.rest = Rest::after(&point);
            }
            if self.rest == Rest::Over {
                self.set(self.limit, now);
            }
            return;
        }
        self.high = Some(same.map_or(point, |high| high.pooled(&point)));
        self.steer(now, grown_from);
    }

    /// Whether answers are slow, and a good part of them comes too late. Where work of callers that left goes on in the server, both
    /// points wait behind it, and `g` is 1. Callers that leave sooner say nothing of that.
    pub(super) fn comes_late(&self, point: &Point) -> bool {
        point.late >= LATE && self.shown.is_slow(point.answer) && self.rules.has(Rule::Late)
    }

    /// Takes a slot back where a caller leaves late while few requests are answered: work that goes on is joined by no more. What is
    /// left is as much as of a limit that drowns, and found out to be too much in the same way.
    pub(super) fn hear(&mut self, sample: &Sample) {
        let Some(rtt) = sample.rtt else { return };
        if sample.outcome == Outcome::Success {
            self.silence = self.silence.saturating_sub(2);
            if self.silence < SILENT || self.is_delayed {
                self.answered = self.limit;
            }
            self.reopen(sample, rtt);
        } else if sample.outcome == Outcome::Cancelled && self.usual > 0.0 && nanos_f64(rtt) >= self.usual {
            self.fall_silent(sample);
        }
    }

    /// Opens a slot that a fall closed, for a quick answer.
    fn reopen(&mut self, sample: &Sample, rtt: Duration) {
        let Some(fall) = self.fall.as_mut().filter(|fall| sample.start >= fall.at && self.limit < fall.from) else {
            return;
        };
        let step = if self.shown.is_quick(nanos_f64(rtt)) { 1 } else { -1 };
        // During a probe no slot is opened, however many answers come.
        fall.quick = fall.quick.saturating_add(step).max(-MOST_SLOW);
        if fall.quick > 0 && self.phase == Phase::Watch {
            fall.quick = 0;
            self.limit = (self.limit + 1.0).min(fall.from);
        }
    }

    #[cold]
    fn fall_silent(&mut self, sample: &Sample) {
        self.silence = (self.silence + 1).min(SILENT * 2);
        let least = (self.answered * DROWNED_CUT).max(1.0);
        let is_wanted = sample.running >= clamp_to_limit(self.limit, self.min, self.max);
        // Behind a delay, many leave at once for what was too much a delay ago.
        if self.silence < SILENT || self.is_delayed || !is_wanted || !self.rules.has(Rule::Silence) {
            return;
        }
        if self.limit - 1.0 > least {
            self.limit = (self.limit - 1.0).max(self.min as f64);
        } else if self.limit > least {
            self.phase = Phase::Watch;
            self.fell(self.answered, sample.end);
            self.begin_anew(least / self.limit, sample.end);
        }
    }

    /// Cuts the limit where hardly any request is answered. What brings nothing can't be lost, and the server has to
    /// get rid of what it has before it answers again; then the limit doubles as at the start. Behind a delay most of the limit is
    /// under way, and the server gets rid of the rest soon: so there the limit first falls to what brought the most answers of late.
    pub(super) fn drowned(&mut self, now: Timestamp) {
        let low = self.low.filter(|_| self.is_delayed && self.grew && self.rules.has(Rule::Shown));
        let left = low.map_or(0.0, |low| self.shown.limit(low.rtt) / self.limit);
        self.fell(self.limit, now);
        self.begin_anew(left.clamp(DROWNED_CUT, LATE_CUT), now);
    }

    /// Cuts the limit, and begins as at the start: how much requests scattered while the server fell is about that fall.
    fn begin_anew(&mut self, factor: f64, now: Timestamp) {
        (self.low, self.started) = (None, false);
        (self.scatters, self.scatter) = (Scatter::NONE, 0.0);
        let fall = Fall { from: self.answered, at: now, quick: 0 };
        self.cut(factor, now);
        self.fall = Some(fall).filter(|_| self.rules.has(Rule::Reopen));
    }

    /// Does what `decide` says.
    pub(super) fn steer(&mut self, now: Timestamp, grown_from: Option<f64>) {
        let Decision { to, basis } = self.decide(now, grown_from);
        self.started |= self.high.is_some();
        self.is_delayed = self.low.map_or(self.is_delayed, |low| self.shown.is_delay(&low));
        self.basis = basis;
        self.slow_start &= !matches!(to, Move::Settle | Move::Grow(_));
        self.high = self.high.filter(|_| !matches!(to, Move::Forget));
        match to {
            Move::Stay | Move::Settle | Move::Forget => self.set(self.limit, now),
            Move::Probe => self.probe(now),
            Move::Double(factor) => self.double(factor, now),
            Move::MakeRoom => self.grow(TARGET, now),
            Move::Grow(factor) => self.grow(factor, now),
            Move::GoBack(before) => self.go_back(before, now),
            Move::Cut(factor) => self.cut(factor, now),
        }
    }

    /// Where the limit goes, by what both points say; or that a point is missing.
    fn decide(&self, now: Timestamp, grown_from: Option<f64>) -> Decision {
        let by_known = |to| Decision { to, basis: self.basis };
        let Some(high) = self.high else { return by_known(Move::Stay) };
        // A lull says little about a burst, unless it was plainly faster: with fewer requests, or with as many.
        let is_crowded = |low: Point| {
            let comparison = Comparison::new(&high, &low, self.scatter);
            comparison.at_least() > TARGET || comparison.halvings <= 0.0 && high.at_least > low.rtt * TARGET
        };
        let starts = !self.started && !high.is_by_shares() && self.rules.has(Rule::Start);
        if self.limit < 2.0 || starts && !self.low.is_some_and(is_crowded) {
            // There is nothing to compare with yet.
            return by_known(Move::Double(2.0));
        }
        let lasts = self.gap.max(high.length.saturating_mul(LASTS));
        let known = self.low.filter(|low| {
            let ratio = low.concurrency / high.concurrency;
            // However old: if it is hardly slower than with so much less, latency doesn't depend on the limit.
            let is_flat = high.rtt < low.rtt * FLAT && self.rules.has(Rule::Flat);
            ratio <= 0.75 && (is_flat || (ratio >= 0.3 && now.since(low.at) <= lasts))
        });
        let Some(low) = known else {
            let is_room = high.saturation.max(high.refused) < DEMAND && self.rules.has(Rule::Room);
            return by_known(if is_room { self.room(&high) } else { Move::Probe });
        };
        let plain = Comparison::new(&high, &low, self.scatter);
        let basis = LimitInputs::of_nanos(high.rtt, low.rtt).ratio(plain.g);
        Decision { to: self.compare(now, grown_from, (&high, &low), plain), basis }
    }

    /// Where the limit goes, by two points that can be compared.
    fn compare(&self, now: Timestamp, grown_from: Option<f64>, points: (&Point, &Point), plain: Comparison) -> Move {
        let (high, low) = points;
        let delay = self.shown.delay(high, low, &plain, TARGET).filter(|_| self.rules.has(Rule::Space));
        let comparison = delay.map_or(plain, |delay| {
            let (high, low) = delay.inside(high, low);
            Comparison::new(&high, &low, self.scatter)
        });
        let Comparison { g, margin, .. } = comparison;
        let growth = |factor: f64| delay.map_or(factor, |delay| delay.growth(high, low, factor));
        // A point from a lull and the first one after it, when concurrency was still rising, look flatter than they
        // are.
        let settled = low.saturation >= SOME_DEMAND || high.cohorts > 1 || !self.rules.has(Rule::Settled);
        let just_probed = low.at == now;
        let is_plain = comparison.at_least() > STEEP && high.at_least > low.rtt * TARGET;
        // A cut that was not due.
        let is_costly = self.scatter.max(high.scatter) > MUCH || high.refused > high.saturation;
        let errors = if is_costly && self.rules.has(Rule::Evidence) { ERRORS_TO_CUT } else { ERRORS };
        let is_implausible = g > IMPLAUSIBLE && !just_probed && self.rules.has(Rule::Implausible);
        let is_old = now.since(low.at) > FRESH.max(high.length.saturating_mul(2)) && self.rules.has(Rule::Fresh);
        let is_unnoticed = high.rtt < UNNOTICED * self.patience && self.rules.has(Rule::Unnoticed);
        let (high_enough, errors) = if is_unnoticed { (FALLS, ERRORS_TO_CUT) } else { (HIGH_ENOUGH, errors) };
        if just_probed && g < 1.0 / FLAT && self.rules.has(Rule::Slower) {
            // Slower with fewer requests: the environment became slower in between.
            Move::Forget
        } else if g < FLAT * margin.sqrt() && high.saturation > DEMAND && settled {
            Move::Double(growth(2.0))
        } else if g * margin < LOW_ENOUGH && settled {
            // Behind shares of the limit twice what runs is enough, unless it is plain that the server is idle.
            let is_enough = high.is_by_shares() && self.limit >= high.counted * ROOM && g * margin > FLAT;
            if is_enough { Move::Settle } else { Move::Grow(growth((TARGET / g).powf(GAIN).min(2.0))) }
        } else if !comparison.is_above(high_enough, errors) {
            let is_unsure = high.cohorts >= STOOD && comparison.error > UNSURE && self.rules.has(Rule::Doubt);
            let is_unnoticed_after = high.rtt * TARGET < UNNOTICED * self.patience;
            let is_dear = self.limit < DEAR && is_unnoticed_after && self.rules.has(Rule::Dear);
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
    fn room(&self, high: &Point) -> Move {
        let is_slower = self.low.is_some_and(|low| high.rtt > low.rtt * TARGET);
        let is_enough = self.limit >= high.counted * ROOM && !high.is_by_shares();
        if is_slower || is_enough { Move::Stay } else { Move::MakeRoom }
    }

    /// Takes a step back that was too much, unless the limit has fallen below that already.
    fn go_back(&mut self, before: f64, now: Timestamp) {
        self.fell(self.limit, now);
        self.cut(before.min(self.limit) / self.limit, now);
    }

    /// Remembers that a limit was too high; if it fell further and further, where that began.
    fn fell(&mut self, from: f64, now: Timestamp) {
        if std::mem::replace(&mut self.grew, false) {
            self.ceiling = Some((from, now));
        }
    }

    pub(super) fn grow(&mut self, factor: f64, now: Timestamp) {
        let points = self.high.zip(self.low).filter(|_| self.rules.has(Rule::Shown));
        let most = points.map_or(factor, |(high, low)| self.shown.most_growth(self.limit, &high, &low));
        let mut limit = self.limit * factor.min(most);
        let ceiling = self.ceiling.filter(|&(_, at)| now.since(at) < REMEMBERED && self.rules.has(Rule::Ceiling));
        if let Some((ceiling, _)) = ceiling {
            // Halfway to what was too high, and then past it step by step: smaller ones, where a delay hides what they bring.
            let step = if self.is_delayed { 1.03 } else { 1.1 };
            limit = limit.min((self.limit * ceiling).sqrt().max(self.limit * step));
        }
        self.grew = true;
        let limit = limit.max(self.limit + 1.0);
        // The lower point of the new limit is whichever is nearer to half of it.
        let distance = |point: &Point| (point.concurrency / (limit / 2.0)).ln().abs();
        self.grown_from = Some(self.limit);
        self.low = self.low.into_iter().chain(self.high).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        self.high = None;
        self.set(limit, now);
    }

    /// Grows to where the present point is the lower one: by a `factor` of two, less where most of the time is delay.
    fn double(&mut self, factor: f64, now: Timestamp) {
        self.slow_start = true;
        // What the last probe cost was about another limit.
        self.next_probe = Timestamp::ZERO;
        if clamp_to_limit(self.limit, self.min, self.max) < self.max {
            self.grow(factor, now);
        } else {
            self.set(self.limit, now);
        }
    }

    pub(super) fn cut(&mut self, factor: f64, now: Timestamp) {
        self.slow_start = false;
        self.high = None;
        self.gap = SHORTEST_GAP;
        self.fall = None;
        self.set(self.limit * factor, now);
    }
}
