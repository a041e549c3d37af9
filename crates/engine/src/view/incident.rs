//! What requests suffer besides rejections, and what holds the slots.

use std::{borrow::Cow, cmp::Reverse, time::Duration};

use super::{LabelRow, PartitionSnapshot, Snapshot, text};
use crate::{
    Engine,
    ids::{LabelId, PartitionId},
    telemetry::{Held, LastSeconds, Most},
};

/// The label with most waiters, and the rule of its own that they wait for, if it is one.
pub(super) struct LongestLine {
    pub(super) name: String,
    pub(super) waiting: usize,
    seconds: f64,
    pub(super) rule: Option<String>,
}

impl LongestLine {
    pub(super) fn sentence(&self) -> String {
        let rule = self.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
        format!("{} of {} wait{rule}, the oldest for {}", self.waiting, self.name, text::seconds(self.seconds))
    }
}

/// A label, or a partition of requests without one, that holds slots.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Its name; empty for the only partition that there is.
    pub(super) name: String,
    pub(super) slots: usize,
    held: Held,
    /// Time for which it usually holds a slot.
    usual: Duration,
    /// Whether its requests don't end, most of them.
    pub(crate) is_stuck: bool,
    /// Whether it holds half of all slots, or all that it may have.
    pub(crate) has_most: bool,
}

impl Holder {
    /// Whether there is a name to tell.
    pub(super) const fn is_named(&self) -> bool {
        !self.name.is_empty()
    }

    /// Names its requests.
    pub(super) fn requests(&self) -> String {
        if self.is_named() { format!("requests of {}", self.name) } else { "requests".to_owned() }
    }

    /// Says what it holds, and for how long.
    pub(super) fn sentence(&self, limit: usize) -> String {
        let subject = if self.is_named() { format!("{} holds", self.name) } else { "requests hold".to_owned() };
        let holds = format!("{subject} {} of {limit} slots", self.slots);
        let seconds = |time: Duration| text::seconds(time.as_secs_f64());
        match self.held.given_back {
            _ if !self.is_stuck => holds,
            0 => format!("{holds}, and gave none back for {} or longer", text::seconds(self.held.seconds)),
            _ if self.usual.is_zero() => format!("{holds}, each for {} or longer", seconds(self.held.each())),
            _ => format!("{holds}, each for {} and not {}", seconds(self.held.each()), seconds(self.usual)),
        }
    }
}

impl Engine {
    /// Returns the labels that had most of this in the last seconds, of those that have a name: two at most.
    pub(super) fn named_labels(&self, most: Most) -> impl Iterator<Item = LabelId> {
        self.telemetry.labels_with_most(most).filter(|&id| !self.quotas.label(id).name.is_empty())
    }

