//! Workers that report how many requests they can take.

use std::time::Duration;

use crate::engine::{Subject, normal};
use crate::runtime::Admission;

/// The report of a worker: its label, how many requests it can take at once, and how long that holds.
///
/// ```
/// use std::time::Duration;
/// use tower_admission::{Admission, Labels, WorkerReport};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let admission = Admission::builder().labels(Labels::new().enforce_workers(true)).build()?;
/// // At each heartbeat:
/// let report = WorkerReport::new("reports", "worker-7").max_concurrent(4).valid_for(Duration::from_secs(15));
/// assert!(admission.report_worker(&report));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkerReport {
    namespace: String,
    label: String,
    class: Option<String>,
    worker: String,
    max_concurrent: usize,
    valid_for: Duration,
}

impl WorkerReport {
    /// Returns a report of one request at a time, for 30 s, unless set.
    pub fn new(label: impl Into<String>, worker: impl Into<String>) -> Self {
        Self {
            namespace: String::new(),
            label: label.into(),
            class: None,
            worker: worker.into(),
            max_concurrent: 1,
            valid_for: Duration::from_secs(30),
        }
    }

    /// The namespace of the label.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The kind of work that the worker can take, where classes have [rules](crate::AdmissionBuilder::rules) of their
    /// own: each class has slots of its own then.
    pub fn class(mut self, class: impl Into<String>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// How many requests the worker can take at once. 0 is possible, and is not the same as silence.
    pub const fn max_concurrent(mut self, requests: usize) -> Self {
        self.max_concurrent = requests;
        self
    }

    /// How long the report holds: until the next report, and some more.
    pub const fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = time;
        self
    }

    /// Returns what it is about and who says it, if it names both.
    fn names(&self) -> Option<(Subject<'_>, &str)> {
        let namespace = normal(&self.namespace).unwrap_or_default();
        Some((Subject::new(namespace, normal(&self.label)?, None), normal(&self.worker)?))
    }
}

impl Admission {
    /// Notes the report of a worker. The capacity of its label is the sum over all workers whose report still holds. It
    /// bounds what runs if [`Labels::enforce_workers`](crate::Labels::enforce_workers) says so, and waiters are served
    /// as it grows.
    ///
    /// Returns false if the report could not be noted: its label is empty, or the label has 10,000 workers already.
    pub fn report_worker(&self, report: &WorkerReport) -> bool {
        self.note_worker(report, Some((report.max_concurrent, report.valid_for)))
    }

    /// Forgets a worker that stops.
    pub fn remove_worker(&self, report: &WorkerReport) {
        self.note_worker(report, None);
    }

    fn note_worker(&self, report: &WorkerReport, slots: Option<(usize, Duration)>) -> bool {
        let Some((subject, worker)) = report.names() else { return false };
        if slots.is_some() {
            self.shared.drive_here();
        }
        let class = report.class.as_deref();
        self.shared.with_engine(|state, time| state.report_worker(time.now(), class, &subject, worker, slots))
    }
}
