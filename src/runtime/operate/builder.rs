//! Settings of a handle, one method each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "config")]
use crate::config::AdmissionConfig;
use crate::runtime::{Admission, remote::RemoteLimiter, shared::Shared};
use crate::{
    clock::{Clock, TimeSource},
    config::{Labels, Rules, Settings, Share},
    engine::{
        Engine,
        limit::Limit,
        plan::{Discipline, Mode, PartitionMode},
    },
    problem::BuildError,
    store::{AdmissionLock, Keys, Leases, OnStoreFailure},
};

/// Builds an [`Admission`]. Made by [`Admission::builder`].
#[must_use = "a builder does nothing until it is built"]
#[derive(Debug, Default)]
pub struct AdmissionBuilder {
    name: Option<String>,
    clock: Option<TimeSource>,
    limiter: Option<RemoteLimiter>,
    admission_lock: Option<AdmissionLock>,
    /// The configuration that the settings come from.
    #[cfg(feature = "config")]
    pub(in crate::runtime) origin: Option<Box<AdmissionConfig>>,
    pub(in crate::runtime) settings: Settings,
}

impl AdmissionBuilder {
    /// The name of this handle in metrics and snapshots: `admission`, `admission-2` and so on unless set. Handles that
    /// share a name overwrite each other's metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many requests may run at once: a [`Fixed`](crate::limit::Fixed) 100 unless set, or a law that learns it.
    pub fn limit(mut self, limit: impl Into<Limit>) -> Self {
        self.settings.limit = limit.into();
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

    /// How many requests may wait in line for a slot: 0 unless set.
    ///
    /// With a queue, admission has two phases. A gate lets `limit + queue` requests in; requests that find it full wait
    /// there for at most the [admission timeout](Self::admission_timeout). A request inside waits for a slot, first
    /// come first served, for as long as the caller's deadline and [`max_wait`](Self::max_wait) allow.
    ///
    /// Without a queue, a request that finds no slot waits for at most the [wait timeout](Self::wait_timeout).
    pub fn queue(mut self, places: usize) -> Self {
        self.settings.waiting.queue = places;
        self
    }

    /// How long a request waits at the full gate: 5 s unless set, 0 rejects at once. Only with a queue.
    ///
    /// Keep it short. Where every slot and every place is taken for minutes, waiting longer only delays the answer.
    pub fn admission_timeout(mut self, timeout: Duration) -> Self {
        self.settings.waiting.admission_timeout = timeout;
        self
    }

    /// How long a request waits in line for a slot: without a bound unless set. Only with a queue.
    ///
    /// Set it wherever callers don't send a deadline and don't wait for ever. A queue that holds more work than its
    /// callers have patience for serves no caller after a spike, because each slot goes to a caller that has just left.
    /// Less than the callers' patience minus the time that a request takes is a good value. It also bounds how long a
    /// vanished HTTP/1 client can hold a place; see the guarantees page.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.settings.waiting.max_wait = Some(wait);
        self
    }

