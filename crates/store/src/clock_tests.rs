//! A clock for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::Clock;

/// A clock that tests set, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manual(pub(crate) Arc<AtomicU64>);

impl Clock for Manual {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
}
