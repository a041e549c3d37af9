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
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

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
        note_on_span(core, since, |span| {
            let (outcome, reason) = dry_run.outcome();
            span.record("admission.outcome", outcome);
            if let Some(reason) = reason {
                span.record("admission.reason", reason.as_str());
            }
            span.record("admission.partition", &*core.partition_name(partition));
        });
    }

    /// Notes on the current span that a request was rejected, and why.
    pub(crate) fn rejected(core: &Core, rejection: &Rejection, since: Option<Since>) {
        note_on_span(core, since, |span| {
            span.record("admission.outcome", "rejected");
            span.record("admission.reason", rejection.reason().as_str());
            span.record("admission.partition", rejection.partition());
        });
    }

    fn note_on_span(core: &Core, since: Option<Since>, note: impl FnOnce(&Span)) {
        let _ = call_subscriber(core, || {
            let span = Span::current();
            if !span.is_disabled() {
                note(&span);
                let waited = since.map_or(0, |Since(since)| core.time.now().since(since).as_millis());
                span.record("admission.waited_ms", u64::try_from(waited).unwrap_or(u64::MAX));
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

    /// What subscribers were told so far.
    #[derive(Clone, Debug)]
    pub(crate) struct LastReported(Arc<Snapshot>);

    impl LastReported {
        pub(crate) fn of(snapshot: Snapshot) -> Self {
            Self(Arc::new(snapshot))
        }
    }

    /// Tells what differs between two states.
    fn tell_changes(before: &Snapshot, now: &Snapshot, limiter: &str) {
        if now.mode != before.mode {
            info!(limiter, from = &*before.mode, to = &*now.mode, "admission mode changed");
        }
        if now.reloads != before.reloads {
            info!(limiter, reloads = now.reloads, limit = now.limit, "admission settings were reloaded");
        }
        if now.draining && !before.draining {
            info!(limiter, "admission is draining: no request is admitted any more");
        }
        if now.law_panics > before.law_panics {
            let panics = now.law_panics - before.law_panics;
            warn!(limiter, panics, limit = now.limit, "the control law panicked");
        }
        if now.expired_slots > before.expired_slots {
            warn!(limiter, slots = now.expired_slots - before.expired_slots, "permits exceeded their time to live");
        }
        if !enabled!(Level::DEBUG) {
            return;
        }
        if now.limit != before.limit {
            debug!(limiter, from = before.limit, to = now.limit, "admission limit changed");
        }
        let [from, to] = [before, now].map(|it| it.shadow.as_ref().map(|shadow| shadow.limit));
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            debug!(limiter, from, to, "limit of the shadow law changed");
        }
        let before = rejections(before);
        for ((partition, reason), count) in rejections(now) {
            let before = before.get(&(partition, reason)).copied().unwrap_or(0);
            if count > before {
                let rejected = count - before;
                debug!(limiter, partition, reason, rejected, "requests were rejected");
            }
        }
    }

    /// Returns the rejections by partition and reason.
    fn rejections(snapshot: &Snapshot) -> BTreeMap<(&str, &str), u64> {
        let rejected = snapshot.partitions.iter().flat_map(|partition| {
            partition.rejected.iter().map(|(reason, count)| ((&*partition.name, &**reason), *count))
        });
        rejected.collect()
    }

    /// Tells what differs from the last report. Subscribers run outside of all locks.
    pub(crate) fn tell(core: &Core, last: &Mutex<LastReported>) {
        let now = LastReported::of(core.with_engine(|state, _| state.engine.snapshot()));
        let before = std::mem::replace(&mut *lock(last), now.clone());
        let _ = call_subscriber(core, || tell_changes(&before.0, &now.0, &core.name));
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
        pub(crate) fn of(_: Snapshot) -> Self {
            Self
        }
    }

    pub(crate) const fn tell(_: &Core, _: &Mutex<LastReported>) {}
}