    /// Says which requests get no answer in time, if any do: of two partitions at most, and of two labels.
    pub(super) fn unanswered(&self, last: &[LastSeconds], whole: &Snapshot) -> Option<String> {
        /// Part from which on it is worth a word.
        const PART: f64 = 0.01;
        let sum = |of: fn(&LastSeconds) -> u64| last.iter().map(of).sum::<u64>();
        let (late, all) = (sum(|it| it.late), sum(|it| it.left));
        let (of, what) = match () {
            () if late * 10 <= all => ("callers", "leave before the answer"),
            () if late * 10 >= all * 9 => ("answers", "come after the deadline"),
            () => ("requests", "get no answer in time"),
        };
        let mut partitions: Vec<_> =
            last.iter().zip(&whole.partitions).filter(|(it, _)| it.part_left() >= PART).collect();
        partitions.sort_by_key(|(recent, _)| Reverse(recent.left));
        let labels = self.named_labels(Most::Left).filter_map(|id| {
            let window = self.telemetry.label_window(self.now, id, self.quotas.label(id).running)?;
            (window.part_left() >= PART).then(|| (self.full_name(id), window))
        });
        let labels: Vec<_> = labels.collect();
        // A small label does not hide behind the many requests of its partition.
        let parts: Vec<_> = if partitions.is_empty() {
            labels.iter().map(|(name, it)| (it.part_left(), format!("{name}'s {of}"))).collect()
        } else {
            let is_alone = whole.partitions.len() == 1;
            let name =
                |it: &PartitionSnapshot| if is_alone { of.to_owned() } else { text::name(&it.name) + "'s " + of };
            partitions.iter().take(2).map(|(recent, it)| (recent.part_left(), name(it))).collect()
        };
        let all = partitions.first().map_or(f64::MAX, |(recent, _)| recent.per_second(recent.left));
        let mut named: Vec<_> = labels.iter().map(|(name, it)| (&**name, it.per_second(it.left))).collect();
        named.retain(|&(_, rate)| rate * 4.0 > all);
        let most = named.iter().map(|(_, rate)| rate).sum::<f64>() * 2.0 > all;
        let names: Vec<_> = named.into_iter().filter(|_| most).map(|(name, _)| name).collect();
        let names = if names.is_empty() { String::new() } else { format!(", most of them of {}", names.join(" and ")) };
        let parts: Vec<_> =
            parts.into_iter().map(|(part, of)| format!("{} of {of}", text::percent(part * 100.0))).collect();
        (!parts.is_empty()).then(|| format!("{} {what}{names}", parts.join(" and ")))
    }

    /// Returns the label with most waiters.
    pub(super) fn longest_line(&self) -> Option<LongestLine> {
        let id = self.named_labels(Most::Waiting).next()?;
        let label = self.quotas.label(id);
        let (rules, ask) = (self.quotas.rules_of(self.now, id), self.ask_of(&label));
        let blocked = self.blocked_by(&label, &ask, &rules);
        // What the handle as a whole has too few of is told of the handle.
        let own = blocked.filter(|it| !matches!(&*it.rule, "draining" | "partition" | "limit" | "reserved" | "store"));
        (label.waiting > 1).then(|| LongestLine {
            name: self.full_name(id),
            waiting: label.waiting,
            seconds: self.oldest_wait(&label),
            rule: own.map(|it| format!("{} {}", it.rule.replace('_', " "), it.bound)),
        })
    }

    /// Returns the time for which a slot is usually held. It is noted where slots are scarce; elsewhere an answer says as much.
    pub(crate) fn usual_hold(&self) -> Duration {
        let noted = self.estimates.hold().mean();
        if !noted.is_zero() {
            return noted;
        }
        let answers = self.capacity.partitions().map(|(number, _)| self.telemetry.counts(number).rtt.quantile(500));
        answers.max().unwrap_or_default()
    }

    /// Returns what holds slots that are not given back, two at most, or else what holds most of them.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let usual = self.usual_hold();
        let of_labels = |most| self.named_labels(most).filter_map(move |id| self.label_holder(id, usual));
        let stuck: Vec<_> = of_labels(Most::Stuck).filter(|it| it.is_stuck).collect();
        if !stuck.is_empty() {
            return stuck;
        }
        let running = || self.capacity.partitions().filter(|(_, it)| it.running > 0);
        let mut stuck: Vec<_> = running().filter(|(number, _)| self.recent(*number).held.is_stuck(usual)).collect();
        stuck.sort_by_key(|(_, it)| Reverse(it.running));
        stuck.truncate(2);
        if !stuck.is_empty() {
            return stuck.into_iter().map(|(number, _)| self.partition_holder(number, usual)).collect();
        }
        // A partition whose slots are those of one label is named by that.
        let most = running().max_by_key(|(_, it)| it.running);
        let partition = most.map(|(number, _)| self.partition_holder(number, usual));
        let label = of_labels(Most::Held).next();
        let label = label.filter(|label| partition.as_ref().is_some_and(|it| label.slots * 2 > it.slots));
        label.or(partition).into_iter().collect()
    }

    /// Returns how many slots are held by requests that don't end, and whether these are most slots, or all that a label may have.
    pub(crate) fn stuck(&self, holders: &[Holder]) -> (usize, bool) {
        let stuck = || holders.iter().filter(|it| it.is_stuck);
        let slots = stuck().map(|it| it.slots).sum();
        (slots, slots > 0 && (slots * 2 >= self.capacity.limit() || stuck().any(|it| it.has_most)))
    }

    fn label_holder(&self, id: LabelId, usual: Duration) -> Option<Holder> {
        let label = self.quotas.label(id);
        let held = self.telemetry.label_window(self.now, id, label.running)?.held;
        let usual = if label.mean_hold.is_zero() { usual } else { label.mean_hold };
        let holder = self.holder_of(self.full_name(id), label.running, held, usual);
        let has_most = holder.has_most || label.running >= label.cap;
        (label.running > 0).then_some(Holder { has_most, ..holder })
    }

    fn partition_holder(&self, partition: PartitionId, usual: Duration) -> Holder {
        let it = self.capacity.partition(partition);
        let is_alone = self.shown_partitions().count() == 1;
        let name = if is_alone { String::new() } else { text::name(&it.plan.name) };
        self.holder_of(name, it.running, self.recent(partition).held, usual)
    }

    fn holder_of(&self, name: String, slots: usize, held: Held, usual: Duration) -> Holder {
        let has_most = slots * 2 >= self.capacity.limit();
        Holder { name, slots, held, usual, is_stuck: held.is_stuck(usual), has_most }
    }
}

