//! The state that all clones of a handle share.

mod lane_arena;

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

pub(super) use self::lane_arena::LaneArena;
#[cfg(feature = "introspect")]
use super::background::History;
#[cfg(feature = "capture")]
use super::capture::RollingSlot;
use super::{
    background::{LastReported, Recorder},
    core::Core,
    remote::RemoteLimiter,
};
#[cfg(feature = "config")]
use crate::config::AdmissionConfig;
use crate::{
    clock::TimeSource,
    engine::{Engine, plan::Plan},
    store::AdmissionLock,
};

/// The [core](Core) of a handle, with its store, settings and reports. Code that only talks to the engine takes the
/// core.
pub(crate) struct Shared {
    core: Core,
    arena: &'static LaneArena,
    pub(super) recorder: Mutex<Recorder>,
    /// What happened in the last hour, once it is asked for.
    #[cfg(feature = "introspect")]
    pub(super) history: Mutex<Option<Box<History>>>,
    /// The present settings as text, or the setting that there is no text for.
    #[cfg(feature = "capture")]
    pub(super) policy: Mutex<Result<serde_json::Value, String>>,
    /// The capture of the last minutes.
    #[cfg(feature = "capture")]
    pub(super) rolling: Mutex<RollingSlot>,
    /// The store that counts shared rules.
    pub(super) limiter: Option<RemoteLimiter>,
    /// Lock whose waits are published.
    pub(super) admission_lock: Option<AdmissionLock>,
    /// Configuration that the present settings come from.
    #[cfg(feature = "config")]
    pub(super) origin: Mutex<Option<Box<AdmissionConfig>>>,
    /// Whether clients are to go elsewhere: the handle leaves, or drains.
    leaving: AtomicBool,
    /// Futures that wait until it does.
    left: Notify,
    /// Time between the end of readiness and that of admission, in nanoseconds.
    pub(super) drain_after: AtomicU64,
    /// The state that was traced last.
    pub(super) last_traced: Mutex<LastReported>,
}

impl Deref for Shared {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Shared {
    pub(super) fn new(
        name: Arc<str>,
        plan: Plan,
        time: TimeSource,
        warnings: Vec<String>,
        limiter: Option<RemoteLimiter>,
    ) -> Self {
        let (max_limit, learns_hold_times) = (plan.law.max_limit(), plan.law.learns_hold_times());
        let engine = Engine::new(plan);
        let arena = LaneArena::find(engine.partitions().count(), max_limit.max(engine.limit()), &time);
        arena.lanes().note_settings(engine.default_deadline(), learns_hold_times);
        Self {
            last_traced: Mutex::new(LastReported::of(engine.snapshot())),
            core: Core::new(name, engine, time, arena.lanes(), warnings),
            arena,
            recorder: Mutex::default(),
            leaving: AtomicBool::new(false),
            left: Notify::new(),
            drain_after: AtomicU64::new(0),
            #[cfg(feature = "introspect")]
            history: Mutex::default(),
            #[cfg(feature = "capture")]
            policy: Mutex::new(Err("settings".to_owned())),
            #[cfg(feature = "capture")]
            rolling: Mutex::default(),
            limiter,
            admission_lock: None,
            #[cfg(feature = "config")]
            origin: Mutex::default(),
        }
    }

    /// Returns the handle's state, as its clones share it.
    pub(super) fn share(self) -> Arc<Self> {
        let shared = Arc::new(self);
        shared.arena.belongs_to(&shared);
        shared
    }

    /// Returns the memory that lent slots are in.
    pub(super) const fn arena(&self) -> &'static LaneArena {
        self.arena
    }

    /// Returns what tells the handle from others.
    #[inline]
    pub(crate) fn id(&self) -> usize {
        self.arena.id()
    }

    /// Whether clients are to go elsewhere: the handle leaves, or drains.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Has the answers tell clients to go elsewhere.
    pub(super) fn begin_to_leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.left.notify_waiters();
    }

    /// Waits until the handle leaves, or drains.
    pub(super) async fn leaves(&self) {
        self.until(Self::is_leaving).await;
    }

    /// Waits until the handle drains.
    pub(super) async fn closes(&self) {
        self.until(|it| it.with_engine(|state, _| state.engine.is_closed())).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            // Made before the look, so that it ends also if the handle leaves in between.
            let left = self.left.notified();
            if is_so(self) {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.core.close_lanes();
        self.arena.leave_to_others();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}
