//! Where the time comes from.

use std::{fmt, sync::Arc, time::Duration};

use crate::time::{Timestamp, nanos};

/// A source of time.
///
/// Read once when a request enters and once when it leaves, at times while the lock of the handle is held: it must be
/// quick and neither block nor call back. It may jump or stand still; the handle never sees time run backwards.
pub trait Clock: fmt::Debug + Send + Sync {
    /// How much time has passed since some fixed moment, such as the making of the clock.
    fn now(&self) -> Duration;
}

/// The time of Tokio, which tests can pause, or one given by the user.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    Tokio(tokio::time::Instant),
    Custom(Arc<dyn Clock>),
}

impl TimeSource {
    pub(crate) fn tokio() -> Self {
        Self::Tokio(tokio::time::Instant::now())
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = match self {
            Self::Tokio(origin) => tokio::time::Instant::now().saturating_duration_since(*origin),
            Self::Custom(clock) => clock.now(),
        };
        Timestamp::from_nanos(nanos(elapsed))
    }
}
