//! What can be seen of labels from outside.

use std::{borrow::Cow, time::Duration};

#[cfg(feature = "serde")]
use super::is_default;
use super::{BlockedBy, LabelStatus};
use crate::ids::RuleClassId;
use crate::{
    Engine,
    ids::{LabelId, PartitionId},
    quota::{LabelView, RuleSnapshot},
    tokens::{Ask, Subject},
};

/// The state of one label.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct LabelSnapshot {
    /// Class of work of these numbers; empty for all classes that have no rules of their own.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub class: String,
    /// Namespace; empty if the label has none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub namespace: String,
    /// Name of the label.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub name: String,
    /// Whether this is the entry that labels share for which there is no room.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub overflow: bool,
    /// Whether the label's next request would run, and what kind of thing is in the way if not.
    pub status: LabelStatus,
    /// What the next request would have to wait for, or would be rejected because of; `None` if it would run.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub blocked_by: Option<BlockedBy>,
    /// Partition of its requests, judged from the request that waits for longest, else the default one.
    pub partition: String,
    /// Guaranteed slots of that partition at the present limit.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub partition_share: usize,
    /// Turns of the label for each turn of a label of weight 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub weight: u32,
    /// Requests of the label that may run, if that is bounded.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub cap: Option<usize>,
    /// Requests of the label that run.
    pub in_flight: usize,
    /// Requests of the label that wait, in line and at the gate.
    pub waiting: usize,
    /// Time for which its oldest waiter has waited, in seconds.
    pub oldest_wait_seconds: f64,
    /// Requests of the label that end per second, judged from how long they hold their slots.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub drain_rate: f64,
    /// Time for which the next request would wait, in seconds, as far as that can be told; `None` while nothing has
    /// finished.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub estimated_wait_seconds: Option<f64>,
    /// Active workers of the label, if any worker reported.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub active_workers: Option<usize>,
    /// Slots of these workers.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub worker_slots: Option<usize>,
    /// Each rule that counts the label, with what is used of it.
    pub rules: Vec<RuleSnapshot>,
    /// Requests of the label that were admitted, since it was last forgotten.
    pub admitted: u64,
    /// Requests of the label that were rejected, since it was last forgotten.
    pub rejected: u64,
    /// Requests among those admitted that would have been rejected, had decisions been binding that only observe.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub would_reject: u64,
    /// Requests of the label that were rejected per second, over the last five to ten seconds.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub rejected_per_second: f64,
    /// Requests of the label per second without an answer in time, over the same time.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub left_per_second: f64,
    /// What most rejections of these seconds stand for, if they are more than the admitted requests: `saturated`, `throttled` or
    /// `unavailable`. The `status` is that of the next request alone.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["saturated", "throttled", "unavailable"])))]
    pub lately: Option<LabelStatus>,
    /// What the rules of the label that instances share do without their store, while it is gone: `refuse`, `local_share` or
    /// `admit`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["refuse", "local_share", "admit"])))]
    pub without_store: Option<Cow<'static, str>>,
}

/// The values by which a list of labels is sorted and filtered.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct LabelRow {
    id: LabelId,
    pub class: RuleClassId,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub overflow: bool,
    pub status: LabelStatus,
    pub in_flight: usize,
    pub waiting: usize,
    pub oldest_wait_seconds: f64,
    pub admitted: u64,
    pub rejected: u64,
    pub rejected_per_second: f64,
    pub left_per_second: f64,
    /// Time for which each of its slots is held, judged from how many came back in the last seconds.
    pub held_seconds: f64,
}

impl Engine {
    /// Adds the state of each label that is known, for `count` entries of the table from `from` on. Returns where to go
    /// on, until there are no more: a reader of many labels does so in several turns.
    pub fn label_snapshots(&self, from: usize, count: usize, snapshots: &mut Vec<LabelSnapshot>) -> Option<usize> {
        let mut ids = self.quotas.ids().skip(from);
        let known = ids.by_ref().take(count).filter(|&id| self.is_known(id));
        snapshots.extend(known.map(|id| self.label_snapshot(&self.quotas.label(id))));
        ids.next().map(|_| from + count)
    }

    /// Whether an entry is about a label, or about several for which there is no room.
    fn is_known(&self, id: LabelId) -> bool {
        let label = self.quotas.label(id);
        let totals = self.telemetry.totals(id);
        let is_used = || label.running + label.waiting > 0 || totals.admitted + totals.rejected() > 0;
        id != LabelId::DEFAULT && (label.is_named || is_used())
    }

    /// Returns the state of one label, if it is known.
    pub fn find_label(&self, class: Option<&str>, subject: &Subject<'_>) -> Option<LabelSnapshot> {
        let id = self.quotas.find(self.rule_class(class), subject)?;
        Some(self.label_snapshot(&self.quotas.label(id)))
    }

