//! The drivers of a handle, seen from its turns: when each looks at the engine, and how it is told to look earlier.
//!
//! One driver leads: it looks at the very moment. The other drivers look [a little later](GRACE), in case it did not, and the first of them
//! that finds something left to do leads from then on. So a wait costs a look of one driver, and not of all of them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id, RuntimeFlavor},
    sync::Notify,
};

use super::lock::lock;
use crate::Timestamp;

/// Time between two publications of metrics, and the longest sleep of the driver that leads.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time by which all other drivers look later than the driver that leads.
const GRACE: Duration = Duration::from_millis(5);

/// Time after which a look that was due is missed: its driver has ended, its runtime is blocked, or the clock jumped while it
/// slept. Requests tell it to look no more often than that.
const MISSED: Duration = Duration::from_millis(20);

/// The drivers that there are.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Drivers {
    seats: Mutex<Vec<Arc<DriverSeat>>>,
    made: AtomicU64,
}

/// One driver, seen from outside.
#[derive(Debug)]
pub(in crate::runtime) struct DriverSeat {
    pub(in crate::runtime) number: u64,
    runtime: Id,
    pub(in crate::runtime) look: Notify,
    /// Time of its next look, in nanoseconds; 0 if it looks anyway, or never because its runtime has no timers.
    until: AtomicU64,
    leads: AtomicBool,
}

impl DriverSeat {
    /// Returns when the driver has to look at what is due at `next`.
    fn due(&self, next: Timestamp) -> Timestamp {
        if self.leads.load(Ordering::Relaxed) { next } else { next.after(GRACE) }
    }

    /// Whether it sleeps until some time.
    pub(in crate::runtime) fn sleeps(&self) -> bool {
        self.until.load(Ordering::Relaxed) > 0
    }
}

/// The agreement of the drivers, under the lock of the handle.
#[derive(Debug)]
pub(in crate::runtime) struct Schedule {
    /// The drivers know of all that is due from here on.
    pub(super) armed: Timestamp,
    publish_at: Timestamp,
    leader: Option<u64>,
    /// Time from which on a request finds that no driver has looked when it was due.
    stale_at: Timestamp,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { armed: Timestamp::NEVER, publish_at: Timestamp::ZERO, leader: None, stale_at: Timestamp::ZERO }
    }
}

impl Schedule {
    /// Whether there is no driver, or none has looked when it was due: then for the first request of many that ask at once.
    pub(in crate::runtime) fn is_stale(&mut self, now: Timestamp) -> bool {
        let is_stale = now >= self.stale_at;
        // Where there is no driver, each request is asked: it may be the first that finds a runtime around it.
        if is_stale && self.stale_at > Timestamp::ZERO {
            self.stale_at = now.after(MISSED);
        }
        is_stale
    }

    /// Returns when there is something to do besides what is due at `next`.
    pub(super) fn earliest(&self, next: Timestamp) -> Timestamp {
        next.min(self.publish_at)
    }

    /// Notes that a driver has looked at `now`, when something was due at `was_due`, and `next` is due next.
    pub(super) fn looked(&mut self, now: Timestamp, seat: &DriverSeat, was_due: Timestamp, next: Timestamp) -> Look {
        if self.leader.is_none() || now >= was_due.after(GRACE) {
            self.leader = Some(seat.number);
        }
        let leads = self.leader == Some(seat.number);
        seat.leads.store(leads, Ordering::Relaxed);
        let publishes = leads && now >= self.publish_at;
        if publishes {
            self.publish_at = now.after(INTERVAL);
        }
        let next = self.earliest(next);
        self.armed = next;
        self.stale_at = next.after(MISSED);
        let until = seat.due(next);
        seat.until.store(until.as_nanos(), Ordering::Relaxed);
        Look { publishes, sleeps: until.since(now) }
    }

    /// Forgets the driver of this number, which has ended, and what it knew.
    pub(in crate::runtime) fn forget(&mut self, number: u64) {
        let leader = self.leader.filter(|&leader| leader != number);
        *self = Self { publish_at: self.publish_at, leader, ..Self::default() };
    }
}

impl Drivers {
    /// Tells the drivers that something is due at `next`, earlier than they know.
    pub(super) fn arm(&self, next: Timestamp) {
        let mut has_notified = false;
        for seat in lock(&self.seats).iter() {
            let due = seat.due(next).as_nanos();
            // The driver wrote this under the lock of the handle, which was taken since.
            if seat.until.load(Ordering::Relaxed) > due {
                seat.until.store(due, Ordering::Relaxed);
                seat.look.notify_one();
                has_notified = true;
            }
        }
        if has_notified && let Ok(runtime) = Handle::try_current() {
            make_way(&runtime);
        }
    }

    /// Looks at the seat on a runtime if it is known; returns, as an error, a new seat that has no task yet.
    pub(in crate::runtime) fn seat<R>(
        &self,
        runtime: Id,
        known: impl FnOnce(&DriverSeat) -> R,
    ) -> Result<R, Arc<DriverSeat>> {
        let mut seats = lock(&self.seats);
        if let Some(seat) = seats.iter().find(|seat| seat.runtime == runtime) {
            return Ok(known(seat));
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let (until, leads) = (AtomicU64::new(0), AtomicBool::new(false));
        let seat = Arc::new(DriverSeat { number, runtime, look: Notify::new(), until, leads });
        seats.push(Arc::clone(&seat));
        Err(seat)
    }

    /// Takes a seat away.
    pub(in crate::runtime) fn give_up(&self, number: u64) {
        lock(&self.seats).retain(|seat| seat.number != number);
    }

    pub(in crate::runtime) fn all_look(&self) {
        lock(&self.seats).iter().for_each(|seat| seat.look.notify_one());
    }
}

/// Lets other workers of a runtime run a driver that this worker just woke.
///
/// Tokio reserves the task that a worker woke last for that worker. If the running task then blocks its worker, as the
/// hanging holder of a permit does, the driver would wait for it. Another task after it takes that place.
pub(in crate::runtime) fn make_way(runtime: &Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        // The drivers see that their handle is gone, and end.
        self.all_look();
    }
}

/// The result of a driver's look.
pub(in crate::runtime) struct Look {
    pub(in crate::runtime) publishes: bool,
    pub(in crate::runtime) sleeps: Duration,
}
