//! The waiters of a label, and what they wait for.

use std::borrow::Cow;

use super::BlockedBy;
use crate::{Criticality, Timestamp};
use crate::{
    Engine,
    ids::{LabelId, RuleClassId},
    tokens::{Ask, Stage, Subject, Waiter},
};

/// One waiter.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Waiter"))]
#[non_exhaustive]
pub struct WaiterSnapshot {
    /// Its place among waiters of the same label, class, partition and importance, from 1 on, in the order in which
    /// they came.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub place: usize,
    /// Where the waiter stands: in `line` for a slot, or at the full `gate` for room in the line.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["line", "gate"])))]
    pub stage: Cow<'static, str>,
    /// Class of work whose rules hold for the waiter; empty for all classes that have no rules of their own.
    pub class: String,
    /// Partition of the waiter.
    pub partition: String,
    /// [Importance](Criticality) of the waiter.
    #[cfg_attr(feature = "schema", schemars(with = "Criticality"))]
    pub criticality: Cow<'static, str>,
    /// The run that the waiter is a part of.
    pub run: Option<String>,
    /// Time for which the waiter has waited, in seconds.
    pub waited_seconds: f64,
    /// Time after which the wait ends without a slot, in seconds: its caller's deadline, or the longest wait.
    pub ends_in_seconds: Option<f64>,
    /// Time for which the waiter will wait from now on, in seconds, judged from its place and from how long slots are
    /// held; `None` while nothing has finished.
    pub estimated_wait_seconds: Option<f64>,
    /// What would be in the way of the waiter, were it the first in line.
    pub blocked_by: Option<BlockedBy>,
}

/// Waiters of a label that are looked at in one turn, at most.
const MOST: usize = 10_000;

impl Engine {
    /// Returns the waiters of a label, in all its classes, in the order in which they came, `count` from `offset` on;
    /// and how many there are. `None` if the label isn't known.
    pub fn waiters_of(
        &self,
        subject: &Subject<'_>,
        offset: usize,
        count: usize,
    ) -> Option<(Vec<WaiterSnapshot>, usize)> {
        let ids: Vec<LabelId> = RuleClassId::all().filter_map(|class| self.quotas.find(class, subject)).collect();
        let total = ids.iter().map(|&id| self.quotas.label(id).waiting).sum();
        let mut found: Vec<_> = ids.iter().flat_map(|&id| self.queue.all_of(id)).take(MOST).collect();
        found.sort_unstable_by_key(|(.., waiter)| waiter.sequence);
        let shown = found.into_iter().skip(offset).take(count);
        let shown = shown.map(|(place, of, waiter)| self.waiter_snapshot(place, of, &waiter)).collect();
        (!ids.is_empty()).then_some((shown, total))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn waiter_snapshot(&self, place: usize, of: usize, waiter: &Waiter) -> WaiterSnapshot {
        let label = self.quotas.label(waiter.label);
        let criticality = Criticality::ALL[waiter.level.index()];
        let subject = Subject::new(label.namespace, label.name, None);
        let ask = Ask { criticality, subject: Some(subject), ..Ask::of(waiter.partition) };
        // The wait of a request that came now, and had all the others before it.
        let last = self.expected_wait(self.now, &ask, label.id);
        WaiterSnapshot {
            place,
            stage: if waiter.stage == Stage::Gate { "gate" } else { "line" }.into(),
            class: label.class_name.to_owned(),
            partition: self.capacity.partition(waiter.partition).plan.name.to_string(),
            criticality: criticality.as_str().into(),
            run: self.queue.run_name(waiter.run).map(str::to_owned),
            waited_seconds: self.now.since(waiter.since).as_secs_f64(),
            ends_in_seconds: (waiter.deadline != Timestamp::NEVER)
                .then(|| waiter.deadline.since(self.now).as_secs_f64()),
            estimated_wait_seconds: last.map(|wait| wait.as_secs_f64() * place as f64 / (of + 1) as f64),
            blocked_by: self.blocked_by(&label, &ask, &self.quotas.rules_of(self.now, label.id)),
        }
    }
}
