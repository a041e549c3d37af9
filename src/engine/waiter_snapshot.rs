//! Who waits for a label, and for what.

use super::{
    Ask, BlockedBy, Engine, Subject,
    labels::LabelId,
    waiters::{Stage, Waiter},
};
use crate::{criticality::Criticality, time::Timestamp};

/// Somebody who waits.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WaiterSnapshot {
    /// Its place among those of the same label, class, partition and importance, from 1 on, in the order in which they came.
    pub place: usize,
    /// Where it waits: in `line` for a slot, or at the full `gate` for room in the line.
    pub stage: &'static str,
    /// The class of work whose rules hold for it; empty for all that have no rules of their own.
    pub class: String,
    /// The partition that it is in.
    pub partition: String,
    /// How important it is: the words of [`Criticality::as_str`](crate::Criticality::as_str).
    pub criticality: &'static str,
    /// The run that it is a part of.
    pub run: Option<String>,
    /// How long it has waited, in seconds.
    pub waited_seconds: f64,
    /// After how long its wait ends without a slot, in seconds: its caller's deadline, or the longest wait.
    pub ends_in_seconds: Option<f64>,
    /// How long it will wait from now on, in seconds, judged from its place and from how long slots are held; `None` while
    /// nothing has finished.
    pub estimated_wait_seconds: Option<f64>,
    /// What is in the way of the first one in its place.
    pub blocked_by: Option<BlockedBy>,
}

/// No more than so many of a label are looked at in one turn.
const MOST: usize = 10_000;

impl Engine {
    /// Those who wait for a label, in all its classes, in the order in which they came; of these so many from `offset` on. And
    /// how many there are. `None` if the label isn't known.
    pub(crate) fn waiters_of(
        &mut self,
        now: Timestamp,
        subject: &Subject<'_>,
        offset: usize,
        count: usize,
    ) -> Option<(Vec<WaiterSnapshot>, usize)> {
        self.advance(now);
        let ids: Vec<LabelId> =
            (0..=u8::MAX).filter_map(|class| self.labels.find(class, subject.namespace, subject.label)).collect();
        let total = ids.iter().map(|&id| self.labels.get(id).waiting).sum();
        let mut found: Vec<_> = ids.iter().flat_map(|&id| self.waiting.all_of(id)).take(MOST).collect();
        found.sort_unstable_by_key(|(_, waiter)| waiter.sequence);
        let shown = found.into_iter().skip(offset).take(count);
        let shown = shown.map(|(place, waiter)| self.waiter_snapshot(place, waiter)).collect();
        (!ids.is_empty()).then_some((shown, total))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn waiter_snapshot(&self, place: usize, waiter: &Waiter) -> WaiterSnapshot {
        let (id, label) = (waiter.label, self.labels.get(waiter.label));
        let criticality = Criticality::ALL[usize::from(waiter.level)];
        let subject = Subject { namespace: &label.namespace, label: &label.name, run: None };
        let ask = Ask { criticality, subject: Some(subject), ..Ask::of(waiter.partition) };
        let others = self.waiting.count_of(waiter.flow_key());
        // That of one who came now, and had all the others before it.
        let last = self.expected_wait(self.now, &ask, id);
        WaiterSnapshot {
            place,
            stage: if waiter.stage == Stage::Gate { "gate" } else { "line" },
            class: self.rules.class_name(label.class).to_owned(),
            partition: self.partitions[waiter.partition as usize].plan.name.to_string(),
            criticality: criticality.as_str(),
            run: self.runs.name(waiter.run).map(str::to_owned),
            waited_seconds: self.now.since(waiter.since).as_secs_f64(),
            ends_in_seconds: (waiter.deadline != Timestamp::NEVER)
                .then(|| waiter.deadline.since(self.now).as_secs_f64()),
            estimated_wait_seconds: last.map(|wait| wait.as_secs_f64() * place as f64 / (others + 1) as f64),
            blocked_by: self.blocked_by(id, label, &ask, &self.label_rules(label)),
        }
    }
}
