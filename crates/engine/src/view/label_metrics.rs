//! Label metrics, as they are read to be published.

use crate::{
    Engine,
    ids::{LabelId, RuleClassId},
    telemetry::{LabelCounts, LabelMetricsName, LabelMetricsRef},
    tokens::Subject,
};

/// The metrics of one label, as they are now.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LabelMetricsView {
    pub name: LabelMetricsName,
    pub counts: LabelCounts,
    pub in_flight: usize,
    pub waiting: usize,
    /// Requests of the label that may run, where a cap or its workers say so.
    pub slots: Option<usize>,
}

impl LabelMetricsView {
    /// Returns how many more requests of the label may run.
    pub fn available(&self) -> Option<usize> {
        self.slots.map(|slots| slots.saturating_sub(self.in_flight))
    }

    /// Returns the part of its slots that is used; all, where it has no slots.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn utilisation(&self) -> Option<f64> {
        self.slots.map(|slots| if slots == 0 { 1.0 } else { self.in_flight as f64 / slots as f64 })
    }
}

impl Engine {
    /// Returns how many labels have metrics, the shared ones included.
    pub fn label_metrics_count(&self) -> usize {
        self.telemetry.label_metrics().count()
    }

    /// Returns the metrics of up to `count` labels from `from` on, the shared ones first. They are copied, so a reader of many
    /// does so in several turns.
    pub fn label_metrics(&self, from: usize, count: usize) -> Vec<LabelMetricsView> {
        self.telemetry.label_metrics().skip(from).take(count).map(|metrics| self.label_metrics_view(&metrics)).collect()
    }

    fn label_metrics_view(&self, metrics: &LabelMetricsRef<'_>) -> LabelMetricsView {
        let (in_flight, waiting, slots) = if metrics.is_shared {
            let (in_flight, waiting) = self.of_others();
            (in_flight, waiting, None)
        } else {
            let label = metrics.entry.map(|entry| self.quotas.label(entry));
            let workers = label.and_then(|it| it.workers).map(|workers| workers.slots);
            let slots = metrics.cap.into_iter().chain(workers).min();
            (label.map_or(0, |it| it.running), label.map_or(0, |it| it.waiting), slots)
        };
        LabelMetricsView { name: metrics.name.clone(), counts: metrics.counts.clone(), in_flight, waiting, slots }
    }

    /// Returns how many requests run and wait of labels without metrics of their own: of all labels but those with
    /// metrics, and without requests that have no label. There may be millions of entries, and few labels have metrics.
    fn of_others(&self) -> (usize, usize) {
        let own =
            self.telemetry.label_metrics().filter(|metrics| !metrics.is_shared).filter_map(|metrics| metrics.entry);
        let without = RuleClassId::all().take(self.quotas.plans().1.classes.len());
        let without = without.filter_map(|class| self.quotas.find(class, &Subject::NOBODY));
        let all = (self.capacity.running() + self.capacity.slots().over_limit, self.queue.lengths().all());
        own.chain(without).chain([LabelId::DEFAULT]).fold(all, |(running, waiting), id| {
            let label = self.quotas.label(id);
            (running.saturating_sub(label.running), waiting.saturating_sub(label.waiting))
        })
    }
}
