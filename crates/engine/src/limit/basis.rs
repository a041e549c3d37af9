//! The numbers behind a limit.

use std::time::Duration;

/// The numbers that a law judged by, for a reader who asks why a limit is what it is. See
/// [`LimitAlgorithm::inputs`](super::LimitAlgorithm::inputs).
///
/// ```
/// # mod tower_admission { pub use tower_admission_engine::{*, settings::*}; }
/// use std::time::Duration;
/// use tower_admission::limit::LimitInputs;
///
/// let basis = LimitInputs::of(Duration::from_millis(40)).compared_with(Duration::from_millis(20)).ratio(2.0);
/// assert_eq!(basis.ratio_if_known(), Some(2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct LimitInputs {
    // Small, for the journal: what is not known is no number.
    rtt: f32,
    reference: f32,
    ratio: f32,
}

impl Default for LimitInputs {
    /// Nothing is known.
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl LimitInputs {
    pub(super) const UNKNOWN: Self = Self { rtt: f32::NAN, reference: f32::NAN, ratio: f32::NAN };

    /// Starts with the round-trip time by which the law judged.
    pub fn of(rtt: Duration) -> Self {
        Self { rtt: rtt.as_secs_f32(), ..Self::default() }
    }

    /// Like `of`, for a number of nanoseconds, which may be no number at all.
    #[expect(clippy::cast_possible_truncation, reason = "24 bits are enough to be shown")]
    pub(super) fn of_nanos(rtt: f64, reference: f64) -> Self {
        Self { rtt: (rtt / 1e9) as f32, reference: (reference / 1e9) as f32, ..Self::default() }
    }

    /// Adds what that was compared with: a threshold, or a time that was measured before.
    pub fn compared_with(self, reference: Duration) -> Self {
        Self { reference: reference.as_secs_f32(), ..self }
    }

    /// Adds the result of the comparison.
    #[expect(clippy::cast_possible_truncation, reason = "24 bits are enough to be shown")]
    pub fn ratio(self, ratio: f64) -> Self {
        Self { ratio: ratio as f32, ..self }
    }

    /// Returns the round-trip time in seconds, if it is known.
    pub fn rtt_seconds(&self) -> Option<f64> {
        known(self.rtt)
    }

    /// Returns the reference in seconds, if it is known.
    pub fn reference_seconds(&self) -> Option<f64> {
        known(self.reference)
    }

    /// Returns the ratio, if there is one.
    pub fn ratio_if_known(&self) -> Option<f64> {
        known(self.ratio)
    }
}

/// Returns the value to seven digits, the precision of `f32`; `None` for no number.
fn known(value: f32) -> Option<f64> {
    value.is_finite().then(|| value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
}
