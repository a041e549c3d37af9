//! Where the time comes from.

#[cfg(feature = "processor-clock")]
mod processor;

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use crate::{
    Timestamp,
    engine::nanos,
    store::{Clock, Shielded},
};

/// A time that is the same for all of the process, or one given by the user.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    Common(Origin),
    Custom(Arc<Shielded>),
}

/// A moment on the axis of Tokio's time, which tests can pause, or on that of the processor's counter. As a number that an
/// atomic holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u64);

/// The number of the moment at which this process first asked. Paused clocks may be behind it, by centuries.
const FIRST: u64 = 1 << 62;

/// The same for the processor's counter: all moments on its axis have this bit, and no moment of Tokio's has it.
#[cfg(feature = "processor-clock")]
const FIRST_OF_PROCESSOR: u64 = 1 << 63;

impl Origin {
    /// Returns the present moment on the axis of Tokio's time.
    #[inline]
    pub(crate) fn now() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = Instant::now();
        let start = *START.get_or_init(|| now);
        match now.checked_duration_since(start) {
            Some(since) => Self(FIRST.saturating_add(nanos(since))),
            None => Self::before(start, now),
        }
    }

    #[cold]
    fn before(start: Instant, now: Instant) -> Self {
        Self(FIRST.saturating_sub(nanos(start.saturating_duration_since(now))))
    }

    /// Returns the present moment on the axis of the processor's counter.
    #[cfg(feature = "processor-clock")]
    #[inline]
    fn of_processor() -> Self {
        Self(FIRST_OF_PROCESSOR.saturating_add(processor::elapsed()))
    }

    /// Returns the present moment on the same axis.
    #[inline]
    fn alike(self) -> Self {
        #[cfg(feature = "processor-clock")]
        if self.0 >= FIRST_OF_PROCESSOR {
            return Self::of_processor();
        }
        Self::now()
    }

    /// Returns the time from this moment until now; zero where now is earlier.
    #[inline]
    pub(crate) fn elapsed(self) -> Timestamp {
        Timestamp::from_nanos(self.alike().0.saturating_sub(self.0))
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl TimeSource {
    pub(crate) fn tokio() -> Self {
        Self::Common(Origin::now())
    }

    #[cfg(feature = "processor-clock")]
    pub(crate) fn processor() -> Self {
        Self::Common(Origin::of_processor())
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Common(origin) => origin.elapsed(),
            Self::Custom(clock) => Timestamp::from_nanos(clock.nanos()),
        }
    }

    pub(crate) fn custom(clock: impl Clock + 'static) -> Self {
        Self::Custom(Arc::new(Shielded::new(clock)))
    }

    /// Returns the moment from which it counts, if it is the time of Tokio.
    pub(crate) const fn origin(&self) -> Option<Origin> {
        match self {
            Self::Common(origin) => Some(*origin),
            Self::Custom(_) => None,
        }
    }

    /// Whether it ever panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self, Self::Custom(clock) if clock.has_panicked())
    }
}

#[cfg(all(test, feature = "processor-clock"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Busy rather than asleep, so that the time that a sleep adds is not taken for a difference of the clocks.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares with the time of the system")]
    fn the_counter_of_the_processor_runs_on_and_agrees_with_the_system() {
        const SPAN: Duration = Duration::from_millis(50);
        let mut error = Duration::MAX;
        // A pause between two readings looks like a difference: the best of a few spans counts.
        for _ in 0..20 {
            let (time, start) = (TimeSource::processor(), Instant::now());
            let mut last = time.now();
            while start.elapsed() < SPAN {
                let now = time.now();
                assert!(now >= last, "{now:?} after {last:?}");
                last = now;
            }
            let before = start.elapsed();
            let told = Duration::from_nanos(time.now().as_nanos());
            error = error.min(told.abs_diff(before));
            if error < Duration::from_millis(2) {
                return;
            }
        }
        panic!("the clocks differ by {error:?} after {SPAN:?}");
    }

    #[test]
    fn the_axes_of_tokio_and_of_the_processor_are_apart() {
        let (tokio, processor) = (Origin::now(), Origin::of_processor());
        assert!(tokio.as_nanos() < FIRST_OF_PROCESSOR && processor.as_nanos() >= FIRST_OF_PROCESSOR);
        assert!(processor.alike().as_nanos() >= FIRST_OF_PROCESSOR && tokio.alike().as_nanos() < FIRST_OF_PROCESSOR);
    }
}
