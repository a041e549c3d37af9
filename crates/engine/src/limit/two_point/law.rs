//! What the law does with its points, and as a controller asks it.

use std::{num::NonZeroU32, time::Duration};

use super::{
    LimitInputs, TwoPoint,
    cohort::{Cohort, nanos_f64, others_of},
    curve::{Curve, LONGEST_GAP, LOW, MUCH, Move, SHORTEST_GAP, TARGET},
    point::{Point, SOME_DEMAND},
    probe,
    rest::Rest,
    rules::{Rule, Rules},
    silence::Silence,
};
use crate::{
    Outcome, Problem, Timestamp,
    limit::{LimitAlgorithm, LimitState, Number, Phase, Reference, Sample, clamp_to_limit, range_problems, time_some},
};

/// From this part of rejected requests on, the service says itself that the limit is too high, and what is left of it.
const REFUSED: f64 = 0.05;
const REFUSED_CUT: f64 = 0.9;
/// What is left of a limit at which too many answers come too late.
const LATE_CUT: f64 = 0.7;
/// What is left of a limit that brings next to no answers.
const DROWNED_CUT: f64 = 0.125;
/// Time for which the law is careful below a limit that was too high.
const REMEMBERED: Duration = Duration::from_secs(40);

impl Default for TwoPoint {
    fn default() -> Self {
        Self::new()
    }
}

impl TwoPoint {
    /// Returns the law with its defaults.
    pub const fn new() -> Self {
        Self {
            min: 1,
            max: 10_000,
            limit: 20.0,
            curve: Curve::UNKNOWN,
            silence: Silence::NONE,
            probing_since: None,
            next_probe: Timestamp::ZERO,
            cohort: None,
            rest: Rest::Over,
            running: 0,
            ceiling: None,
            grew: true,
            grown_from: None,
            slow_start: true,
            is_idle: true,
            basis: LimitInputs::UNKNOWN,
        }
    }

