//! Where the time comes from.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::time::{Timestamp, nanos};

/// A source of time.
///
/// The clock is read once when a request enters and once when it leaves, sometimes while the lock of the handle is
/// held: it must be quick, must not block, and must not call the handle. It may jump or stand still; the handle never
/// sees time run backwards. A clock that panics stands still: the last time that it told stays valid, and the handle
/// [warns](crate::Admission::warnings).
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time since a fixed moment, such as the creation of the clock.
    fn now(&self) -> Duration;
}

/// The time of Tokio, which tests can pause, or one given by the user.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    Tokio(Origin),
    Custom(Arc<Shielded>),
}

/// A moment on the axis of Tokio's time, as a number that an atomic holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u64);

/// The number of the moment at which this process first asked. Paused clocks may be behind it, by centuries.
const FIRST: u64 = 1 << 62;

impl Origin {
    /// Returns the present moment.
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

    /// Returns the time from this moment until now; zero where now is earlier.
    #[inline]
    pub(crate) fn elapsed(self) -> Timestamp {
        Timestamp::from_nanos(Self::now().0.saturating_sub(self.0))
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

/// A clock of the user's that may panic: also while a request is given back because of another panic, where a second
/// one would end the process.
#[derive(Debug)]
pub(crate) struct Shielded<C: Clock + ?Sized = dyn Clock> {
    /// The last time that it told, in nanoseconds.
    last: AtomicU64,
    panicked: AtomicBool,
    clock: C,
}

impl<C: Clock + ?Sized> Shielded<C> {
    fn now(&self) -> Timestamp {
        match catch_unwind(AssertUnwindSafe(|| self.clock.now())) {
            Ok(elapsed) => {
                let now = nanos(elapsed);
                self.last.store(now, Ordering::Relaxed);
                Timestamp::from_nanos(now)
            }
            Err(_) => {
                self.panicked.store(true, Ordering::Relaxed);
                Timestamp::from_nanos(self.last.load(Ordering::Relaxed))
            }
        }
    }
}

impl TimeSource {
    pub(crate) fn tokio() -> Self {
        Self::Tokio(Origin::now())
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Tokio(origin) => origin.elapsed(),
            Self::Custom(clock) => clock.now(),
        }
    }

    pub(crate) fn custom(clock: impl Clock + 'static) -> Self {
        Self::Custom(Arc::new(Shielded { last: AtomicU64::new(0), panicked: AtomicBool::new(false), clock }))
    }

    /// Returns the moment from which it counts, if it is the time of Tokio.
    pub(crate) const fn origin(&self) -> Option<Origin> {
        match self {
            Self::Tokio(origin) => Some(*origin),
            Self::Custom(_) => None,
        }
    }

    /// Whether it ever panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self, Self::Custom(clock) if clock.panicked.load(Ordering::Relaxed))
    }
}
