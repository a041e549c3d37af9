//! What can be seen of labels from outside.

use super::{
    Ask, BlockedBy, Engine, LabelStatus, Subject,
    labels::{Label, LabelId},
    rules::RuleSnapshot,
};
#[cfg(feature = "introspect")]
use crate::time::Timestamp;

/// The state of one label.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LabelSnapshot {
    /// The class of work that this is about; empty for all that have no rules of their own.
    pub class: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether this is the entry that labels share for which there is no room.
    pub overflow: bool,
    /// Whether its next request would run, and what kind of thing is in the way if not.
    pub status: LabelStatus,
    /// What its next request would have to wait for, or would be rejected because of; `None` if it would run.
    pub blocked_by: Option<BlockedBy>,
    /// The partition that its requests are in, judged from the one that waits for longest, else the default one.
    pub partition: String,
    /// What that partition is guaranteed of the present limit.
    pub partition_share: usize,
    /// How many turns it gets for each one of a label of weight 1.
    pub weight: u32,
    /// How many of it may run, if that is bounded.
    pub cap: Option<usize>,
    /// How many of it run.
    pub in_flight: usize,
    /// How many of it wait, in line and at the gate.
    pub waiting: usize,
    /// How long the one that waits for longest has waited, in seconds.
    pub oldest_wait_seconds: f64,
    /// How many of its requests end per second, judged from how long they hold their slots.
    pub drain_rate: f64,
    /// How long the next one would wait, in seconds, as far as that can be told; `None` while nothing has finished.
    pub estimated_wait_seconds: Option<f64>,
    /// How many workers of it are active, if any was heard of.
    pub active_workers: Option<usize>,
    /// How many slots these have.
    pub worker_slots: Option<usize>,
    /// Each rule that counts it, with what is used of it.
    pub rules: Vec<RuleSnapshot>,
    /// How many of it were admitted, since it was last forgotten.
    pub admitted: u64,
    /// How many of it were rejected, since it was last forgotten.
    pub rejected: u64,
    /// How many of those admitted would have been rejected, had decisions been binding that only observe.
    pub would_reject: u64,
}

/// What a list of labels is sorted and filtered by.
#[cfg(feature = "introspect")]
#[derive(Clone, Debug)]
pub(crate) struct LabelRow {
    id: LabelId,
    pub(crate) class: u8,
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) overflow: bool,
    pub(crate) status: LabelStatus,
    pub(crate) in_flight: usize,
    pub(crate) waiting: usize,
    pub(crate) oldest_wait_seconds: f64,
    pub(crate) admitted: u64,
    pub(crate) rejected: u64,
}

impl Engine {
    /// The state of each label that is known, for `count` entries of the table from `from` on. Answers where to go on, until
    /// there are no more: whoever looks at many labels does so in several turns.
    pub(crate) fn label_snapshots(
        &self,
        from: usize,
        count: usize,
        snapshots: &mut Vec<LabelSnapshot>,
    ) -> Option<usize> {
        let mut ids = self.labels.ids().skip(from);
        let known = ids.by_ref().take(count).filter(|&id| self.is_known(id));
        snapshots.extend(known.map(|id| self.label_snapshot(id, self.labels.get(id))));
        ids.next().map(|_| from + count)
    }

    /// The same in one go.
    #[cfg(test)]
    pub(crate) fn all_labels(&self) -> Vec<LabelSnapshot> {
        let mut labels = Vec::new();
        assert_eq!(self.label_snapshots(0, usize::MAX, &mut labels), None, "there are no more");
        labels
    }

    /// Whether an entry is about a label, or about several for which there is no room.
    fn is_known(&self, id: LabelId) -> bool {
        let label = self.labels.get(id);
        match id {
            LabelId::DEFAULT => false,
            id if self.labels.is_overflow(id) => {
                label.running + label.waiting > 0 || label.admitted + label.rejected > 0
            }
            _ => true,
        }
    }

    /// The state of one label, if it is known.
    pub(crate) fn find_label(&self, class: Option<&str>, subject: &Subject<'_>) -> Option<LabelSnapshot> {
        let id = self.labels.find(self.rule_class(class), subject.namespace, subject.label)?;
        Some(self.label_snapshot(id, self.labels.get(id)))
    }

    /// The state of one label, once for each class of work that it has.
    #[cfg(feature = "introspect")]
    pub(crate) fn label_in_all_classes(&mut self, now: Timestamp, subject: &Subject<'_>) -> Vec<LabelSnapshot> {
        self.advance(now);
        let ids = (0..=u8::MAX).filter_map(|class| self.labels.find(class, subject.namespace, subject.label));
        ids.map(|id| self.label_snapshot(id, self.labels.get(id))).collect()
    }