    /// Switches off the rule of this name, for an ablation.
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, rule: &str) -> Option<Self> {
        self.curve.rules = self.curve.rules.without(rule)?;
        Some(self)
    }

    /// Returns the names of the rules that can be switched off.
    #[doc(hidden)]
    pub fn rules() -> impl Iterator<Item = &'static str> {
        Rules::names()
    }

    /// The limit to start from: 20 unless set, moved into the range of [`min`](Self::min) and [`max`](Self::max).
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    pub const fn initial(mut self, limit: usize) -> Self {
        self.limit = limit as f64;
        self
    }

    plain_setters! {
        /// The limit never falls below this, probes included: 1 unless set.
        min: usize,
        /// The limit never rises above this: 10,000 unless set.
        max: usize,
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a count, to begin with")]
    pub(in crate::limit) fn parameters(&self) -> Vec<(&'static str, Number)> {
        let initial = Number::Count(self.limit as usize);
        vec![("initial", initial), ("min", Number::Count(self.min)), ("max", Number::Count(self.max))]
    }

    const fn has(&self, rule: Rule) -> bool {
        self.curve.rules.has(rule)
    }

    /// Returns the limit that holds but for probes.
    fn unprobed(&self) -> usize {
        clamp_to_limit(self.limit, self.min, self.max)
    }

    /// Sets the limit within its range; the next cohort starts now.
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    fn set(&mut self, limit: f64, now: Timestamp) {
        self.limit = limit.max(self.min as f64).min(self.max as f64).max(1.0);
        self.cohort = Some(self.open(now, self.slow_start));
    }

    /// Opens a cohort of the requests that start from now on.
    pub(super) fn open(&self, now: Timestamp, hurry: bool) -> Cohort {
        let Curve { usual, patience, scatter, rules, .. } = self.curve;
        let hurry = hurry && rules.has(Rule::Hurry);
        let mut cohort = Cohort::open(now, self.running, self.curve.wanted(self.limit()), hurry, usual, rules);
        cohort.known_scatter = if scatter.of_late > MUCH { scatter.of_late } else { 0.0 };
        if patience > 0.0 {
            cohort.patience = patience;
        }
        cohort
    }

    /// Takes a point that was measured at the limit or below it, or by a probe since then.
    pub(super) fn judge(&mut self, point: Point, probed_since: Option<Timestamp>) {
        let now = point.at;
        self.curve.learn(&point);
        let grown_from = self.grown_from.take();
        self.is_idle = false;
        if probed_since.is_none() {
            self.basis = LimitInputs::of_nanos(point.rtt, f64::NAN);
        }
        if point.drowns() && self.has(Rule::Drowned) {
            // Before the limit grew there were answers. If there are none at that limit either, it falls as far as it must.
            return match grown_from.filter(|_| self.has(Rule::Back)) {
                Some(before) => self.go_back(before, now),
                None => self.drowned(now),
            };
        }
        if self.curve.comes_late(&point) {
            return match grown_from {
                Some(before) => self.go_back(before, now),
                None => self.cut(LATE_CUT, now),
            };
        }
        if let Some(since) = probed_since {
            return self.probed(point, since);
        }
        if point.overloads >= REFUSED {
            return self.set(self.limit * REFUSED_CUT, now);
        }
        if point.saturation.max(point.refused) < SOME_DEMAND {
            return self.lull(point);
        }
        self.curve.watched(point);
        self.steer(now, grown_from);
    }

    /// Takes a point of a server that is not at its limit: a lower point for free, if it is low enough.
    fn lull(&mut self, point: Point) {
        let is_far = point.counted < LOW * self.limit;
        self.curve.low = if is_far && self.has(Rule::Lull) { Some(point) } else { self.curve.low };
        self.curve.high = None;
        (self.slow_start, self.is_idle) = (false, true);
        if is_far && self.has(Rule::Rest) {
            self.rest = Rest::after(&point);
        }
        if self.rest == Rest::Over {
            self.set(self.limit, point.at);
        }
    }

    fn probed(&mut self, point: Point, since: Timestamp) {
        self.curve.low = Some(point);
        if let Some(high) = &self.curve.high {
            self.next_probe = point.at.after(probe::pause(since, &point, high));
        }
        let before = self.limit;
        self.steer(point.at, None);
        // The limit was right: there is no hurry to ask again.
        #[expect(clippy::float_cmp, reason = "unchanged")]
        if self.limit == before && self.has(Rule::Gap) {
            self.curve.gap = (self.curve.gap * 2).min(LONGEST_GAP);
        }
    }

    /// Does what both points say.
    pub(super) fn steer(&mut self, now: Timestamp, grown_from: Option<f64>) {
        let (to, basis) = self.curve.decide(now, self.limit, grown_from);
        self.basis = basis.unwrap_or(self.basis);
        self.slow_start &= !matches!(to, Move::Settle | Move::Grow(_));
        match to {
            Move::Stay | Move::Settle => self.set(self.limit, now),
            Move::Forget => {
                self.curve.high = None;
                self.set(self.limit, now);
            }
            Move::Probe => self.probe(now),
            Move::Double(factor) => {
                self.slow_start = true;
                // What the last probe cost was about another limit.
                self.next_probe = Timestamp::ZERO;
                if self.unprobed() < self.max { self.grow(factor, now) } else { self.set(self.limit, now) }
            }
            Move::MakeRoom => self.grow(TARGET, now),
            Move::Grow(factor) => self.grow(factor, now),
            Move::GoBack(before) => self.go_back(before, now),
            Move::Cut(factor) => self.cut(factor, now),
        }
    }

    /// Asks for a lower point. A probe that brought none that can be compared is not repeated at once.
    pub(super) fn probe(&mut self, now: Timestamp) {
        let is_paid_off = now >= self.next_probe || !self.has(Rule::PayOff);
        if self.curve.low.is_some_and(|low| low.at == now) || !is_paid_off {
            return self.set(self.limit, now);
        }
        self.probing_since = Some(now);
        self.slow_start = false;
        self.cohort = Some(self.open(now, self.curve.is_slow()));
    }

    pub(super) fn grow(&mut self, factor: f64, now: Timestamp) {
        let mut limit = self.limit * factor.min(self.curve.most_growth(self.limit));
        let ceiling = self.ceiling.filter(|&(_, at)| now.since(at) < REMEMBERED && self.has(Rule::Ceiling));
        if let Some((ceiling, _)) = ceiling {
            // Halfway to what was too high, and then past it step by step: smaller ones, where a delay hides what they bring.
            let step = if self.curve.is_delayed { 1.03 } else { 1.1 };
            limit = limit.min((self.limit * ceiling).sqrt().max(self.limit * step));
        }
        self.grew = true;
        let limit = limit.max(self.limit + 1.0);
        self.grown_from = Some(self.limit);
        self.curve.grown_to(limit);
        self.set(limit, now);
    }

    fn cut(&mut self, factor: f64, now: Timestamp) {
        self.slow_start = false;
        self.curve.high = None;
        self.curve.gap = SHORTEST_GAP;
        self.silence.fall = None;
        self.set(self.limit * factor, now);
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

    /// Cuts the limit where hardly any request is answered. What brings nothing can't be lost, and the server has to
    /// get rid of what it has before it answers again; then the limit doubles as at the start. Behind a delay most of the limit is
    /// under way, and the server gets rid of the rest soon: so there the limit first falls to what brought the most answers of late.
    pub(super) fn drowned(&mut self, now: Timestamp) {
        let left = if self.grew { self.curve.limit_behind_delay() / self.limit } else { 0.0 };
        self.begin_anew(self.limit, left.clamp(DROWNED_CUT, LATE_CUT), now);
    }

    /// Cuts a limit that `fell`, and begins as at the start: how much requests scattered while the server fell is about that fall.
    fn begin_anew(&mut self, from: f64, factor: f64, now: Timestamp) {
        self.fell(from, now);
        self.curve.begin_anew();
        self.cut(factor, now);
        if self.has(Rule::Reopen) {
            self.silence.note_fall(now);
        }
    }

    /// Takes a slot back where a caller leaves late while few requests are answered: work that goes on is joined by no more. What is
    /// left is as much as of a limit that drowns, and found out to be too much in the same way. After a fall quick answers open slots.
    pub(super) fn hear(&mut self, sample: &Sample) {
        let Some(rtt) = sample.rtt.map(nanos_f64) else { return };
        if sample.outcome == Outcome::Success {
            self.limit =
                self.silence.answered(sample.start, rtt, self.limit, &self.curve, self.probing_since.is_none());
        } else if sample.outcome == Outcome::Cancelled && self.curve.usual > 0.0 && rtt >= self.curve.usual {
            self.fall_silent(sample);
        }
    }

    #[cold]
    fn fall_silent(&mut self, sample: &Sample) {
        let is_silent = self.silence.left_late() && self.has(Rule::Silence);
        // Behind a delay, many leave at once for what was too much a delay ago.
        if !is_silent || self.curve.is_delayed || sample.running < self.unprobed() {
            return;
        }
        let before = self.silence.limit;
        let least = (before * DROWNED_CUT).max(1.0);
        if self.limit - 1.0 > least {
            self.limit = (self.limit - 1.0).max(self.min as f64);
        } else if self.limit > least {
            self.probing_since = None;
            self.begin_anew(before, least / self.limit, sample.end);
        }
    }
}

impl LimitAlgorithm for TwoPoint {
    fn limit(&self) -> usize {
        match self.probing_since {
            Some(_) => clamp_to_limit(probe::limit(self.limit, self.curve.high.as_ref()), self.min, self.max),
            None => self.unprobed(),
        }
    }

    fn max_limit(&self) -> usize {
        self.max
    }

    fn pacing(&self) -> Duration {
        let is_spread = self.curve.is_delayed && self.curve.is_slow() && self.has(Rule::Pace);
        if is_spread { self.curve.shown.gap(self.curve.usual, self.limit) } else { Duration::ZERO }
    }

    fn inputs(&self) -> LimitInputs {
        self.basis
    }

    fn state(&self) -> LimitState {
        let state = LimitState::new("two_point").within(self.min, self.max).against(Reference::HalfLoad);
        match self.probing_since {
            Some(_) => state.phase(Phase::Probing),
            None => state.idle_if(self.is_idle),
        }
    }

    /// Takes a limit of which only that it was good is known: the law doesn't double it, and asks for a lower point.
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    fn adopt(&mut self, limit: usize) {
        let Self { min, max, curve: Curve { patience, rules, .. }, .. } = *self;
        let curve = Curve { started: true, patience, rules, ..Curve::UNKNOWN };
        *self = Self { min, max, curve, slow_start: false, ..Self::new() };
        self.limit = clamp_to_limit(limit as f64, min, max) as f64;
    }

    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        time_some(self.rest.times_some(), asked)
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.hear(sample);
        let limit = self.limit();
        self.running = others_of(sample);
        let is_resting = self.rest != Rest::Over;
        if is_resting && !self.rest.ends_with(sample, limit) {
            return;
        }
        // Requests that run came while another law decided, or were not timed.
        if is_resting || self.cohort.is_none() && self.curve.started {
            return self.set(self.limit, sample.end);
        }
        let first = || Cohort::open(Timestamp::ZERO, 0, self.curve.wanted(limit), true, 0.0, self.curve.rules);
        let cohort = self.cohort.get_or_insert_with(first);
        if let Some(point) = cohort.add(sample, limit) {
            self.cohort = None;
            let probed_since = self.probing_since.take();
            if point.says_nothing() {
                return self.set(self.limit, sample.end);
            }
            self.judge(point, probed_since);
        }
    }

    fn note_patience(&mut self, patience: Option<Duration>) {
        self.curve.patience = patience.map_or(0.0, nanos_f64);
    }

    fn learns_hold_times(&self) -> bool {
        true
    }

    fn problems(&self) -> Vec<Problem> {
        range_problems("two_point", self.limit < 1.0, self.min, self.max)
    }
}
