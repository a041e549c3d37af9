//! The only file that knows the `tracing` facade. Without the feature nothing in here does anything.
//!
//! A request gets no span of this crate. Its decision is recorded on the current span, if that declares the fields.
//! Changes are told by events, which come from comparing two snapshots, outside of the lock: each second, and at once
//! where a caller asked for the change. Changes of the store are told by the task that notes them.

#[cfg(feature = "tracing")]
pub(in crate::runtime) use with::{LastReported, Since, admitted, rejected, store_changed, tell};
#[cfg(not(feature = "tracing"))]
pub(in crate::runtime) use without::{LastReported, Since, admitted, rejected, store_changed, tell};

#[cfg(feature = "tracing")]
mod with {
    use std::{borrow::Cow, collections::BTreeMap, sync::Mutex};

    use tracing::{Level, Span, debug, enabled, info, warn};

    use crate::{
        Timestamp,
        engine::{DryRunOutcome, PartitionId, Snapshot, StoreChange, StoreState},
        rejection::Rejection,
        runtime::core::{Core, lock, shielded},
    };

    /// Time when a wait began.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Since(Timestamp);

    impl Since {
        pub(crate) fn now(core: &Core) -> Option<Self> {
            let wanted = call_subscriber(core, || !Span::current().is_disabled()).unwrap_or(false);
            wanted.then(|| Self(core.time.now()))
        }
    }

    /// Calls the subscriber. Its panic must not end the request that it is told of, or the driver.
    fn call_subscriber<R>(core: &Core, tell: impl FnOnce() -> R) -> Option<R> {
        let answer = shielded(tell);
        if answer.is_none() {
            core.warn("the tracing subscriber panicked");
        }
        answer
    }

    /// Notes on the current span that a request was admitted, to which partition, and after which wait; or that it runs
    /// because decisions don't bind, and why it would not have been admitted.
    pub(crate) fn admitted(core: &Core, partition: PartitionId, dry_run: DryRunOutcome, since: Option<Since>) {
        let _ = call_subscriber(core, || {
            let span = Span::current();
            if !span.is_disabled() {
                let (outcome, reason) = dry_run.outcome();
                span.record("admission.outcome", outcome);
                if let Some(reason) = reason {
                    span.record("admission.reason", reason.as_str());
                }
                span.record("admission.partition", &*core.partition_name(partition));
                record_wait(core, &span, since);
            }
        });
    }

    /// Notes on the current span that a request was rejected, and why.
    pub(crate) fn rejected(core: &Core, rejection: &Rejection, since: Option<Since>) {
        let _ = call_subscriber(core, || {
            let span = Span::current();
            if !span.is_disabled() {
                span.record("admission.outcome", "rejected");
                span.record("admission.reason", rejection.reason().as_str());
                span.record("admission.partition", rejection.partition());
                record_wait(core, &span, since);
            }
        });
    }

    /// Tells that the store that counts shared rules went down, is back, or fails.
    pub(crate) fn store_changed(core: &Core, change: StoreChange) {
        let _ = call_subscriber(core, || {
            let limiter = &*core.name;
            let (from, to) = (change.from.as_str(), change.to.as_str());
            match (change.to, change.down_for) {
                (StoreState::Down, _) => warn!(limiter, from, to, "the store of shared rules is down"),
                (_, Some(down)) => {
                    info!(limiter, from, to, down_seconds = down.as_secs_f64(), "the store of shared rules is back");
                }
                (StoreState::Quiet, None) => info!(limiter, from, to, "the store of shared rules grants nothing yet"),
                (StoreState::Evicting, None) => {
                    warn!(limiter, from, to, "the store of shared rules may evict its keys")
                }
                (StoreState::Failing, None) => debug!(limiter, from, to, "the store of shared rules fails"),
                (StoreState::Up, None) => debug!(limiter, from, to, "the store of shared rules answers again"),
            }
        });
    }

    fn record_wait(core: &Core, span: &Span, since: Option<Since>) {
        let waited = since.map_or(0, |Since(since)| core.time.now().since(since).as_millis());
        span.record("admission.waited_ms", u64::try_from(waited).unwrap_or(u64::MAX));
    }

