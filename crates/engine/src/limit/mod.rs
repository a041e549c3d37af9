//! Control laws: what the limit should be, judged from finished requests.
//!
//! A law is a pure value. It owns no count and no clock: the engine counts, and each [`Sample`] brings its own times.

/// Setters of a law that do nothing but set the field of their name.
macro_rules! plain_setters {
    ($($(#[$doc:meta])+ $name:ident: $type:ty,)+) => {
        $($(#[$doc])+
        #[must_use]
        pub const fn $name(mut self, $name: $type) -> Self {
            self.$name = $name;
            self
        })+
    };
}

/// What laws say alike that keep their limit in this field, as a number with a fraction.
macro_rules! fractional_limit {
    ($limit:ident) => {
        fn max_limit(&self) -> usize {
            self.max
        }

        fn inputs(&self) -> LimitInputs {
            self.basis
        }

        #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
        fn adopt(&mut self, limit: usize) {
            self.$limit = limit as f64;
        }
    };
}

mod aimd;
mod basis;
mod fixed;
mod gradient;
mod gradient2;
mod known;
mod state;
mod two_point;
mod vegas;
mod windowed;

#[cfg(any(test, kani))]
mod netflix_window_tests;
#[cfg(test)]
mod path_tests;
#[cfg(any(test, kani))]
mod proof_tests;
#[cfg(test)]
mod property_tests;

use std::{fmt, num::NonZeroU32, time::Duration};

pub use aimd::Aimd;
pub use basis::LimitInputs;
pub use fixed::Fixed;
pub use gradient::Gradient;
pub use gradient2::{Gradient2, QueueSize};
pub(crate) use known::Known;
pub use state::{LimitState, Phase, Reference};
pub use two_point::TwoPoint;
pub use vegas::Vegas;
pub use windowed::Windowed;

#[cfg(any(test, kani))]
pub(crate) use netflix_window_tests::NetflixWindow;

use crate::{Outcome, Problem, Timestamp};

/// A parameter of a law, as a capture tells it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Count(usize),
    Nanos(u64),
    Real(f64),
}

/// What one finished request, or one window of them, says about load.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// When the service was called.
    pub start: Timestamp,
    /// When the sample was taken.
    pub end: Timestamp,
    /// Round-trip time; `None` where only the outcome counts: an overload that shows in the trailers, and a request that was given
    /// up in the first half of the time until its deadline.
    pub rtt: Option<Duration>,
    /// Requests in flight when this one was admitted, itself included. For a law that
    /// [learns hold times](LimitAlgorithm::learns_hold_times) this and the next two counts leave out answers that outlast their callers.
    pub in_flight: usize,
    /// Requests in flight when the sample was taken, this one included.
    pub running: usize,
    /// Requests of these whose samples were taken before: their answers have begun, and they hold their slots until their bodies
    /// end.
    pub answering: usize,
    /// How it ended; never [`Outcome::Ignore`]. An answer that came after the deadline of its request counts as
    /// [`Outcome::Cancelled`], where the deadline is known.
    pub outcome: Outcome,
    /// Whether a request was refused since the last sample although slots were free: the cap of its partition was in
    /// the way, or slots that are kept for others. A higher limit would have let it in.
    pub refused: bool,
    /// Requests alike that the sample stands for, itself included: more than 1 where not each request is
    /// [timed](LimitAlgorithm::time_one_in).
    pub weight: u32,
}

impl Sample {
    /// Returns the sample of a request that started at `start`, took `rtt` and met `in_flight` requests, itself
    /// included.
    #[inline]
    pub fn new(start: Timestamp, rtt: Duration, in_flight: usize, outcome: Outcome) -> Self {
        let end = start.after(rtt);
        Self {
            start,
            end,
            rtt: Some(rtt),
            in_flight,
            running: in_flight,
            answering: 0,
            outcome,
            refused: false,
            weight: 1,
        }
    }
}

/// A control law.
///
/// Implement it for a law of your own and hand it to [`Limit::per_sample`], or to [`Windowed::new`] first.
///
/// The engine calls it while it holds the lock of its handle, so a law neither blocks nor calls back. If it panics,
/// the limit stays what it was.
///
/// ```
/// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
/// use tower_admission::limit::{LimitAlgorithm, Sample};
///
/// /// Follows the clock rather than the load.
/// #[derive(Debug)]
/// struct Nightly {
///     limit: usize,
/// }
///
/// impl LimitAlgorithm for Nightly {
///     fn limit(&self) -> usize {
///         self.limit
///     }
///
///     fn on_sample(&mut self, sample: &Sample) {
///         let hour = sample.end.as_nanos() / 3_600_000_000_000 % 24;
///         self.limit = if hour < 6 { 400 } else { 100 };
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no law of a limit",
    note = "`limit(…)` takes a number such as `40`, a law such as `TwoPoint::new()`, or `Limit::per_sample(…)` of a law of your own"
)]
pub trait LimitAlgorithm: fmt::Debug + Send {
    /// Returns the current limit, at least 1.
    fn limit(&self) -> usize;

