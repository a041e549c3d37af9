//! What is read of series to be published.

use super::{Engine, LabelCounts, SeriesName};
use crate::engine::Subject;
use crate::engine::ids::SeriesId;
use crate::engine::labels::Label;

/// One series, as it is now.
#[derive(Clone, Debug)]
pub(crate) struct LabelSeries {
    pub(crate) name: SeriesName,
    pub(crate) counts: LabelCounts,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    /// How many of it may run, where a cap or its workers say so.
    pub(crate) slots: Option<usize>,
}

impl LabelSeries {
    /// How many more of it may run.
    pub(crate) fn available(&self) -> Option<usize> {
        self.slots.map(|slots| slots.saturating_sub(self.in_flight))
    }

    /// The part of its slots that is used. It has used all of none.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn utilisation(&self) -> Option<f64> {
        self.slots.map(|slots| if slots == 0 { 1.0 } else { self.in_flight as f64 / slots as f64 })
    }
}

impl Engine {
    /// How many series there are, the shared one included.
    pub(crate) const fn series_count(&self) -> usize {
        self.telemetry.series.list.len()
    }

    /// Up to `count` series from `from` on, the shared one first. They are copied, so whoever looks at many does so in
    /// several turns.
    pub(crate) fn label_series(&self, from: usize, count: usize) -> Vec<LabelSeries> {
        (0u16..)
            .zip(&self.telemetry.series.list)
            .skip(from)
            .take(count)
            .map(|(index, series)| self.series_view(index, series))
            .collect()
    }

    fn series_view(&self, index: u16, series: &super::Series) -> LabelSeries {
        let (in_flight, waiting, slots) = if index == 0 {
            let (in_flight, waiting) = self.of_others();
            (in_flight, waiting, None)
        } else {
            let label = self.entry_of(SeriesId::from_index(index + 1));
            let workers = label.and_then(|label| label.workers.as_ref()).map(|workers| workers.slots());
            let slots = series.cap.into_iter().chain(workers).min();
            (label.map_or(0, |it| it.running), label.map_or(0, |it| it.waiting), slots)
        };
        let (name, counts) = (series.name.clone(), series.counts.clone());
        LabelSeries { name, counts, in_flight, waiting, slots }
    }

    /// The entry of the label of a series, unless it is forgotten.
    fn entry_of(&self, id: SeriesId) -> Option<&Label> {
        let entry = self.telemetry.series.list[usize::from(id.index()) - 1].entry;
        (self.telemetry.series.of(entry) == id).then(|| self.quotas.labels.get(entry))
    }

    /// How many run and wait of labels without a series of their own: all but those with one, and those without a label.
    /// There may be millions of entries, and there are few series.
    fn of_others(&self) -> (usize, usize) {
        let own = (2..=u16::MAX)
            .take(self.telemetry.series.list.len() - 1)
            .filter_map(|id| self.entry_of(SeriesId::from_index(id)));
        let Subject { namespace, label, .. } = Subject::NOBODY;
        let without = (0..=u8::MAX).take(usize::from(self.quotas.rules.classes()));
        let without = without.filter_map(|class| self.quotas.labels.find(class, namespace, label));
        let without = without.chain([super::LabelId::DEFAULT]).map(|id| self.quotas.labels.get(id));
        let all = (self.capacity.running + self.capacity.outside, self.queue.in_line + self.queue.at_gate);
        own.chain(without).fold(all, |(running, waiting), it| {
            (running.saturating_sub(it.running), waiting.saturating_sub(it.waiting))
        })
    }
}
