//! Label metrics, as they are read to be published.

use crate::engine::{
    Engine,
    ids::{LabelId, RuleClassId},
    quota::Label,
    telemetry::{LabelCounts, SeriesName, SeriesRef},
    tokens::Subject,
};

/// One series, as it is now.
#[derive(Clone, Debug)]
pub(crate) struct LabelSeries {
    pub(crate) name: SeriesName,
    pub(crate) counts: LabelCounts,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    /// Requests of the label that may run, where a cap or its workers say so.
    pub(crate) slots: Option<usize>,
}

impl LabelSeries {
    /// Returns how many more requests of the label may run.
    pub(crate) fn available(&self) -> Option<usize> {
        self.slots.map(|slots| slots.saturating_sub(self.in_flight))
    }

    /// Returns the part of its slots that is used; all, where it has no slots.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn utilisation(&self) -> Option<f64> {
        self.slots.map(|slots| if slots == 0 { 1.0 } else { self.in_flight as f64 / slots as f64 })
    }
}

impl Engine {
    /// Returns how many series there are, the shared one included.
    pub(crate) const fn series_count(&self) -> usize {
        self.telemetry.series_count()
    }

    /// Returns up to `count` series from `from` on, the shared one first. They are copied, so a reader of many series
    /// does so in several turns.
    pub(crate) fn label_series(&self, from: usize, count: usize) -> Vec<LabelSeries> {
        self.telemetry.series().skip(from).take(count).map(|series| self.series_view(&series)).collect()
    }

    fn series_view(&self, series: &SeriesRef<'_>) -> LabelSeries {
        let (in_flight, waiting, slots) = if series.is_shared {
            let (in_flight, waiting) = self.of_others();
            (in_flight, waiting, None)
        } else {
            let label = series.entry.map(|entry| self.quotas.label(entry));
            let workers = label.and_then(Label::workers).map(|workers| workers.slots());
            let slots = series.cap.into_iter().chain(workers).min();
            (label.map_or(0, Label::running), label.map_or(0, Label::waiting), slots)
        };
        LabelSeries { name: series.name.clone(), counts: series.counts.clone(), in_flight, waiting, slots }
    }

    /// Returns how many requests run and wait of labels without a series of their own: of all labels but those with a
    /// series, and without requests that have no label. There may be millions of entries, and there are few series.
    fn of_others(&self) -> (usize, usize) {
        let own = self.telemetry.series().filter(|series| !series.is_shared).filter_map(|series| series.entry);
        let without = RuleClassId::all().take(usize::from(self.quotas.classes()));
        let without = without.filter_map(|class| self.quotas.find(class, &Subject::NOBODY));
        let all = (self.capacity.running() + self.capacity.over_limit(), self.queue.len());
        own.chain(without).chain([LabelId::DEFAULT]).fold(all, |(running, waiting), id| {
            let label = self.quotas.label(id);
            (running.saturating_sub(label.running()), waiting.saturating_sub(label.waiting()))
        })
    }
}
