//! The only folder that knows the `metrics` facade.
//!
//! Requests are counted as plain integers in the turn and published from there, each second by the driver and on
//! demand. Nothing is registered before the first publication and handles are looked up anew each time, so a recorder
//! may be installed at any time. Counters are published as absolute values: nothing counted before is lost.

mod describe;
mod labels;
mod lock_waits;
mod names;

use std::sync::Arc;

use metrics::{Label, counter, gauge, histogram};

use self::{describe::describe, labels::PublishedLabel, lock_waits::PublishedWaits};
use crate::runtime::core::Core;
use crate::{
    Reason,
    engine::{
        Counts, Health, Histogram, LimitSnapshot, PartitionId, ShadowSnapshot, Snapshot, StoreSnapshot, StoreState,
        plan::Mode,
    },
    store::AdmissionLock,
};

/// What was published so far, where only the difference is published.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Recorder {
    /// Round-trip times and waits of partitions, by number.
    times: Vec<[Histogram; 2]>,
    labels: Vec<PublishedLabel>,
    lock_waits: PublishedWaits,
}

impl Recorder {
    /// Publishes all metrics to the recorder of this thread.
    pub(in crate::runtime) fn publish_all(
        &mut self,
        core: &Core,
        store: impl FnOnce() -> Option<StoreSnapshot>,
        lock: Option<&AdmissionLock>,
    ) {
        let now = core.time.now();
        let (mut snapshot, counts) = core.with_engine(|state, _| {
            state.engine.pass_time_for_look(now);
            let counts = state.engine.partitions().map(|(number, _, counts)| (number, counts.clone())).collect();
            (state.snapshot(), counts)
        });
        snapshot.store = store();
        self.publish(&core.name, &snapshot, counts);
        self.publish_labels(core);
        if let Some(lock) = lock {
            self.publish_lock(&core.name, lock);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
    fn publish(&mut self, name: &Arc<str>, snapshot: &Snapshot, counts: Vec<(PartitionId, Counts)>) {
        describe();
        let limiter = [Label::new("limiter", Arc::clone(name))];
        publish_whole(&limiter, snapshot);
        if let Some(shadow) = &snapshot.shadow {
            publish_shadow(&limiter, shadow);
        }
        if let Some(store) = &snapshot.store {
            publish_store(&limiter, store);
        }
        let highest = counts.iter().map(|&(number, _)| number.index() + 1).max().unwrap_or(0);
        self.times.resize_with(highest.max(self.times.len()), Default::default);
        for (partition, (number, counts)) in snapshot.partitions.iter().zip(counts) {
            let [limiter] = limiter.clone();
            let labels = vec![limiter, Label::new("partition", partition.name.clone())];
            let with = |key, value| with(&labels, key, value);
            gauge!("admission_partition_limit", labels.clone()).set(partition.share as f64);
            gauge!("admission_partition_observes", labels.clone()).set(f64::from(u8::from(partition.observes)));
            gauge!("admission_in_flight", labels.clone()).set(partition.in_flight as f64);
            gauge!("admission_in_flight_over_limit", labels.clone()).set(partition.in_flight_over_limit as f64);
            gauge!("admission_waiting", with("stage", "line")).set((partition.waiting - partition.in_room) as f64);
            gauge!("admission_waiting", with("stage", "room")).set(partition.in_room as f64);
            gauge!("admission_waiting", with("stage", "gate")).set(partition.at_gate as f64);
            counter!("admission_requests_total", labels.clone()).absolute(counts.arrived);
            counter!("admission_admitted_total", labels.clone()).absolute(counts.admitted);
            counter!("admission_queued_total", labels.clone()).absolute(counts.queued);
            counter!("admission_would_queue_total", labels.clone()).absolute(counts.would_queue);
            counter!("admission_cancelled_waiting_total", labels.clone()).absolute(counts.cancelled_waiting);
            for reason in Reason::ALL {
                counter!("admission_rejected_total", with("reason", reason.as_str()))
                    .absolute(counts.rejected[reason.index()]);
                counter!("admission_would_reject_total", with("reason", reason.as_str()))
                    .absolute(counts.would_reject[reason.index()]);
            }
            for (outcome, count) in [
                ("cancelled", counts.cancelled),
                ("ignored", counts.ignored),
                ("late", counts.late),
                ("late_overload", counts.late_overloads),
                ("overload", counts.overloads),
                ("success", counts.successes),
            ] {
                counter!("admission_outcomes_total", with("outcome", outcome)).absolute(count);
            }
            let [rtt, wait] = &mut self.times[number.index()];
            record(&histogram!("admission_rtt_seconds", labels.clone()), &counts.rtt, rtt);
            record(&histogram!("admission_wait_seconds", labels), &counts.wait, wait);
        }
    }
}

/// Returns these labels and one more.
fn with(labels: &[Label], key: &'static str, value: &'static str) -> Vec<Label> {
    labels.iter().cloned().chain([Label::from_static_parts(key, value)]).collect()
}

/// Publishes 1 for the present one of some states and 0 for the others; `key` names the label that says which.
fn publish_state<const N: usize>(
    name: &'static str,
    limiter: &[Label],
    key: &'static str,
    states: [&'static str; N],
    present: &str,
) {
    for state in states {
        gauge!(name, with(limiter, key, state)).set(f64::from(u8::from(present == state)));
    }
}

/// Publishes the counts of the handle as a whole.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish_whole(limiter: &[Label], snapshot: &Snapshot) {
    for (name, value) in [
        ("admission_limit", snapshot.limit as f64),
        ("admission_available", snapshot.available() as f64),
        ("admission_utilisation_ratio", snapshot.utilisation()),
        ("admission_queue_places", snapshot.queue as f64),
        ("admission_reserved", snapshot.reserved as f64),
        ("admission_health_seconds", snapshot.health.since_seconds),
        ("admission_labels_known", snapshot.labels_known as f64),
        ("admission_draining", f64::from(u8::from(snapshot.draining))),
        ("admission_abandoned", snapshot.abandoned as f64),
        ("admission_stuck_slots", snapshot.health.stuck_slots as f64),
    ] {
        gauge!(name, limiter.to_vec()).set(value);
    }
    let modes = [Mode::Enforce, Mode::Observe, Mode::Off].map(Mode::as_str);
    publish_state("admission_mode", limiter, "mode", modes, &snapshot.mode);
    publish_state("admission_health", limiter, "state", Health::ALL.map(Health::as_str), &snapshot.health.state);
    publish_limit(limiter, &snapshot.limit_state);
    for (name, count) in [
        ("admission_expired_slots_total", snapshot.expired_slots),
        ("admission_labels_evicted_total", snapshot.labels_evicted),
        ("admission_labels_overflowed_total", snapshot.labels_overflowed),
        ("admission_reloads_total", snapshot.reloads),
        ("admission_law_panics_total", snapshot.law_panics),
    ] {
        counter!(name, limiter.to_vec()).absolute(count);
    }
}

/// Publishes why the limit is what it is. What a law does not tell is no number.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish_limit(limiter: &[Label], limit: &LimitSnapshot) {
    let count = |count: Option<usize>| count.map_or(f64::NAN, |it| it as f64);
    for (name, value) in [
        ("admission_limit_minimum", count(limit.min)),
        ("admission_limit_maximum", count(limit.max)),
        ("admission_limit_rtt_seconds", limit.rtt_seconds.unwrap_or(f64::NAN)),
        ("admission_limit_reference_seconds", limit.reference_seconds.unwrap_or(f64::NAN)),
    ] {
        gauge!(name, limiter.to_vec()).set(value);
    }
    publish_state("admission_limit_state", limiter, "state", LimitSnapshot::STATES, &limit.state);
}

/// Publishes the state of the store that counts shared rules.
fn publish_store(limiter: &[Label], store: &StoreSnapshot) {
    publish_state("admission_store_state", limiter, "state", StoreState::ALL.map(StoreState::as_str), &store.state);
    gauge!("admission_store_down_seconds", limiter.to_vec()).set(store.down_seconds);
    for (answer, count) in [("granted", store.granted), ("full", store.full), ("failed", store.failed)] {
        counter!("admission_store_requests_total", with(limiter, "answer", answer)).absolute(count);
    }
    for (why, count) in [("local_share", store.from_local_share), ("store_gone", store.without_store)] {
        counter!("admission_store_local_total", with(limiter, "why", why)).absolute(count);
    }
    counter!("admission_store_leases_lost_total", limiter.to_vec()).absolute(store.leases_lost);
}

/// Publishes what a shadow law would have done.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish_shadow(limiter: &[Label], shadow: &ShadowSnapshot) {
    let labels = || limiter.to_vec();
    gauge!("admission_shadow_limit", labels()).set(shadow.limit as f64);
    gauge!("admission_shadow_in_flight", labels()).set(shadow.in_flight as f64);
    counter!("admission_shadow_would_queue_total", labels()).absolute(shadow.would_queue);
    counter!("admission_shadow_would_reject_total", labels()).absolute(shadow.would_reject);
    counter!("admission_shadow_would_admit_total", labels()).absolute(shadow.would_admit);
}

fn record(histogram: &metrics::Histogram, now: &Histogram, published: &mut Histogram) {
    for (value, count) in now.since(published) {
        histogram.record_many(value, usize::try_from(count).unwrap_or(usize::MAX));
    }
    published.clone_from(now);
}
