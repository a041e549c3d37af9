//! Settings of a handle, one method each.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "config")]
use crate::config::AdmissionConfig;
#[cfg(feature = "capture")]
use crate::engine::plan::Plan;
use crate::runtime::{Admission, remote::RemoteLimiter, shared::Shared};
#[cfg(feature = "shared")]
use crate::store::OnStoreFailure;
use crate::{
    BuildError,
    clock::TimeSource,
    config::{Derived, Labels, Rules, Settings, Share, layer_settings, setters},
    engine::{
        limit::Limit,
        nanos,
        plan::{Discipline, Mode, PartitionMode},
    },
    store::{AdmissionLock, Clock, Keys, Leases},
};

/// Builds an [`Admission`]. Made by [`Admission::builder`].
#[must_use = "a builder does nothing until it is built"]
#[derive(Debug, Default)]
pub struct AdmissionBuilder {
    clock: Option<TimeSource>,
    store: Option<(Leases, Keys)>,
    admission_lock: Option<AdmissionLock>,
    /// The configuration that the settings come from.
    #[cfg(feature = "config")]
    pub(in crate::runtime) origin: Option<Box<AdmissionConfig>>,
    pub(in crate::runtime) settings: Settings,
}

layer_settings! {
    setters! { |builder| builder.settings.values => impl AdmissionBuilder }
}

// Settings of another shape than in files, and what only code can set.
impl AdmissionBuilder {
    /// How many requests may run at once: a number, as in `limit(40)`, or a law that learns it;
    /// [`TwoPoint`](crate::limit::TwoPoint) unless set.
    pub fn limit(mut self, limit: impl Into<Limit>) -> Self {
        self.settings.limit = Some(limit.into());
        self
    }

    /// Sets a shadow limit, which only counts what it would do: none unless set.
    ///
    /// The law of that limit is given the same samples. [`Snapshot::shadow`](crate::snapshot::Snapshot::shadow) and the
    /// metrics tell the limit that it would have set, and how many requests would have found it full. Beside a limit
    /// that learns, or for a shadow limit that learns, these figures are *counterfactual*: under the other limit, times
    /// and then the limits themselves would have been different wherever times depend on load. Shares of partitions,
    /// caps and rates play no part in it.
    pub fn shadow_limit(mut self, limit: impl Into<Limit>) -> Self {
        self.settings.shadow = Some(limit.into());
        self
    }

    /// Rejects at once what can't run at once. The same as a [`wait_timeout`](Self::wait_timeout) of 0.
    ///
    /// A request of a partition that asks for no more than its share waits for the next slot all the same, where others use the
    /// share: for as long as a slot is held at most, and never longer than 500 ms. See [the guarantees](crate::docs::guarantees).
    pub fn shed(self) -> Self {
        self.wait_timeout(Duration::ZERO)
    }

    /// Guarantees a percentage of the limit to a group of callers, which the classifier names.
    ///
    /// The rest goes to the partition `default`, and so do callers that belong to no other partition. With all 100 %
    /// allocated, unknown callers may use idle capacity only.
    pub fn partition(mut self, name: impl Into<String>, share: Share) -> Self {
        self.settings.shares.push((name.into(), share));
        self
    }

