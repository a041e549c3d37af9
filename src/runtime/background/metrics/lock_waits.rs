//! How long callers waited for an admission lock.

use std::{collections::BTreeMap, sync::Arc};

use metrics::{Label, counter, histogram};

use super::{Recorder, names::harmless, record, with};
use crate::{engine::Histogram, store::AdmissionLock};

/// Waits published so far, by class and endpoint. The lock bounds how many series there are.
pub(super) type PublishedWaits = BTreeMap<(String, String), Histogram>;

impl Recorder {
    pub(super) fn publish_lock(&mut self, name: &Arc<str>, lock: &AdmissionLock) {
        for (metrics, times) in lock.times() {
            let labels = vec![
                Label::new("limiter", Arc::clone(name)),
                Label::new("class", harmless(&metrics.class).into_owned()),
                Label::new("endpoint", harmless(&metrics.endpoint).into_owned()),
            ];
            let counts = &metrics.counts;
            for (outcome, count) in [("busy", counts.busy), ("failed", counts.failed), ("taken", counts.taken)] {
                counter!("admission_lock_outcomes_total", with(&labels, "outcome", outcome)).absolute(count);
            }
            let published = self.lock_waits.entry((metrics.class, metrics.endpoint)).or_default();
            record(&histogram!("admission_lock_wait_seconds", labels), &times, published);
        }
    }
}
