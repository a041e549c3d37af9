//! The engine at work: the lock, the futures that wait, the timers and the metrics.

mod admit;
mod background;
#[cfg(feature = "capture")]
mod capture;
#[cfg(any(feature = "capture", feature = "introspect"))]
mod capture_status;
#[cfg(all(test, feature = "processor-clock"))]
mod clock_tests;
mod core;
#[cfg(test)]
mod flood_tests;
#[cfg(test)]
mod label_lane_tests;
#[cfg(test)]
mod lanes_per_partition_tests;
mod operate;
#[cfg(test)]
mod quiet_tests;
mod remote;
mod shared;

use std::{sync::Arc, time::Duration};

pub use self::admit::{Admit, KeptSlot, LeaseLost, Permit, PermitExpiry, SlotKeeper};
pub(crate) use self::admit::{AsShared, Entry, SlotGuard, Waiting};
#[cfg(feature = "introspect")]
pub(crate) use self::background::{Frame, HistoryView, Row};
#[cfg(feature = "capture")]
pub use self::capture::{Capture, CaptureError, CapturedLines, Recording, RollingCapture};
#[cfg(any(feature = "capture", feature = "introspect"))]
pub use self::capture_status::CaptureStatus;
#[cfg(feature = "config")]
pub use self::operate::Watch;
pub use self::operate::{AdmissionBuilder, DrainMode, WorkerReport};
pub(crate) use self::shared::Shared;

use crate::{
    Timestamp,
    engine::{LabelSnapshot, Snapshot, Subject, WaiterSnapshot, normal, plan::Mode},
    keys::PartitionKey,
    rejection::Rejection,
    store::Health,
    ticket::Ticket,
};

/// The handle that owns all decisions. Clones share them.
///
/// Give it to an [`AdmissionLayer`](crate::AdmissionLayer), or call [`admit`](Self::admit) where there is no tower
/// service.
///
/// ```
/// use tower_admission::{Admission, Outcome, Ticket, limit::Fixed, percent};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let admission = Admission::builder()
///     .limit(Fixed::new(10))
///     .queue(50)
///     .partition("interactive", percent(70))
///     .build()?;
///
/// let permit = admission.admit(Ticket::new().partition("interactive")).await?;
/// // … the work …
/// permit.finish(Outcome::Success);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    pub(crate) shared: Arc<Shared>,
}

impl Admission {
    /// Starts with the defaults: a learned limit, from 20 on, no queue, one partition.
    pub fn builder() -> AdmissionBuilder {
        AdmissionBuilder::default()
    }

    /// Admits a request, after a wait if need be.
    ///
    /// Arrives when first polled. Waits that end by time need a Tokio runtime with timers; without one a wait ends
    /// when a slot comes free, or when the future is polled after its time.
    ///
    /// # Errors
    ///
    /// Returns why there is no slot, and when to come back.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; see [`Admit`].
    pub fn admit(&self, ticket: Ticket<'_>) -> Admit {
        Admit::new(&self.shared, ticket)
    }

    /// Admits a request if a slot is free right now.
    ///
    /// Where rules [are shared](AdmissionBuilder::shared) by all instances, this can't ask the store, since that takes
    /// a round trip. Then only capacity counts that this process holds already, in [local
    /// shares](crate::store::LeasesBuilder::local_shares). All other requests are rejected with
    /// [`Reason::StoreUnavailable`](crate::Reason::StoreUnavailable); use [`admit`](Self::admit) for them.
    ///
    /// # Errors
    ///
    /// Returns why there is no slot, and when to come back.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is for one request")]
    pub fn try_admit(&self, ticket: Ticket<'_>) -> Result<Permit, Rejection> {
        self.shared.try_arrive(&ticket)
    }

    /// Returns the key of a partition, so that requests can name it without a look-up; see
    /// [`partition_by_extension`](crate::classify::partition_by_extension). `None` if no partition has this name. A key stays
    /// valid over reloads.
    #[must_use]
    pub fn partition_key(&self, name: &str) -> Option<PartitionKey> {
        self.shared.partition_key(name)
    }

    /// Makes decisions bind, or not, from now on. Waiters are admitted at once when decisions stop binding. No mode
    /// reopens a handle that [drains](Self::drain).
    pub fn set_mode(&self, mode: Mode) {
        self.shared.with_engine(|state, time| state.set_mode(time.now(), mode));
        self.shared.tell_now();
    }

    /// Looks at the clock, rejects waiters whose wait is over, and gives the slots back of abandoned work that has ended. The
    /// driver does so in time; call it yourself where there is no Tokio runtime, or where the clock is one of your own that
    /// doesn't run with Tokio's.
    pub fn tick(&self) {
        // A turn ends some waits and not all of them, so that requests are not kept waiting for the lock.
        while self.shared.with_engine(|state, time| {
            let now = time.now();
            state.end_abandoned(time, now);
            state.tick(now);
            state.next_wakeup() <= now
        }) {}
    }

