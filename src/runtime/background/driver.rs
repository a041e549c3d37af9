//! The tasks of a handle that look at the time: they turn away whose wait is over and publish the metrics.
//!
//! There is one for each runtime on which requests wait: a runtime that is blocked, or that nobody drives any more, keeps
//! no wait of another one from ending. One timer each serves all waiters, for the earliest of their deadlines. It is only a
//! hint to look: the engine's answer is the truth.
//!
//! One driver leads: it looks at the very moment. The others look [a little later](GRACE), in case it did not, and the
//! first of them that finds something left to do leads from then on. So a wait costs a look of one driver, and not of
//! all of them.
//!
//! A driver starts with the first request that finds a Tokio runtime around it and, on other runtimes, with the first that
//! waits there. It holds no strong reference and ends with its runtime.

use std::{
    panic::catch_unwind,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id, RuntimeFlavor},
    sync::Notify,
};

use crate::runtime::core::{Shared, State, lock, wake};
use crate::time::Timestamp;

/// How often metrics are published, and how long the driver that leads sleeps at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// How much later than the one that leads all others look.
const GRACE: Duration = Duration::from_millis(5);

/// The drivers that there are.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Drivers {
    posts: Mutex<Vec<Arc<Post>>>,
    made: AtomicU64,
}

/// One driver, seen from outside.
#[derive(Debug)]
struct Post {
    number: u64,
    runtime: Id,
    look: Notify,
    /// When it will look, in nanoseconds; 0 if it looks anyway, or never because its runtime has no timers.
    until: AtomicU64,
    leads: AtomicBool,
}

impl Post {
    /// When it has to look at what is due at `next`.
    fn due(&self, next: Timestamp) -> Timestamp {
        if self.leads.load(Ordering::Relaxed) { next } else { next.after(GRACE) }
    }
}

/// What the drivers have agreed on, under the lock of the handle.
#[derive(Debug)]
pub(in crate::runtime) struct Schedule {
    /// The drivers know of all that is due from here on.
    pub(in crate::runtime) armed: Timestamp,
    publish_at: Timestamp,
    leader: Option<u64>,
    /// A request that comes so late finds that none has looked for long.
    stale_at: Timestamp,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { armed: Timestamp::NEVER, publish_at: Timestamp::ZERO, leader: None, stale_at: Timestamp::ZERO }
    }
}

impl Schedule {
    /// Whether there is no driver, or none that still looks.
    pub(in crate::runtime) fn is_stale(&self, now: Timestamp) -> bool {
        now >= self.stale_at
    }
}

impl Drivers {
    /// Something is due at `next`, earlier than the drivers know.
    pub(in crate::runtime) fn arm(&self, next: Timestamp) {
        let mut has_notified = false;
        for post in lock(&self.posts).iter() {
            let due = post.due(next).as_nanos();
            // Written by the driver under the lock of the handle, which was taken since.
            if post.until.load(Ordering::Relaxed) > due {
                post.until.store(due, Ordering::Relaxed);
                post.look.notify_one();
                has_notified = true;
            }
        }
        if has_notified && let Ok(runtime) = Handle::try_current() {
            make_way(&runtime);
        }
    }

    fn all_look(&self) {
        lock(&self.posts).iter().for_each(|post| post.look.notify_one());
    }
}

/// Lets other workers of a runtime run a driver that was just woken by this one.
///
/// Tokio keeps the task that a worker woke last for that worker alone. Should the task that is running now block its
/// worker, as the hanging holder of a permit does, the driver would wait for it. Another task after it takes that place.
fn make_way(runtime: &Handle) {
    if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
        runtime.spawn(async {});
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        // They see that their handle is gone, and end.
        self.all_look();
    }
}

impl Shared {
    /// Sees to it that this runtime has a driver. Whoever waits calls this *after* its waker is registered: a driver that
    /// ends wakes all that are registered by then, so that they come here again.
    pub(in crate::runtime) fn drive_here(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        self.drive_on(&runtime);
    }

