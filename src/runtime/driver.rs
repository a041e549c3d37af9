//! The one task of a handle: turns away whose wait is over and publishes the metrics.
//!
//! One timer serves all waiters, for the earliest of their deadlines. It is only a hint to look: the engine's answer is
//! the truth. The task starts with the first request that finds a Tokio runtime around it, holds no strong reference,
//! and starts again on another runtime should its own end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id},
    sync::Notify,
};

use super::turn::{Shared, lock};
use crate::time::Timestamp;

/// How often metrics are published, and how long the driver sleeps at most.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Driver {
    runs: AtomicBool,
    look: Arc<Notify>,
    /// A runtime that has no timers. Trying again with every request would only repeat the panic.
    without_timers: Mutex<Option<Id>>,
}

impl Driver {
    /// There is something to do earlier than the driver knows.
    pub(super) fn look_again(&self) {
        self.look.notify_one();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver sees that its handle is gone, and ends.
        self.look.notify_one();
    }
}

impl Shared {
    /// Starts the driver unless it runs already.
    pub(super) fn ensure_driver(self: &Arc<Self>) {
        if !self.driver.runs.load(Ordering::Relaxed) {
            self.start_driver();
        }
    }

    #[cold]
    fn start_driver(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if *lock(&self.driver.without_timers) == Some(runtime.id()) || self.driver.runs.swap(true, Ordering::Relaxed) {
            return;
        }
        let stopped = Stopped(Arc::downgrade(self));
        runtime.spawn(drive(stopped, Arc::clone(&self.driver.look)));
    }
}

async fn drive(stopped: Stopped, look: Arc<Notify>) {
    // Making a timer panics where there are none.
    if catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_err() {
        if let Some(shared) = stopped.0.upgrade() {
            *lock(&shared.driver.without_timers) = Some(Handle::current().id());
            shared.warn("a Tokio runtime has no timers (enable_time): waits on it don't end by time");
        }
        return;
    }
    let mut publish_at = Timestamp::ZERO;
    loop {
        let Some(shared) = stopped.0.upgrade() else { return };
        let (now, next) = shared.turn(|state, time| {
            state.engine.tick(time.now());
            #[cfg(feature = "introspect")]
            state.note(|| super::capture::Step::Tick);
            let now = state.engine.now();
            let next = state.engine.next_wakeup().unwrap_or(Timestamp::NEVER).min(now.after(INTERVAL));
            state.armed = next;
            (now, next)
        });
        if now >= publish_at {
            shared.look_closely_at_store();
            // Waits must end whatever a recorder does.
            if catch_unwind(AssertUnwindSafe(|| shared.publish())).is_err() {
                shared.warn("the metrics recorder panicked");
            }
            publish_at = now.after(INTERVAL);
        }
        drop(shared);
        // Timed out or notified: either way it is time to look.
        let _ = tokio::time::timeout(next.since(now), look.notified()).await;
    }
}

/// Dropped with the task, however that ends.
struct Stopped(Weak<Shared>);

impl Drop for Stopped {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else { return };
        shared.driver.runs.store(false, Ordering::Relaxed);
        // Those who wait on another runtime, where there is one, look for themselves and start a new driver.
        let wakers = shared.turn(|state, _| {
            state.armed = Timestamp::NEVER;
            state.take_all_wakers()
        });
        wakers.into_iter().for_each(Waker::wake);
    }
}