    /// Returns the state of one label, once for each class of work that it has.
    pub fn label_in_all_classes(&self, subject: &Subject<'_>) -> Vec<LabelSnapshot> {
        let ids = RuleClassId::all().filter_map(|class| self.quotas.find(class, subject));
        ids.map(|id| self.label_snapshot(&self.quotas.label(id))).collect()
    }

    /// Adds a row for each label that is known, otherwise as [`label_snapshots`](Self::label_snapshots).
    pub fn label_rows(&self, from: usize, count: usize, rows: &mut Vec<LabelRow>) -> Option<usize> {
        let mut ids = self.quotas.ids().skip(from);
        let known = ids.by_ref().take(count).filter(|&id| self.is_known(id));
        rows.extend(known.map(|id| self.label_row(&self.quotas.label(id))));
        ids.next().map(|_| from + count)
    }

    /// Whether a class of this name has rules of its own.
    pub fn has_class(&self, name: &str) -> bool {
        self.quotas.plans().1.classes.iter().any(|class| *class.name == *name)
    }

    /// Returns the state of the label of a row, if it is still known.
    pub fn label_of_row(&self, row: &LabelRow) -> Option<LabelSnapshot> {
        let label = self.quotas.label(row.id);
        let same = label.class == row.class && *label.namespace == *row.namespace && *label.name == *row.name;
        same.then(|| self.label_snapshot(&label))
    }

    fn label_row(&self, label: &LabelView<'_>) -> LabelRow {
        let totals = self.telemetry.totals(label.id);
        let window = self.telemetry.label_window(self.now, label.id, label.running);
        LabelRow {
            id: label.id,
            class: label.class,
            namespace: label.namespace.into(),
            name: label.name.into(),
            overflow: label.is_overflow,
            status: self.label_status(label, &self.ask_of(label)),
            in_flight: label.running,
            waiting: label.waiting,
            oldest_wait_seconds: self.oldest_wait(label),
            admitted: totals.admitted,
            rejected: totals.rejected(),
            rejected_per_second: window.map_or(0.0, |it| it.per_second(it.rejected())),
            left_per_second: window.map_or(0.0, |it| it.per_second(it.left)),
            held_seconds: window.map_or(0.0, |it| it.held.each().as_secs_f64()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn label_snapshot(&self, label: &LabelView<'_>) -> LabelSnapshot {
        let ask = self.ask_of(label);
        let rules = self.quotas.rules_of(self.now, label.id);
        let blocked_by = self.blocked_by(label, &ask, &rules);
        let wait =
            if blocked_by.is_none() { Some(Duration::ZERO) } else { self.expected_wait(self.now, &ask, label.id) };
        let hold = label.mean_hold.as_secs_f64();
        let (cap, totals) = (label.cap, self.telemetry.totals(label.id));
        let partition = self.capacity.partition(ask.partition);
        let window = self.telemetry.label_window(self.now, label.id, label.running);
        let gone = label.remote.filter(|it| self.outage.is_gone(self.now, it.unanswered));
        LabelSnapshot {
            class: label.class_name.to_owned(),
            namespace: label.namespace.to_owned(),
            name: label.name.to_owned(),
            overflow: label.is_overflow,
            status: self.label_status(label, &ask),
            blocked_by,
            partition: partition.plan.name.to_string(),
            partition_share: partition.share,
            weight: label.rule.weight,
            cap: (cap != usize::MAX).then_some(cap),
            in_flight: label.running,
            waiting: label.waiting,
            oldest_wait_seconds: self.oldest_wait(label),
            drain_rate: if hold > 0.0 { label.running as f64 / hold } else { 0.0 },
            estimated_wait_seconds: wait.map(|it| it.as_secs_f64()),
            active_workers: label.workers.map(|workers| workers.active),
            worker_slots: label.workers.map(|workers| workers.slots),
            rules,
            admitted: totals.admitted,
            rejected: totals.rejected(),
            would_reject: totals.would_reject,
            rejected_per_second: window.map_or(0.0, |it| it.per_second(it.rejected())),
            left_per_second: window.map_or(0.0, |it| it.per_second(it.left)),
            lately: window.and_then(|it| it.mostly_rejected()).map(LabelStatus::from),
            without_store: gone.and_then(|it| it.rules.without_store()).map(Cow::Borrowed),
        }
    }

    /// Returns what the label's next request would ask for. Its partition isn't known: where the label waits now, or
    /// the default one.
    pub(super) fn ask_of<'a>(&self, label: &LabelView<'a>) -> Ask<'a> {
        let waiter = if label.waiting > 0 { self.queue.oldest_of(label.id).next() } else { None };
        let subject = Subject::new(label.namespace, label.name, None);
        Ask { subject: Some(subject), ..Ask::of(waiter.map_or(PartitionId::DEFAULT, |waiter| waiter.partition)) }
    }

    pub(super) fn oldest_wait(&self, label: &LabelView<'_>) -> f64 {
        if label.waiting == 0 {
            return 0.0;
        }
        let oldest = self.queue.oldest_of(label.id).map(|waiter| waiter.since).min();
        oldest.map_or(0.0, |since| self.now.since(since).as_secs_f64())
    }
}
