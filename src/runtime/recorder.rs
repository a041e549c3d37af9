//! The only file that knows the `metrics` facade.
//!
//! Requests are counted as plain integers in the turn and published from there, each second by the driver and on
//! demand. Nothing is registered before the first publication and handles are looked up anew each time, so a recorder
//! may be installed at any time. Counters are published as absolute values: nothing counted before is lost.

use std::sync::Arc;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::turn::{Shared, lock};
#[cfg(feature = "introspect")]
use crate::{engine::Engine, time::Timestamp};
use crate::{
    engine::{Counts, Histogram, ShadowSnapshot, Snapshot, StoreSnapshot, plan::Mode},
    rejection::Reason,
    store::Health,
};

/// What was published so far, where only the difference is.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    rtt: Vec<Histogram>,
    wait: Vec<Histogram>,
}

impl Shared {
    /// Looks at the engine in one turn, for [introspection](crate::docs::introspection): what is shown and what is published
    /// are two views of the same.
    #[cfg(feature = "introspect")]
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Engine, Timestamp) -> R) -> R {
        self.look_at_store();
        let now = self.time.now();
        self.turn(|state, _| look(&mut state.engine, now))
    }

    /// The name of the handle.
    #[cfg(feature = "introspect")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Publishes all metrics to the recorder of this thread.
    pub(super) fn publish(&self) {
        let (snapshot, counts) = self.turn(|state, _| {
            let counts = state.engine.partitions().map(|(number, _, counts)| (number, counts.clone())).collect();
            (state.engine.snapshot(), counts)
        });
        let snapshot = Snapshot { store: self.store_snapshot(), ..snapshot };
        self.tell_changes(&snapshot);
        lock(&self.recorder).publish(&self.name, &snapshot, counts);
    }
}

impl Recorder {
    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
    fn publish(&mut self, name: &Arc<str>, snapshot: &Snapshot, counts: Vec<(u16, Counts)>) {
        describe();
        let limiter = Label::new("limiter", Arc::clone(name));
        publish_whole(&limiter, snapshot);
        if let Some(shadow) = &snapshot.shadow {
            publish_shadow(&limiter, shadow);
        }
        if let Some(store) = &snapshot.store {
            publish_store(&limiter, store);
        }
        let highest = counts.iter().map(|&(number, _)| usize::from(number) + 1).max().unwrap_or(0);
        self.rtt.resize_with(highest.max(self.rtt.len()), Histogram::default);
        self.wait.resize_with(highest.max(self.wait.len()), Histogram::default);
        for (partition, (number, counts)) in snapshot.partitions.iter().zip(counts) {
            let index = usize::from(number);
            let labels = vec![limiter.clone(), Label::new("partition", partition.name.clone())];
            let with = |key: &'static str, value: &'static str| {
                labels.iter().cloned().chain([Label::from_static_parts(key, value)]).collect::<Vec<_>>()
            };
            gauge!("admission_partition_limit", labels.clone()).set(partition.share as f64);
            gauge!("admission_partition_observes", labels.clone()).set(f64::from(u8::from(partition.observes)));
            gauge!("admission_in_flight", labels.clone()).set(partition.in_flight as f64);
            gauge!("admission_in_flight_beyond", labels.clone()).set(partition.in_flight_beyond as f64);
            gauge!("admission_waiting", with("stage", "line")).set(partition.waiting as f64);
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
                ("late_overload", counts.late_overloads),
                ("overload", counts.overloads),
                ("success", counts.successes),
            ] {
                counter!("admission_outcomes_total", with("outcome", outcome)).absolute(count);
            }
            record(&histogram!("admission_rtt_seconds", labels.clone()), &counts.rtt, &mut self.rtt[index]);
            record(&histogram!("admission_wait_seconds", labels), &counts.wait, &mut self.wait[index]);
        }
    }
}

/// What is counted for the handle as a whole.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish_whole(limiter: &Label, snapshot: &Snapshot) {
    let labels = || vec![limiter.clone()];
    for (name, value) in [
        ("admission_limit", snapshot.limit as f64),
        ("admission_available", snapshot.available() as f64),
        ("admission_utilisation_ratio", snapshot.utilisation()),
        ("admission_queue_places", snapshot.queue as f64),
        ("admission_labels_known", snapshot.labels_known as f64),
        ("admission_draining", f64::from(u8::from(snapshot.draining))),
    ] {
        gauge!(name, labels()).set(value);
    }
    for mode in [Mode::Enforce, Mode::Observe, Mode::Off].map(Mode::as_str) {
        let with_mode = vec![limiter.clone(), Label::from_static_parts("mode", mode)];
        gauge!("admission_mode", with_mode).set(f64::from(u8::from(snapshot.mode == mode)));
    }
    for (name, count) in [
        ("admission_overdue_total", snapshot.overdue),
        ("admission_labels_evicted_total", snapshot.labels_evicted),
        ("admission_labels_overflowed_total", snapshot.labels_overflowed),
        ("admission_reloads_total", snapshot.reloads),
        ("admission_law_panics_total", snapshot.law_panics),
    ] {
        counter!(name, labels()).absolute(count);
    }
}

