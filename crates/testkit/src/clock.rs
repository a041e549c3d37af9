use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tower_admission::Clock;

/// A clock that is set by hand, and begins at zero. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct ByHand(Arc<AtomicU64>);

impl ByHand {
    /// From now on it tells this time.
    pub fn set(&self, now: Duration) {
        self.0.store(nanos(now), SeqCst);
    }

    /// Lets so much time pass.
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(nanos(time), SeqCst);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}
