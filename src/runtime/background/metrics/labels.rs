//! Metrics of single labels, where settings ask for them.

use std::sync::Arc;

use metrics::{Label, counter, gauge, histogram};

use super::{Recorder, names::named, record, with};
use crate::{
    engine::{Histogram, LabelMetricsView, LabelOutcome},
    runtime::core::Core,
};

/// Labels whose metrics are copied in one turn: some 2 KiB each.
const AT_ONCE: usize = 64;

/// The values of one label that were published.
#[derive(Debug, Default)]
pub(super) struct PublishedLabel {
    rtt: Histogram,
    wait: Histogram,
    /// Whether the label had a bound on its slots.
    had_slots: bool,
}

impl Recorder {
    pub(super) fn publish_labels(&mut self, core: &Core) {
        let limiter = Label::new("limiter", Arc::clone(&core.name));
        let all = core.with_engine(|state, _| state.engine.label_metrics_count());
        for from in (0..all).step_by(AT_ONCE) {
            let some = core.with_engine(|state, _| state.engine.label_metrics(from, AT_ONCE));
            for (number, metrics) in (from..).zip(some) {
                if self.labels.len() <= number {
                    self.labels.resize_with(number + 1, PublishedLabel::default);
                }
                publish(&limiter, number == 0, &metrics, &mut self.labels[number]);
            }
        }
    }
}

/// Publishes the metrics of a label. `is_shared`: those of all labels that have none of their own. The metrics of one label say
/// so, since a caller may send any name as a label.
#[expect(clippy::cast_precision_loss, reason = "gauges are doubles")]
fn publish(limiter: &Label, is_shared: bool, metrics: &LabelMetricsView, published: &mut PublishedLabel) {
    let name = &metrics.name;
    let labels = vec![
        limiter.clone(),
        named("class", &name.class),
        named("namespace", &name.namespace),
        named("label", &name.label),
        Label::from_static_parts("overflow", if is_shared { "true" } else { "false" }),
    ];
    gauge!("admission_label_in_flight", labels.clone()).set(metrics.in_flight as f64);
    gauge!("admission_label_waiting", labels.clone()).set(metrics.waiting as f64);
    if metrics.slots.is_some() || published.had_slots {
        published.had_slots = metrics.slots.is_some();
        // A gauge can't be removed, so a gauge without a meaning is no number.
        let available = metrics.available().map_or(f64::NAN, |slots| slots as f64);
        gauge!("admission_label_available", labels.clone()).set(available);
        gauge!("admission_label_utilisation_ratio", labels.clone()).set(metrics.utilisation().unwrap_or(f64::NAN));
    }
    let counts = &metrics.counts;
    counter!("admission_label_requests_total", labels.clone()).absolute(counts.requests);
    for (outcome, count) in LabelOutcome::ALL.into_iter().zip(counts.outcomes) {
        counter!("admission_label_outcomes_total", with(&labels, "outcome", outcome.as_str())).absolute(count);
    }
    record(&histogram!("admission_label_rtt_seconds", labels.clone()), &counts.times.rtt, &mut published.rtt);
    record(&histogram!("admission_label_wait_seconds", labels), &counts.times.wait, &mut published.wait);
}