    /// Returns when [`tick`](Self::tick) will have something to do, on the clock of this handle. `None` while no wait
    /// and no slot has an end.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let next = self.shared.with_engine(|state, _| state.next_wakeup());
        (next != Timestamp::NEVER).then(|| Duration::from_nanos(next.as_nanos()))
    }

    /// Returns the present state, all of it taken in the same turn but for the labels. These are read in portions, so
    /// that no request waits for a slot until thousands of labels are described.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.look_at_store();
        let now = self.shared.time.now();
        let mut snapshot = self.shared.with_engine(|state, _| {
            state.engine.pass_time_for_look(now);
            state.snapshot()
        });
        snapshot.labels = self.label_snapshots();
        self.complete(&mut snapshot);
        snapshot
    }

    /// Adds what the engine does not know.
    pub(crate) fn complete(&self, snapshot: &mut Snapshot) {
        snapshot.name = self.shared.name.to_string();
        snapshot.warnings = self.warnings();
        snapshot.store = self.shared.store_snapshot();
        #[cfg(feature = "introspect")]
        self.shared.add_changes(&mut snapshot.health);
    }

    /// Returns all labels that are known, by name.
    fn label_snapshots(&self) -> Vec<LabelSnapshot> {
        /// Entries that are looked at in one turn.
        const AT_ONCE: usize = 64;
        let (mut labels, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            from = self.shared.with_engine(|state, _| state.engine.label_snapshots(at, AT_ONCE, &mut labels));
        }
        labels.sort_unstable_by(|a, b| identity(a).cmp(&identity(b)));
        // A label that was forgotten and came back meanwhile may have been met twice.
        labels.dedup_by(|a, b| identity(a) == identity(b));
        labels
    }

    /// Returns the present state of one label, for work of a class that has no rules of its own; `None` if the label is
    /// not known, as are labels without a recent request.
    pub fn label(&self, namespace: &str, label: &str) -> Option<LabelSnapshot> {
        let subject = Subject::new(normal(namespace).unwrap_or_default(), normal(label)?, None);
        self.shared.look_at_store();
        self.shared.with_engine(|state, _| state.engine.find_label(None, &subject))
    }

    /// Returns the waiters of a label, in the order in which they came, ten thousand at most: where each stands, what
    /// is in its way, and how long it is likely to wait. Empty, if the label is not known.
    pub fn waiters(&self, namespace: &str, label: &str) -> Vec<WaiterSnapshot> {
        let Some(label) = normal(label) else { return Vec::new() };
        let subject = Subject::new(normal(namespace).unwrap_or_default(), label, None);
        let now = self.shared.time.now();
        let found = self.shared.with_engine(|state, _| {
            state.engine.advance(now);
            state.engine.waiters_of(&subject, 0, usize::MAX)
        });
        found.map(|(waiters, _)| waiters).unwrap_or_default()
    }

    /// Returns settings and uses that are allowed and are likely to be mistakes.
    ///
    /// Once a thousand requests have come, partitions and classes of the settings that none of them had are among
    /// these. So are partitions whose callers left before the answer, most of them, while all slots were taken.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = core::lock(&self.shared.warnings).clone();
        if self.shared.time.has_panicked() {
            warnings.push("the clock panicked: the last time that it told was taken instead".to_owned());
        }
        if self.shared.limiter.as_ref().is_some_and(|limiter| limiter.health() == Health::Evicting) {
            let evicts = "the server of the store throws keys away when it is full, and with them caps: \
                          set its maxmemory-policy to noeviction";
            warnings.push(evicts.to_owned());
        }
        let has_shared_rules = || self.shared.with_engine(|state, _| state.engine.has_shared_rules());
        if self.shared.limiter.is_some() && !has_shared_rules() {
            let unused = "a store is set, and nothing is counted in it: rules (Rules) are shared by instances, while the limit and the \
                          caps of labels (Labels::cap) hold in each process by itself";
            warnings.push(unused.to_owned());
        }
        warnings.extend(self.shared.unmet());
        warnings.extend(self.shared.left());
        warnings
    }

    /// Publishes all metrics now, to the recorder of this thread. The driver does so each second. Called by the recorder itself, it does
    /// nothing.
    pub fn publish_metrics(&self) {
        self.shared.look_closely_at_store();
        self.shared.publish();
    }
}

fn identity(label: &LabelSnapshot) -> (&str, &str, bool, &str) {
    (&label.namespace, &label.name, label.overflow, &label.class)
}
