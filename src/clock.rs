//! Where the time comes from.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

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
    Tokio(tokio::time::Instant),
    Custom(Arc<Shielded>),
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
        Self::Tokio(tokio::time::Instant::now())
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Tokio(origin) => {
                Timestamp::from_nanos(nanos(tokio::time::Instant::now().saturating_duration_since(*origin)))
            }
            Self::Custom(clock) => clock.now(),
        }
    }

    pub(crate) fn custom(clock: impl Clock + 'static) -> Self {
        Self::Custom(Arc::new(Shielded { last: AtomicU64::new(0), panicked: AtomicBool::new(false), clock }))
    }

    /// Whether it ever panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        matches!(self, Self::Custom(clock) if clock.panicked.load(Ordering::Relaxed))
    }
}
