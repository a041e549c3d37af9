//! Control laws: what the limit should be, judged from finished requests.
//!
//! A law is a pure value. It owns no count and no clock: the engine counts, and each [`Sample`] brings its own times.

mod aimd;
mod fixed;
mod windowed;

use std::{fmt, time::Duration};

pub use aimd::Aimd;
pub use fixed::Fixed;
pub use windowed::{Aggregate, Windowed};

use crate::{outcome::Outcome, problem::Problem, time::Timestamp};

/// What one finished request, or one window of them, says about load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// When the service was called.
    pub start: Timestamp,
    /// When the sample was taken.
    pub end: Timestamp,
    /// Round-trip time; `None` where only the outcome counts (an overload that shows in the trailers).
    pub rtt: Option<Duration>,
    /// Requests in flight when this one was admitted, itself included.
    pub in_flight: usize,
    /// How it ended; never [`Outcome::Ignore`].
    pub outcome: Outcome,
}

/// A control law.
///
/// The engine calls it while it holds the lock of its handle, so a law neither blocks nor calls back. If it panics,
/// the limit stays what it was. Sealed until the sample has settled; use the laws of this crate.
pub trait Law: fmt::Debug + Send + sealed::Sealed {
    /// The current limit, at least 1.
    fn limit(&self) -> usize;

    /// Takes one sample into account.
    fn on_sample(&mut self, sample: &Sample);

    /// What is wrong with the settings of this law, with paths relative to it.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// A law as the builders take it, made from any of the laws by `into`.
///
/// AIMD gets the default [`Windowed`] before it; [`Limit::per_sample`] leaves a law bare.
#[derive(Debug)]
pub struct Limit(Box<dyn Law>);

impl Limit {
    /// `law` exactly as it stands, one step per sample.
    ///
    /// A burst of slow requests is then one decrease *each*, which drives most limits to their floor within
    /// milliseconds. Meant for conformance and for laws with smoothing of their own.
    pub fn per_sample(law: impl Law + 'static) -> Self {
        Self(Box::new(law))
    }

    pub(crate) fn into_law(self) -> Box<dyn Law> {
        self.0
    }
}

impl From<Fixed> for Limit {
    fn from(law: Fixed) -> Self {
        Self::per_sample(law)
    }
}

impl From<Aimd> for Limit {
    fn from(law: Aimd) -> Self {
        Windowed::new(law).into()
    }
}

impl<L: Law + 'static> From<Windowed<L>> for Limit {
    fn from(law: Windowed<L>) -> Self {
        Self::per_sample(law)
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "this is what seals the trait")]
    pub trait Sealed {}
}
