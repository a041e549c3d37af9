//! The law as a controller asks it.

use std::{num::NonZeroU32, time::Duration};

use super::{
    Phase, TwoPoint,
    cohort::{Cohort, nanos_f64, others_of},
    rest::Rest,
    rules::Rule,
};
use crate::{
    Problem, Timestamp, limit,
    limit::{LimitAlgorithm, LimitInputs, LimitState, Reference, Sample, clamp_to_limit, range_problems},
};

impl LimitAlgorithm for TwoPoint {
    fn limit(&self) -> usize {
        let limit = match self.phase {
            Phase::Probe => self.probed_limit(),
            Phase::Watch => self.limit,
        };
        clamp_to_limit(limit, self.min, self.max)
    }

    fn max_limit(&self) -> usize {
        self.max
    }

    fn pacing(&self) -> Duration {
        let is_delayed = self.is_delayed && self.shown.is_slow(self.usual) && self.rules.has(Rule::Pace);
        if is_delayed { self.shown.gap(self.usual, self.limit) } else { Duration::ZERO }
    }

    fn inputs(&self) -> LimitInputs {
        self.basis
    }

    fn state(&self) -> LimitState {
        let state = LimitState::new("two_point").within(self.min, self.max).against(Reference::HalfLoad);
        match self.phase {
            Phase::Probe => state.phase(limit::Phase::Probing),
            Phase::Watch => state.idle_if(self.is_idle),
        }
    }

    /// Takes a limit of which only that it was good is known: the law doesn't double it, and asks for a lower point.
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
    fn adopt(&mut self, limit: usize) {
        *self = Self { started: true, slow_start: false, rules: self.rules, patience: self.patience, ..Self::new() }
            .initial(limit)
            .min(self.min)
            .max(self.max);
        self.limit = clamp_to_limit(self.limit, self.min, self.max) as f64;
    }

    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        let enough = self.rest.time_one_in();
        asked.map_or(enough, |asked| asked.min(enough))
    }

    fn on_sample(&mut self, sample: &Sample) {
        self.hear(sample);
        let limit = self.limit();
        self.running = others_of(sample);
        if self.rest != Rest::Over {
            if self.rest.ends_with(sample, limit) {
                self.set(self.limit, sample.end);
            }
            return;
        }
        if self.started && self.cohort.is_none() {
            // Running requests came while another law decided.
            return self.set(self.limit, sample.end);
        }
        let (wanted, rules) = (self.wanted(), self.rules);
        let cohort = self.cohort.get_or_insert_with(|| Cohort::open(Timestamp::ZERO, 0, wanted, true, 0.0, rules));
        if let Some(point) = cohort.add(sample, limit) {
            self.cohort = None;
            if point.says_nothing() {
                self.phase = Phase::Watch;
                return self.set(self.limit, sample.end);
            }
            match self.phase {
                Phase::Watch => self.watched(point),
                Phase::Probe => self.probed(point),
            }
        }
    }

    fn note_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience.map_or(0.0, nanos_f64);
    }

    fn learns_hold_times(&self) -> bool {
        true
    }

    fn problems(&self) -> Vec<Problem> {
        range_problems("two_point", self.limit < 1.0, self.min, self.max)
    }
}