    /// How long a request waits for a slot where there is no queue: 30 s unless set, 0 rejects at once.
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.waiting.wait_timeout = Some(timeout);
        self
    }

    /// How many requests may wait at the full gate or, without a queue, for a slot: as many as the current limit unless
    /// set. All further requests are rejected at once.
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.settings.waiting.max_waiting = Some(requests);
        self
    }

    /// Rejects at once what can't run at once. The same as a [`wait_timeout`](Self::wait_timeout) of 0.
    pub fn shed(self) -> Self {
        self.wait_timeout(Duration::ZERO)
    }

    /// Guarantees a percentage of the limit to a group of callers, which the classifier names.
    ///
    /// The rest goes to the partition `default`, and so do callers that belong to no other partition. With all 100 %
    /// allocated, unknown callers may use idle capacity only.
    pub fn partition(mut self, name: impl Into<String>, share: Share) -> Self {
        self.settings.partitions.shares.push((name.into(), share));
        self
    }

    /// What the partition `default` may do beyond its share: [`PartitionMode::Burst`] unless set.
    pub fn default_partition_mode(mut self, mode: PartitionMode) -> Self {
        self.settings.partitions.default_mode = mode;
        self
    }

    /// Whether the partition `default` observes: it stops no request and only counts what it would do, as
    /// [`Share::observe`] has others do. Not so unless set.
    ///
    /// So known callers may be held to their shares while the other callers are not known yet, or the other way round.
    pub fn default_partition_observe(mut self, observe: bool) -> Self {
        self.settings.partitions.default_observes = observe;
        self
    }

    /// What holds for requests with a label: bounds, caps, weights.
    pub fn labels(mut self, labels: Labels) -> Self {
        self.settings.labels = labels;
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
    pub fn shared(mut self, leases: Leases, keys: Keys) -> Self {
        self.limiter = Some(RemoteLimiter::new(leases, keys));
        self.settings.sharing.is_shared = true;
        self
    }

    /// What shared rules do while the store is gone, for rules that [don't say so](crate::Cap::when_gone):
    /// [`OnStoreFailure::FailClosed`] unless set.
    pub fn when_gone(mut self, when_gone: OnStoreFailure) -> Self {
        self.settings.sharing.when_gone = when_gone;
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
    pub fn lock_metrics(mut self, lock: &AdmissionLock) -> Self {
        self.admission_lock = Some(lock.clone());
        self
    }

    /// Which waiter goes first: [`Discipline::Fair`] unless set.
    pub fn discipline(mut self, discipline: Discipline) -> Self {
        self.settings.waiting.discipline = discipline;
        self
    }

    /// How often less [important](crate::Criticality) requests are passed over before it is their turn: 16 times unless
    /// set. `None` lets them wait for as long as more important ones come.
    pub fn aging(mut self, turns: impl Into<Option<u32>>) -> Self {
        self.settings.waiting.aging = turns.into();
        self
    }

    /// How long a permit is good for: without an end unless set.
    ///
    /// When its time is over, its slot is taken back and other requests may run, whether its holder has noticed or not.
    /// The holder [is told](crate::Permit::expired), and counted as overdue. This is a remedy for holders that hang:
    /// the work itself goes on, so the server may then do more at once than the limit says.
    pub fn permit_time_to_live(mut self, time: Duration) -> Self {
        self.settings.time_to_live = Some(time);
        self
    }

    /// How long clients wait for an answer, as far as you know. Changes nothing; a queue that keeps requests for longer
    /// than that gets a warning.
    pub fn client_patience(mut self, patience: Duration) -> Self {
        self.settings.hints.client_patience = Some(patience);
        self
    }

    /// How many requests the server admits at once, as far as you know: the streams of an HTTP/2 connection, the calls
    /// of a gRPC server. Changes nothing; a server that admits less than the limit and the queue hold gets a warning.
    pub fn max_concurrent_streams(mut self, streams: usize) -> Self {
        self.settings.hints.max_concurrent_streams = Some(streams);
        self
    }

    /// How many decisions about requests are remembered, and as many changes of the handle: 512 unless set, 0 for none.
    ///
    /// [`Admission::journal`] shows them. Each takes 48 bytes, which are taken at once.
    pub fn journal(mut self, entries: usize) -> Self {
        self.settings.journal = entries;
        self
    }

    /// Whether decisions bind, to begin with: [`Mode::Enforce`] unless set. It can be [changed](Admission::set_mode)
    /// later.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Takes the time from `clock` rather than from Tokio.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(TimeSource::custom(clock));
        self
    }

    /// Makes the handle.
    ///
    /// # Errors
    ///
    /// Names every setting that can't be used, not just the first.
    pub fn build(self) -> Result<Admission, BuildError> {
        let mode = self.settings.mode;
        #[cfg(feature = "introspect")]
        let policy = self.settings.describe();
        #[cfg(feature = "config")]
        let store = self.settings.sharing.store.clone();
        let (plan, warnings) = self.settings.into_plan()?;
        let limiter = self.limiter;
        #[cfg(feature = "config")]
        let limiter = match (limiter, store) {
            (None, Some(settings)) => RemoteLimiter::open(settings)?,
            (limiter, _) => limiter,
        };
        let name = self.name.unwrap_or_else(next_name);
        let time = self.clock.unwrap_or_else(TimeSource::tokio);
        let shared = Shared::new(Arc::from(name), Engine::new(plan), time, warnings, limiter);
        let shared = shared.with_lock(self.admission_lock);
        #[cfg(feature = "config")]
        let shared = shared.with_origin(self.origin);
        #[cfg(feature = "introspect")]
        let shared = shared.described(policy);
        let admission = Admission { shared: Arc::new(shared) };
        if mode != Mode::default() {
            admission.set_mode(mode);
        }
        Ok(admission)
    }
}

#[cfg(feature = "config")]
impl From<AdmissionConfig> for AdmissionBuilder {
    fn from(config: AdmissionConfig) -> Self {
        let name = (!config.name.is_empty()).then(|| config.name.clone());
        let settings = config.to_settings();
        Self { name, settings, origin: Some(Box::new(config)), ..Self::default() }
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