    /// Returns the largest limit that this law may set, as far as it is known: the present one unless the law says otherwise.
    /// A handle asks once, when it is built: where the limit may become large, it prepares for many cores. No promise is made, and
    /// a larger limit holds as well.
    fn max_limit(&self) -> usize {
        self.limit()
    }

    /// Takes one sample into account.
    fn on_sample(&mut self, sample: &Sample);

    /// Takes samples into account, in their order, up to the first that moves the limit; returns how many those are. A handle that
    /// is not busy learns from many requests at once. Nothing needs to be said here by a law that has [`on_sample`](Self::on_sample).
    fn on_samples(&mut self, samples: &[Sample]) -> usize {
        let before = self.limit();
        let moved = |sample| {
            self.on_sample(sample);
            self.limit() != before
        };
        samples.iter().position(moved).map_or(samples.len(), |place| place + 1)
    }

    /// Returns the least time from one start of a request to the next; zero, where as many may start at once as there are free slots,
    /// as laws answer unless they say otherwise. Where most of an answer is delay, a burst floods the server behind the delay long
    /// before an answer tells. Asked when the limit moves, and once in sixteen samples. It holds for requests that may wait.
    fn pacing(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the name of the law's kind. On a [reload][reload] a law of the same kind goes on where
    /// the last one was.
    ///
    /// [reload]: https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.reload
    fn kind(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Returns one in how many requests has to be timed while no request waits and the limit does not bind, where the
    /// settings [ask][time_one_in] for that many, if they do. A law that needs the sample of each request answers 1,
    /// as laws do unless they say otherwise. The smaller answer counts where there is a shadow law. As soon as the limit binds, each request is timed.
    ///
    /// [time_one_in]: https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.time_one_in
    fn time_one_in(&self, asked: Option<NonZeroU32>) -> NonZeroU32 {
        let _ = asked;
        NonZeroU32::MIN
    }

    /// Returns the numbers that the present limit was judged by, as far as they can be told. Asked when the limit has
    /// moved, for the [journal][journal], and each second.
    ///
    /// [journal]: https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.journal
    fn inputs(&self) -> LimitInputs {
        LimitInputs::default()
    }

    /// Returns what the law does with its limit, and within which bounds, as far as it can be told. Asked each second, and when
    /// an operator [looks][docs::introspection].
    ///
    /// [docs::introspection]: https://docs.rs/tower-admission/latest/tower_admission/docs/introspection/index.html
    fn state(&self) -> LimitState {
        LimitState::default()
    }

    /// Goes on from a limit that a law of the same kind has learned, within the range of this law. A law without a
    /// memory has nothing to do.
    fn adopt(&mut self, limit: usize) {
        let _ = limit;
    }

    /// Takes note of how long callers wait for an answer, if the settings say so. Called before the first sample, and after each
    /// reload.
    fn note_patience(&mut self, patience: Option<Duration>) {
        let _ = patience;
    }

    /// Whether the law learns from a long body, and from a large upload, for how long its slot was held, where it is known how long
    /// callers wait: see [`SampleAt::BodyEndOrDeadline`][hold]. Laws don't unless they say otherwise: a law that compares with a
    /// threshold, or with the shortest time that it saw, would take a slow reader for an overload. A shadow law hears the same
    /// samples as the law. Asked when a handle is built, and after each reload.
    ///
    /// Answers that outlast the deadline of their callers have slots on top of the limit of such a law, up to
    /// [`max_limit`](Self::max_limit), and samples leave them out.
    ///
    /// [hold]: https://docs.rs/tower-admission/latest/tower_admission/policy/enum.SampleAt.html
    fn learns_hold_times(&self) -> bool {
        false
    }

    /// Returns what is wrong with the settings of this law, with paths relative to it.
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// A law as the builders take it, made from any of the laws, or a number, by `into`.
///
/// AIMD, Vegas and Gradient2 get the default [`Windowed`] before them; [`Limit::per_sample`] leaves a law bare.
#[derive(Debug)]
pub struct Limit {
    law: Box<dyn LimitAlgorithm>,
    known: Option<Known>,
}

impl Limit {
    /// `law` exactly as it stands, one step per sample.
    ///
    /// A burst of slow requests is then one decrease *each*, which drives most limits to their floor within
    /// milliseconds. Meant for conformance and for laws with smoothing of their own.
    #[inline]
    pub fn per_sample(law: impl LimitAlgorithm + 'static) -> Self {
        Self { known: Known::of(&law), law: Box::new(law) }
    }

    #[doc(hidden)]
    #[inline]
    pub fn into_law(self) -> Box<dyn LimitAlgorithm> {
        self.law
    }

    /// Returns the kind and settings of the law, if they can be written down.
    #[doc(hidden)]
    #[inline]
    pub const fn known(&self) -> Option<&Known> {
        self.known.as_ref()
    }
}

impl Default for Limit {
    /// [`TwoPoint`], which needs to know nothing.
    fn default() -> Self {
        TwoPoint::new().into()
    }
}

impl From<usize> for Limit {
    /// A [`Fixed`] limit; 0 is an error, found when the handle is built.
    fn from(limit: usize) -> Self {
        Fixed::new(limit).into()
    }
}

impl From<Fixed> for Limit {
    fn from(law: Fixed) -> Self {
        Self::per_sample(law)
    }
}

impl From<Gradient> for Limit {
    /// Bare: it has windows of its own.
    fn from(law: Gradient) -> Self {
        Self::per_sample(law)
    }
}

impl From<TwoPoint> for Limit {
    /// Bare: it takes its samples in cohorts of its own.
    fn from(law: TwoPoint) -> Self {
        Self::per_sample(law)
    }
}

impl From<Vegas> for Limit {
    fn from(law: Vegas) -> Self {
        Windowed::new(law).into()
    }
}

impl From<Gradient2> for Limit {
    fn from(law: Gradient2) -> Self {
        Windowed::new(law).into()
    }
}

impl From<Aimd> for Limit {
    fn from(law: Aimd) -> Self {
        Windowed::new(law).into()
    }
}

impl<L: LimitAlgorithm + 'static> From<Windowed<L>> for Limit {
    fn from(law: Windowed<L>) -> Self {
        Self::per_sample(law)
    }
}

const ONE_IN_EIGHT: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// Returns one in eight, or in what the settings ask for if those are fewer, where a law makes do with some samples; else each.
fn time_some(is_enough: bool, asked: Option<NonZeroU32>) -> NonZeroU32 {
    let some = asked.map_or(ONE_IN_EIGHT, |asked| asked.min(ONE_IN_EIGHT));
    if is_enough { some } else { NonZeroU32::MIN }
}

/// Returns what is wrong with the range of a law.
fn range_problems(law: &str, starts_at_0: bool, min: usize, max: usize) -> Vec<Problem> {
    /// Every permit carries a count of running requests, in 32 bits.
    const LARGEST: usize = u32::MAX as usize;
    let allowed = format_args!("min ({min}) or more and at most {LARGEST}");
    let all = [
        Problem::unless(!starts_at_0, format!("{law}.initial"), 0, "1 or more"),
        Problem::unless(min > 0, format!("{law}.min"), 0, "1 or more"),
        Problem::unless(max >= min && max <= LARGEST, format!("{law}.max"), max, allowed),
    ];
    all.into_iter().flatten().collect()
}

/// Returns an estimate as a limit: rounded down, in range, whatever the estimate is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "clamped to the range of a limit before"
)]
fn clamp_to_limit(estimate: f64, min: usize, max: usize) -> usize {
    // `NaN as usize` is 0, and the minimum is put on last.
    (smallest(max as f64, estimate) as usize).min(max).max(min).max(1)
}

/// `min(bound, value)`, and `bound` for a value that is no number: the next sample starts from something sane.
fn smallest(bound: f64, value: f64) -> f64 {
    if value < bound { value } else { bound }
}