    /// What subscribers were told so far.
    #[derive(Clone, Debug)]
    pub(crate) struct LastReported {
        mode: Cow<'static, str>,
        draining: bool,
        limit: usize,
        shadow_limit: Option<usize>,
        reloads: u64,
        expired_slots: u64,
        law_panics: u64,
        /// Rejections by partition and reason.
        rejected: BTreeMap<(String, Cow<'static, str>), u64>,
    }

    impl LastReported {
        pub(crate) fn of(snapshot: &Snapshot) -> Self {
            let rejected = snapshot.partitions.iter().flat_map(|partition| {
                partition.rejected.iter().map(|(reason, count)| ((partition.name.clone(), reason.clone()), *count))
            });
            Self {
                mode: snapshot.mode.clone(),
                draining: snapshot.draining,
                limit: snapshot.limit,
                shadow_limit: snapshot.shadow.as_ref().map(|shadow| shadow.limit),
                reloads: snapshot.reloads,
                expired_slots: snapshot.expired_slots,
                law_panics: snapshot.law_panics,
                rejected: rejected.collect(),
            }
        }

        /// Tells what differs now.
        fn tell(&self, now: &Self, limiter: &str) {
            if now.mode != self.mode {
                info!(limiter, from = &*self.mode, to = &*now.mode, "admission mode changed");
            }
            if now.reloads != self.reloads {
                info!(limiter, reloads = now.reloads, limit = now.limit, "admission settings were reloaded");
            }
            if now.draining && !self.draining {
                info!(limiter, "admission is draining: no request is admitted any more");
            }
            if now.law_panics > self.law_panics {
                warn!(
                    limiter,
                    panics = now.law_panics - self.law_panics,
                    limit = now.limit,
                    "the control law panicked"
                );
            }
            if now.expired_slots > self.expired_slots {
                warn!(limiter, slots = now.expired_slots - self.expired_slots, "permits exceeded their time to live");
            }
            if !enabled!(Level::DEBUG) {
                return;
            }
            if now.limit != self.limit {
                debug!(limiter, from = self.limit, to = now.limit, "admission limit changed");
            }
            if let (Some(from), Some(to)) = (self.shadow_limit, now.shadow_limit)
                && from != to
            {
                debug!(limiter, from, to, "limit of the shadow law changed");
            }
            for ((partition, reason), count) in &now.rejected {
                let before = self.rejected.get(&(partition.clone(), reason.clone())).copied().unwrap_or(0);
                if *count > before {
                    let rejected = count - before;
                    debug!(limiter, partition = &**partition, reason = &**reason, rejected, "requests were rejected");
                }
            }
        }
    }

    /// Tells what differs from the last report. Subscribers run outside of all locks.
    pub(crate) fn tell(core: &Core, last: &Mutex<LastReported>) {
        let now = LastReported::of(&core.with_engine(|state, _| state.engine.snapshot()));
        let before = std::mem::replace(&mut *lock(last), now.clone());
        let _ = call_subscriber(core, || before.tell(&now, &core.name));
    }
}

#[cfg(not(feature = "tracing"))]
mod without {
    use std::sync::Mutex;

    use crate::{
        engine::{DryRunOutcome, PartitionId, Snapshot, StoreChange},
        rejection::Rejection,
        runtime::core::Core,
    };

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Since;

    impl Since {
        pub(crate) const fn now(_: &Core) -> Option<Self> {
            None
        }
    }

    pub(crate) const fn admitted(_: &Core, _: PartitionId, _: DryRunOutcome, _: Option<Since>) {}

    pub(crate) const fn rejected(_: &Core, _: &Rejection, _: Option<Since>) {}

    pub(crate) const fn store_changed(_: &Core, _: StoreChange) {}

    #[derive(Debug)]
    pub(crate) struct LastReported;

    impl LastReported {
        pub(crate) const fn of(_: &Snapshot) -> Self {
            Self
        }
    }

    pub(crate) const fn tell(_: &Core, _: &Mutex<LastReported>) {}
}
