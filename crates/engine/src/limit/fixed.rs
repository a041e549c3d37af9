//! A limit that never moves.

use std::num::NonZeroU32;

use super::{LimitAlgorithm, LimitState, Number, ONE_IN_EIGHT, Reference, Sample};
use crate::Problem;

/// A limit that never moves.
#[derive(Clone, Debug)]
pub struct Fixed(usize);

impl Fixed {
    /// Lets `limit` requests run at once; 0 is an error at build time.
    pub const fn new(limit: usize) -> Self {
        Self(limit)
    }

    pub(super) fn parameters(&self) -> Vec<(&'static str, Number)> {
        vec![("limit", Number::Count(self.0))]
    }
}

impl LimitAlgorithm for Fixed {
    fn limit(&self) -> usize {
        self.0
    }

    fn on_sample(&mut self, _: &Sample) {}

    fn state(&self) -> LimitState {
        LimitState::new("fixed").within(self.0, self.0).against(Reference::Nothing)
    }

    /// One in eight unless set: nothing is learned here, and the times are for metrics and forecasts only.
    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        asked.unwrap_or(ONE_IN_EIGHT)
    }

    fn problems(&self) -> Vec<Problem> {
        match self.0 {
            0 => vec![Problem::new("fixed", "found 0, allowed is 1 or more; Mode::Off lifts a limit")],
            _ => Vec::new(),
        }
    }
}
