//! The tasks of a handle that look at the time: they end the waits whose time is over and publish the metrics.
//!
//! There is one driver for each runtime on which requests wait: a runtime that is blocked, or that is not driven any
//! more, keeps no wait of another runtime from ending. One timer each serves all waiters, for the earliest of their
//! deadlines. A timer is only a hint to look: the engine's answer is the truth.
//!
//! A driver starts with the first request that finds a Tokio runtime around it and, on other runtimes, with the first
//! request that waits there. It holds no strong reference and ends with its runtime.

use std::{
    mem::take,
    panic::catch_unwind,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::runtime::Handle;

use crate::runtime::{
    core::{DriverSeat, discard, make_way, wake},
    shared::Shared,
};

impl Shared {
    /// Makes sure that this runtime has a driver. A waiter calls this *after* its waker is registered: a driver that
    /// ends wakes all waiters that are registered by then, so that they come here again.
    pub(in crate::runtime) fn drive_here(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        self.drive_on(&runtime, |_| ());
    }

    /// Like `drive_here`, for a request that has found that no driver looks any more.
    #[cold]
    pub(in crate::runtime) fn drive_again(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        // A driver that is here already may not know how late it is: a clock of the user's can jump.
        let is_told = self.drive_on(&runtime, |seat| seat.sleeps().then(|| seat.look.notify_one()));
        if is_told.flatten().is_some() {
            make_way(&runtime);
        }
    }

    /// Looks at the driver that is there already.
    fn drive_on<R>(self: &Arc<Self>, runtime: &Handle, known: impl FnOnce(&DriverSeat) -> R) -> Option<R> {
        let seat = match self.drivers.seat(runtime.id(), known) {
            Ok(look) => return Some(look),
            Err(new) => new,
        };
        // Outside of the lock: a runtime that shuts down drops the task right here.
        runtime.spawn(drive(Stopped { shared: Arc::downgrade(self), seat, has_run: false }));
        make_way(runtime);
        None
    }
}

async fn drive(mut stopped: Stopped) {
    stopped.has_run = true;
    let seat = Arc::clone(&stopped.seat);
    // Making a timer panics where there are none.
    let has_timers = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    if !has_timers && let Some(shared) = stopped.shared.upgrade() {
        shared.warn("a Tokio runtime has no timers (enable_time): waits on it don't end by time");
    }
    loop {
        let Some(shared) = stopped.shared.upgrade() else { return };
        if !has_timers {
            drop(shared);
            // The driver stays in its seat, so that no other driver is tried here.
            seat.look.notified().await;
            continue;
        }
        #[cfg_attr(not(feature = "capture"), expect(unused_variables, reason = "for captures"))]
        let (look, ended, seen) = shared.with_engine(|state, time| {
            let now = time.now();
            (state.look(time, now, &seat), take(&mut state.abandoned.ended), (now, state.engine.health()))
        });
        ended.into_iter().for_each(|along| discard(Some(along)));
        if look.publishes {
            shared.look_closely_at_store();
            #[cfg(feature = "introspect")]
            shared.note_history();
            shared.publish();
            #[cfg(feature = "capture")]
            shared.capture_trouble(seen);
        }
        drop(shared);
        // Timed out or notified: either way it is time to look.
        let _ = tokio::time::timeout(look.sleeps, seat.look.notified()).await;
    }
}

/// Dropped with the task, however the task ends.
struct Stopped {
    shared: Weak<Shared>,
    seat: Arc<DriverSeat>,
    /// Whether the task ran. If its runtime was shutting down, it did not, and no waiter can have relied on it.
    has_run: bool,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let number = self.seat.number;
        // First, so that a waiter that is woken, or registers later, starts another driver.
        shared.drivers.give_up(number);
        if !self.has_run {
            return;
        }
        let wakers = shared.with_engine(|state, _| {
            state.schedule.forget(number);
            state.wakers.waiters.take_all()
        });
        shared.drivers.all_look();
        wakers.into_iter().for_each(wake);
    }
}