    /// Caps, rates and budgets for classes of work.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.settings.rules = rules;
        self
    }

    /// Counts caps, rates and budgets of [`Rules`] for all instances that use the same store and the same keys.
    ///
    /// A request asks for all of its rules at once when it was granted a slot, and holds that for one time limit of the
    /// store at most. What its rules say about [what happens when they are full](crate::WhenFull) holds as before. A
    /// request that waits for a rule waits in line as long as any other, without a slot. A rule can be kept [to this
    /// process](crate::Cap::local), and [`max_pending`](crate::ClassLimits::max_pending) always is. See [the page on
    /// shared limits](crate::docs::shared_limits).
    ///
    /// # Panics
    ///
    /// Never itself. A request that asks a store over the network panics outside of a Tokio runtime with timers.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_admission::{
    ///     Admission, Cap, ClassLimits, Rules, WhenFull,
    ///     store::{Keys, Leases, MemoryStore},
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // With the feature `redis`: RedisStore::builder("redis://…", keys.clone()).build()?
    /// let store = Arc::new(MemoryStore::new());
    /// let admission = Admission::builder()
    ///     .rules(Rules::new().class("run", ClassLimits::new().max_in_flight(Cap::from(2).when_full(WhenFull::Reject))))
    ///     .shared(Leases::builder().build(store), Keys::new("shop")?)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "shared")]
    pub fn shared(mut self, leases: Leases, keys: Keys) -> Self {
        self.store = Some((leases, keys));
        self.settings.sharing.is_shared = true;
        self
    }

    /// What shared rules do while the store is gone, for rules that [don't say so](crate::Cap::on_store_failure):
    /// [`OnStoreFailure::FailClosed`] unless set.
    #[cfg(feature = "shared")]
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.settings.sharing.on_store_failure = on_store_failure;
        self
    }

    /// Publishes how long callers waited for a lock beside the metrics of this handle, as `admission_lock_*`: for none
    /// unless set. A handle publishes one lock, and a lock belongs to one handle.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tower_admission::{
    ///     Admission,
    ///     store::{AdmissionLock, Keys, MemoryStore},
    /// };
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = AdmissionLock::builder().build(Arc::new(MemoryStore::new()), Keys::new("shop")?);
    /// let admission = Admission::builder().lock_metrics(&lock).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "shared")]
    pub fn lock_metrics(mut self, lock: &AdmissionLock) -> Self {
        self.admission_lock = Some(lock.clone());
        self
    }

    /// Takes the time from `clock` rather than from Tokio.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(TimeSource::custom(clock));
        self
    }

    /// Takes the time from the counter of the processor rather than from Tokio: a reading costs less than half as much.
    ///
    /// The counter is that of x86-64 (`TSC`, where it is invariant) and of AArch64 (`CNTVCT`). On all other processors and on
    /// iOS, this is the monotonic time of the system. It counts nanoseconds, and goes faster or slower than the time of the system
    /// by up to some 0.01 %, as it is compared with it only once: when the first handle of a process with this clock is built,
    /// for about a millisecond (0.2 s on a machine that is very busy).
    ///
    /// Tokio's timers still wake waiters, so deadlines are kept within that deviation and the millisecond of these timers.
    /// Don't set this
    ///
    /// - in tests that [pause](https://docs.rs/tokio/1/tokio/time/fn.pause.html) Tokio's time: this clock goes on, while
    ///   timers jump;
    /// - on machines that are suspended, where the counter may begin anew: the time of the handle stands still then, until
    ///   the counter has caught up;
    /// - where the counters of the cores differ, as on some laptops: Linux says so when it starts, and takes another
    ///   [clock source](https://docs.kernel.org/timers/timekeeping.html) than `tsc`.
    #[cfg(feature = "processor-clock")]
    pub fn processor_clock(mut self) -> Self {
        self.clock = Some(TimeSource::processor());
        self
    }

    /// Returns what an engine is told of these settings: for replays in `admission-simulator`, and no part of the interface.
    ///
    /// # Errors
    ///
    /// If the settings can't be used.
    #[cfg(feature = "capture")]
    #[doc(hidden)]
    pub fn into_plan(self) -> Result<Plan, BuildError> {
        self.settings.into_plan().map(|(plan, _)| plan)
    }

    /// Makes the handle.
    ///
    /// # Errors
    ///
    /// Names every setting that can't be used, not just the first.
    pub fn build(self) -> Result<Admission, BuildError> {
        let mode = self.settings.values.mode;
        let name = Some(self.settings.values.name.clone()).filter(|name| !name.is_empty());
        #[cfg(feature = "capture")]
        let policy = self.settings.describe();
        #[cfg(feature = "config")]
        let store = self.settings.sharing.store.clone();
        #[cfg(feature = "capture")]
        let capture = self.settings.capture();
        let drain_after = nanos(self.settings.values.drain_after);
        let (plan, warnings) = self.settings.into_plan()?;
        let limiter = self.store.map(|(leases, keys)| RemoteLimiter::new(leases, keys));
        #[cfg(feature = "config")]
        let limiter = match (limiter, store) {
            (None, Some(settings)) => RemoteLimiter::open(settings)?,
            (limiter, _) => limiter,
        };
        let name = name.unwrap_or_else(next_name);
        let time = self.clock.unwrap_or_else(TimeSource::tokio);
        let mut shared = Shared::new(Arc::from(name), plan, time, warnings, limiter);
        shared.admission_lock = self.admission_lock;
        #[cfg(feature = "config")]
        {
            shared.origin = self.origin.into();
        }
        #[cfg(feature = "capture")]
        {
            shared.policy = policy.into();
        }
        let admission = Admission { shared: shared.share() };
        admission.shared.drain_after.store(drain_after, Ordering::Relaxed);
        if mode != Mode::default() {
            admission.set_mode(mode);
        }
        #[cfg(feature = "capture")]
        admission.shared.capture_as_configured(capture);
        Ok(admission)
    }
}

#[cfg(feature = "config")]
impl From<AdmissionConfig> for AdmissionBuilder {
    fn from(config: AdmissionConfig) -> Self {
        let settings = config.to_settings();
        Self { settings, origin: Some(Box::new(config)), ..Self::default() }
    }
}

/// Handles without a name are numbered, so that their metrics don't overwrite each other.
fn next_name() -> String {
    static HANDLES: AtomicU32 = AtomicU32::new(1);
    match HANDLES.fetch_add(1, Ordering::Relaxed) {
        1 => "admission".to_owned(),
        number => format!("admission-{number}"),
    }
}