/// What is known of the store that counts shared rules.
fn publish_store(limiter: &Label, store: &StoreSnapshot) {
    let with = |key: &'static str, value: &'static str| vec![limiter.clone(), Label::from_static_parts(key, value)];
    for state in Health::STATES {
        gauge!("admission_store_state", with("state", state)).set(f64::from(u8::from(store.state == state)));
    }
    gauge!("admission_store_down_seconds", vec![limiter.clone()]).set(store.down_seconds);
    for (answer, count) in [("granted", store.granted), ("full", store.full), ("failed", store.failed)] {
        counter!("admission_store_requests_total", with("answer", answer)).absolute(count);
    }
    for (why, count) in [("local_share", store.from_local_share), ("store_gone", store.without_store)] {
        counter!("admission_store_local_total", with("why", why)).absolute(count);
    }
    counter!("admission_store_leases_lost_total", vec![limiter.clone()]).absolute(store.leases_lost);
}

/// What a law that only looks on would have done.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish_shadow(limiter: &Label, shadow: &ShadowSnapshot) {
    let labels = || vec![limiter.clone()];
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

fn describe() {
    for (name, text) in [
        ("admission_available", "Free slots: the limit without the requests that run"),
        ("admission_draining", "1 while nobody is let in because the server shuts down, else 0"),
        ("admission_in_flight", "Requests that run"),
        (
            "admission_in_flight_beyond",
            "Requests that run although their partition, which observes, would not have let them",
        ),
        ("admission_labels_known", "Labels that are told apart, counted once for each class of work"),
        ("admission_limit", "How many requests may run at once"),
        ("admission_mode", "1 for the mode that the handle is in, else 0"),
        ("admission_partition_limit", "What a partition is guaranteed of the limit"),
        ("admission_partition_observes", "1 for a partition that only says what it would do, else 0"),
        ("admission_shadow_in_flight", "Requests that run and would run under the limit of the shadow law"),
        ("admission_shadow_limit", "The limit that the shadow law would have set"),
        ("admission_queue_places", "How many requests may wait in line for a slot"),
        ("admission_store_state", "1 for the state that the store of shared limits is in, else 0"),
        ("admission_waiting", "Requests that wait, in line for a slot or at the full gate"),
    ] {
        describe_gauge!(name, Unit::Count, text);
    }
    describe_gauge!(
        "admission_store_down_seconds",
        Unit::Seconds,
        "For how long the store of shared limits has been down"
    );
    describe_gauge!("admission_utilisation_ratio", "The part of the limit that is used; above 1 after it shrank");
    for (name, text) in [
        ("admission_admitted_total", "Requests that were admitted"),
        ("admission_cancelled_waiting_total", "Requests that left while they waited"),
        ("admission_labels_evicted_total", "Labels that were forgotten because others needed their entries"),
        ("admission_labels_overflowed_total", "Requests whose label found no entry, and shared one"),
        ("admission_law_panics_total", "Panics of the control law, after which the limit stayed what it was"),
        ("admission_outcomes_total", "Requests that ran, by how they ended"),
        ("admission_overdue_total", "Slots that were taken back from holders who kept them for too long"),
        ("admission_queued_total", "Requests that were admitted after a wait"),
        ("admission_rejected_total", "Requests that were rejected, by reason"),
        ("admission_reloads_total", "How often the settings were changed"),
        ("admission_requests_total", "Requests that came"),
        ("admission_shadow_would_admit_total", "Rejected requests for which the shadow law had a free slot"),
        ("admission_shadow_would_queue_total", "Requests that would have waited under the limit of the shadow law"),
        ("admission_shadow_would_reject_total", "Requests that the limit of the shadow law would have rejected"),
        ("admission_store_leases_lost_total", "Leases of shared limits that were lost while their work went on"),
        ("admission_store_local_total", "Requests admitted under shared limits without asking the store, by why"),
        ("admission_store_requests_total", "Requests that the store of shared limits was asked for, by its answer"),
        ("admission_would_queue_total", "Requests that would have waited, while observing"),
        ("admission_would_reject_total", "Requests that would have been rejected, while observing, by reason"),
    ] {
        describe_counter!(name, Unit::Count, text);
    }
    describe_histogram!("admission_rtt_seconds", Unit::Seconds, "Round-trip time of requests that succeeded");
    describe_histogram!("admission_wait_seconds", Unit::Seconds, "Wait of requests that were admitted after one");
}