    /// A row for each label that is known, otherwise as [`label_snapshots`](Self::label_snapshots).
    #[cfg(feature = "introspect")]
    pub(crate) fn label_rows(
        &mut self,
        now: Timestamp,
        from: usize,
        count: usize,
        rows: &mut Vec<LabelRow>,
    ) -> Option<usize> {
        self.advance(now);
        let mut ids = self.labels.ids().skip(from);
        for id in ids.by_ref().take(count) {
            if self.is_known(id) {
                rows.push(self.label_row(id, self.labels.get(id)));
            }
        }
        ids.next().map(|_| from + count)
    }

    /// Whether a class of this name has rules of its own.
    #[cfg(feature = "introspect")]
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.rules.has_class(name)
    }

    /// The state of the label of a row, if it is still known.
    #[cfg(feature = "introspect")]
    pub(crate) fn label_of_row(&self, row: &LabelRow) -> Option<LabelSnapshot> {
        let label = self.labels.get(row.id);
        let same = label.class == row.class && label.namespace == row.namespace && label.name == row.name;
        same.then(|| self.label_snapshot(row.id, label))
    }

    #[cfg(feature = "introspect")]
    fn label_row(&self, id: LabelId, label: &Label) -> LabelRow {
        LabelRow {
            id,
            class: label.class,
            namespace: label.namespace.clone(),
            name: label.name.clone(),
            overflow: self.labels.is_overflow(id),
            status: self.label_status(id, label, &self.ask_of(id, label)),
            in_flight: label.running,
            waiting: label.waiting,
            oldest_wait_seconds: self.oldest_wait(id, label),
            admitted: label.admitted,
            rejected: label.rejected,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn label_snapshot(&self, id: LabelId, label: &Label) -> LabelSnapshot {
        let ask = self.ask_of(id, label);
        let rules = self.label_rules(label);
        let blocked_by = self.blocked_by(id, label, &ask, &rules);
        let wait = if blocked_by.is_none() { Some(0.0) } else { self.seconds_to_wait(&ask, id) };
        let hold = label.mean_hold().as_secs_f64();
        let cap = self.labels.cap(id);
        let partition = &self.partitions[ask.partition as usize];
        LabelSnapshot {
            class: self.rules.class_name(label.class).to_owned(),
            namespace: label.namespace.to_string(),
            name: label.name.to_string(),
            overflow: self.labels.is_overflow(id),
            status: self.label_status(id, label, &ask),
            blocked_by,
            partition: partition.plan.name.to_string(),
            partition_share: partition.share,
            weight: label.rule.weight,
            cap: (cap != usize::MAX).then_some(cap),
            in_flight: label.running,
            waiting: label.waiting,
            oldest_wait_seconds: self.oldest_wait(id, label),
            drain_rate: if hold > 0.0 { label.running as f64 / hold } else { 0.0 },
            estimated_wait_seconds: wait,
            active_workers: label.workers.as_ref().map(|workers| workers.active()),
            worker_slots: label.workers.as_ref().map(|workers| workers.slots()),
            rules,
            admitted: label.admitted,
            rejected: label.rejected,
            would_reject: label.would_reject,
        }
    }

    /// What its next request would ask for. Which partition that is in isn't known: where it waits now, or the default one.
    fn ask_of<'a>(&self, id: LabelId, label: &'a Label) -> Ask<'a> {
        let waiter = if label.waiting > 0 { self.waiting.oldest_of(id).next() } else { None };
        let subject = Subject { namespace: &label.namespace, label: &label.name, run: None };
        Ask { subject: Some(subject), ..Ask::of(waiter.map_or(0, |waiter| waiter.partition)) }
    }

    fn oldest_wait(&self, id: LabelId, label: &Label) -> f64 {
        if label.waiting == 0 {
            return 0.0;
        }
        let oldest = self.waiting.oldest_of(id).map(|waiter| waiter.since).min();
        oldest.map_or(0.0, |since| self.now.since(since).as_secs_f64())
    }

    fn seconds_to_wait(&self, ask: &Ask<'_>, id: LabelId) -> Option<f64> {
        self.expected_wait(self.now, ask, id).map(|it| it.as_secs_f64())
    }

    /// Its rules, and the two bounds that are set elsewhere.
    pub(super) fn label_rules(&self, label: &Label) -> Vec<RuleSnapshot> {
        let own = label.rule.cap.map(|cap| RuleSnapshot::cap("label_cap", cap, label.running, "labels"));
        let workers = label.workers.as_ref().filter(|_| self.labels.plan().enforce_workers);
        let slots = workers.map(|it| RuleSnapshot::cap("worker_slots", it.slots(), label.running, "workers"));
        self.rules.view(self.now, label).into_iter().chain(own).chain(slots).collect()
    }
}