/// What the requests of a label suffer, and what they hold; or of a partition, where labels account for less than half.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Foremost {
    /// `label` or `partition`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["label", "partition"])))]
    pub kind: Cow<'static, str>,
    /// The namespace of a label; empty if it has none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "String::is_empty"))]
    pub namespace: String,
    /// The name of the label or of the partition.
    pub name: String,
    /// Slots that its requests hold.
    pub in_flight: usize,
    /// Time for which each of these slots is held, in seconds, judged from how many came back in the last seconds.
    pub held_seconds: f64,
    /// Requests that wait, in line and at the gate.
    pub waiting: usize,
    /// Time for which its oldest waiter has waited, in seconds; of a label only.
    pub oldest_wait_seconds: f64,
    /// Requests that were rejected per second, over the last seconds.
    pub rejected_per_second: f64,
    /// Requests per second without an answer in time: the callers left, or it came after the deadline, over the last seconds.
    pub left_per_second: f64,
}

impl Foremost {
    /// Sums up a label: a row for each of its classes of work.
    #[doc(hidden)]
    pub fn of_label(rows: &[LabelRow]) -> Self {
        let sum = |of: fn(&LabelRow) -> f64| rows.iter().map(of).sum();
        let most = |of: fn(&LabelRow) -> f64| rows.iter().map(of).fold(0.0, f64::max);
        let [namespace, name] =
            rows.first().map(|it| [&it.namespace, &it.name].map(|it| it.to_string())).unwrap_or_default();
        Self {
            kind: "label".into(),
            namespace,
            name,
            in_flight: rows.iter().map(|it| it.in_flight).sum(),
            held_seconds: most(|it| it.held_seconds),
            waiting: rows.iter().map(|it| it.waiting).sum(),
            oldest_wait_seconds: most(|it| it.oldest_wait_seconds),
            rejected_per_second: sum(|it| it.rejected_per_second),
            left_per_second: sum(|it| it.left_per_second),
        }
    }

    /// Returns how many requests get no answer in a second, and how many wait for it now.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn harm(&self) -> f64 {
        self.rejected_per_second + self.left_per_second + self.waiting as f64
    }

    /// Sums up a partition.
    #[doc(hidden)]
    pub fn of_partition(it: &PartitionSnapshot) -> Self {
        Self {
            kind: "partition".into(),
            name: it.name.clone(),
            in_flight: it.in_flight,
            held_seconds: it.recent.held_seconds,
            waiting: it.waiting + it.at_gate,
            rejected_per_second: it.recent.rejected_per_second,
            left_per_second: it.recent.left_per_second,
            ..Self::default()
        }
    }
}
