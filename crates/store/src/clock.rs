//! Where the time comes from.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// A source of time.
///
/// The clock is read once when a request enters and once when it leaves, sometimes while the lock of the handle is
/// held: it must be quick, must not block, and must not call the handle. It may jump or stand still; the handle never
/// sees time run backwards. A clock that panics stands still: the last time that it told stays valid, and the handle
/// [warns](https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.warnings).
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time since a fixed moment, such as the creation of the clock.
    fn now(&self) -> Duration;
}

/// A clock of the user's that may panic: also while a request is given back because of another panic, where a second
/// one would end the process.
#[doc(hidden)]
#[derive(Debug)]
pub struct Shielded<C: Clock + ?Sized = dyn Clock> {
    /// The last time that it told, in nanoseconds.
    last: AtomicU64,
    panicked: AtomicBool,
    clock: C,
}

impl<C: Clock> Shielded<C> {
    /// Shields this clock.
    pub fn new(clock: C) -> Self {
        Self { last: AtomicU64::new(0), panicked: AtomicBool::new(false), clock }
    }
}

impl<C: Clock + ?Sized> Shielded<C> {
    /// The time in nanoseconds.
    pub fn nanos(&self) -> u64 {
        match catch_unwind(AssertUnwindSafe(|| self.clock.now())) {
            Ok(elapsed) => {
                let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                self.last.store(now, Ordering::Relaxed);
                now
            }
            Err(_) => {
                self.panicked.store(true, Ordering::Relaxed);
                self.last.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether it ever panicked.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }
}