    /// The same for a request that has found that no driver looks any more.
    #[cold]
    pub(in crate::runtime) fn drive_again(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        // One that is here already may not know how late it is: a clock of the user's can jump.
        if let Some(post) = self.drive_on(&runtime)
            && post.until.load(Ordering::Relaxed) > 0
        {
            post.look.notify_one();
            make_way(&runtime);
        }
    }

    /// Answers the driver that is there already.
    fn drive_on(self: &Arc<Self>, runtime: &Handle) -> Option<Arc<Post>> {
        let id = runtime.id();
        let post = {
            let mut posts = lock(&self.drivers.posts);
            if let Some(post) = posts.iter().find(|post| post.runtime == id) {
                return Some(Arc::clone(post));
            }
            let number = self.drivers.made.fetch_add(1, Ordering::Relaxed);
            let (until, leads) = (AtomicU64::new(0), AtomicBool::new(false));
            posts.push(Arc::new(Post { number, runtime: id, look: Notify::new(), until, leads }));
            Arc::clone(posts.last()?)
        };
        // Outside of the lock: a runtime that shuts down drops the task right here.
        runtime.spawn(drive(Stopped { shared: Arc::downgrade(self), post, has_run: false }));
        make_way(runtime);
        None
    }
}

async fn drive(mut stopped: Stopped) {
    stopped.has_run = true;
    let post = Arc::clone(&stopped.post);
    // Making a timer panics where there are none.
    let has_timers = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
    if !has_timers && let Some(shared) = stopped.shared.upgrade() {
        shared.warn("a Tokio runtime has no timers (enable_time): waits on it don't end by time");
    }
    loop {
        let Some(shared) = stopped.shared.upgrade() else { return };
        if !has_timers {
            drop(shared);
            // It keeps its post, so that no other is tried here.
            post.look.notified().await;
            continue;
        }
        let look = shared.turn(|state, time| {
            let now = time.now();
            state.look(now, &post)
        });
        if look.publishes {
            shared.look_closely_at_store();
            shared.publish();
        }
        drop(shared);
        // Timed out or notified: either way it is time to look.
        let _ = tokio::time::timeout(look.sleeps, post.look.notified()).await;
    }
}

/// What a look of a driver has brought.
struct Look {
    publishes: bool,
    sleeps: Duration,
}

impl State {
    fn look(&mut self, now: Timestamp, post: &Post) -> Look {
        let next = |state: &Self| state.engine.next_wakeup().unwrap_or(Timestamp::NEVER).min(state.schedule.publish_at);
        let was_due = next(self);
        self.engine.tick(now);
        #[cfg(feature = "introspect")]
        self.note(|| crate::runtime::core::Step::Tick);
        let now = self.engine.now();
        let schedule = &mut self.schedule;
        if schedule.leader.is_none() || now >= was_due.after(GRACE) {
            schedule.leader = Some(post.number);
        }
        let leads = schedule.leader == Some(post.number);
        post.leads.store(leads, Ordering::Relaxed);
        let publishes = leads && now >= schedule.publish_at;
        if publishes {
            schedule.publish_at = now.after(INTERVAL);
        }
        let next = next(self);
        self.schedule.armed = next;
        self.schedule.stale_at = next.after(INTERVAL);
        let until = post.due(next);
        post.until.store(until.as_nanos(), Ordering::Relaxed);
        Look { publishes, sleeps: until.since(now) }
    }
}

/// Dropped with the task, however that ends.
struct Stopped {
    shared: Weak<Shared>,
    post: Arc<Post>,
    /// Not so if its runtime was shutting down: then none can have relied on it.
    has_run: bool,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let number = self.post.number;
        // First, so that a waiter that is woken, or registers later, starts another one.
        lock(&shared.drivers.posts).retain(|post| post.number != number);
        if !self.has_run {
            return;
        }
        let wakers = shared.turn(|state, _| {
            let leader = state.schedule.leader.filter(|&leader| leader != number);
            state.schedule = Schedule { publish_at: state.schedule.publish_at, leader, ..Schedule::default() };
            state.take_all_wakers()
        });
        shared.drivers.all_look();
        wakers.into_iter().for_each(wake);
    }
}
