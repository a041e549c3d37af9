//! The only file that knows the `metrics` facade.
//!
//! Requests are counted as plain integers in the turn and published from there, each second by the driver and on
//! demand. Nothing is registered before the first publication and handles are looked up anew each time, so a recorder
//! may be installed at any time. Counters are published as absolute values: nothing counted before is lost.

use std::sync::Arc;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::turn::{Shared, lock};
use crate::{
    engine::{Counts, Histogram, Snapshot},
    rejection::Reason,
};

/// What was published so far, where only the difference is.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    rtt: Vec<Histogram>,
    wait: Vec<Histogram>,
}

impl Shared {
    /// Publishes all metrics to the recorder of this thread.
    pub(super) fn publish(&self) {
        let (snapshot, counts) = self.turn(|state, _| {
            let counts: Vec<Counts> = state.engine.partitions().map(|(_, counts)| counts.clone()).collect();
            (state.engine.snapshot(), counts)
        });
        lock(&self.recorder).publish(&self.name, &snapshot, counts);
    }
}

impl Recorder {
    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
    fn publish(&mut self, name: &Arc<str>, snapshot: &Snapshot, counts: Vec<Counts>) {
        describe();
        let limiter = Label::new("limiter", Arc::clone(name));
        gauge!("admission_limit", vec![limiter.clone()]).set(snapshot.limit as f64);
        self.rtt.resize_with(counts.len(), Histogram::default);
        self.wait.resize_with(counts.len(), Histogram::default);
        for (index, (partition, counts)) in snapshot.partitions.iter().zip(counts).enumerate() {
            let labels = vec![limiter.clone(), Label::new("partition", partition.name.clone())];
            let with = |key: &'static str, value: &'static str| {
                labels.iter().cloned().chain([Label::from_static_parts(key, value)]).collect::<Vec<_>>()
            };
            gauge!("admission_partition_limit", labels.clone()).set(partition.share as f64);
            gauge!("admission_in_flight", labels.clone()).set(partition.in_flight as f64);
            gauge!("admission_waiting", with("stage", "line")).set(partition.waiting as f64);
            gauge!("admission_waiting", with("stage", "gate")).set(partition.at_gate as f64);
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

fn record(histogram: &metrics::Histogram, now: &Histogram, published: &mut Histogram) {
    for (value, count) in now.since(published) {
        histogram.record_many(value, usize::try_from(count).unwrap_or(usize::MAX));
    }
    published.clone_from(now);
}

fn describe() {
    describe_gauge!("admission_limit", Unit::Count, "How many requests may run at once");
    describe_gauge!("admission_partition_limit", Unit::Count, "What a partition is guaranteed of the limit");
    describe_gauge!("admission_in_flight", Unit::Count, "How many requests run");
    describe_gauge!("admission_waiting", Unit::Count, "How many requests wait, in line for a slot or at the full gate");
    describe_counter!("admission_admitted_total", Unit::Count, "Requests that were admitted");
    describe_counter!("admission_queued_total", Unit::Count, "Requests that were admitted after a wait");
    describe_counter!("admission_would_queue_total", Unit::Count, "Requests that would have waited, while observing");
    describe_counter!(
        "admission_would_reject_total",
        Unit::Count,
        "Requests that would have been rejected, while observing"
    );
    describe_counter!("admission_cancelled_waiting_total", Unit::Count, "Requests that left while they waited");
    describe_counter!("admission_rejected_total", Unit::Count, "Requests that were rejected, by reason");
    describe_counter!("admission_outcomes_total", Unit::Count, "Requests that ran, by how they ended");
    describe_histogram!("admission_rtt_seconds", Unit::Seconds, "Round-trip time of requests that succeeded");
    describe_histogram!("admission_wait_seconds", Unit::Seconds, "Wait of requests that were admitted after one");
}
