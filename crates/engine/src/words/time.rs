//! A moment on the engine's own time axis.

use std::time::Duration;

/// Nanoseconds since the handle was made.
///
/// Eight bytes instead of the sixteen of a `std::time::Instant`, which every permit would carry. The engine only ever
/// sees this type, so a simulation hands it invented moments. All arithmetic saturates: a clock that jumps by ten
/// years neither panics nor wraps.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment the handle was made.
    pub const ZERO: Self = Self(0);

    /// Later than any moment that is reached: "no deadline".
    pub const NEVER: Self = Self(u64::MAX);
    /// In place of the deadline of a caller: its answer has begun before that.
    #[doc(hidden)]
    pub const MET: Self = Self(u64::MAX - 1);

    /// The last moment before [`Timestamp::NEVER`].
    pub(crate) const LATEST: Self = Self(u64::MAX - 1);

    /// The moment `nanos` nanoseconds after [`Timestamp::ZERO`].
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since [`Timestamp::ZERO`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whether this moment is in the first half of the time from `start` to `end`. No moment is if either is never.
    #[doc(hidden)]
    #[inline]
    pub fn is_in_first_half(self, start: Self, end: Self) -> bool {
        end != Self::NEVER && start != Self::NEVER && self.since(start) < end.since(start) / 2
    }

    /// This moment plus `duration`, [`Timestamp::NEVER`] at most.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The moment `duration` ago, [`Timestamp::ZERO`] at the earliest.
    #[doc(hidden)]
    pub const fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// How many nanoseconds after `earlier` this moment is; zero if it is not.
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// How long after `earlier` this moment is; zero if it is not.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// `duration` in whole nanoseconds; 584 years and more are all the same to us.
#[inline]
pub const fn nanos(duration: Duration) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    // In 64 bits throughout, with a single bound: this runs several times per request.
    if duration.as_secs() < u64::MAX / SECOND {
        duration.as_secs() * SECOND + duration.subsec_nanos() as u64
    } else {
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = Timestamp::from_nanos(u64::MAX - 1);
        assert_eq!(late.after(Duration::MAX), Timestamp::NEVER);
        assert_eq!(Timestamp::ZERO.since(late), Duration::ZERO);
        assert_eq!(Timestamp::from_nanos(5).before(Duration::from_secs(1)), Timestamp::ZERO);
        assert_eq!(late.since(Timestamp::ZERO).as_nanos(), u128::from(u64::MAX - 1));
        let last = 18_446_744_072_999_999_999;
        assert_eq!([last, last + 1].map(|it| nanos(Duration::from_nanos(it))), [last, u64::MAX]);
    }
}
