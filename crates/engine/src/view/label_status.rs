//! The status of labels and partitions, and what stops the next request.

use std::borrow::Cow;

#[cfg(feature = "serde")]
use super::is_default;
use crate::{
    Engine, Reason, Timestamp, codes,
    ids::LabelId,
    plan::rules::WhenFull,
    quota::{LabelView, RuleSnapshot},
    telemetry::{PartitionGauges, RejectionKind},
    tokens::Ask,
};

/// The status of a label. Where several hold, the one listed last is told.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum LabelStatus {
    /// Slots are free, and no cap or rate is full.
    Accepting,
    /// Every slot that the label could have is taken: those of its workers, or those of the handle.
    Saturated,
    /// A cap, a rate or a budget is full.
    Throttled,
    /// As many requests wait and run as may; only where a rule bounds that.
    Full,
    /// The label's workers are active, and have no slots at all.
    NoSlots,
    /// The label had workers, and none of them reported in time.
    NoActiveWorkers,
    /// A rule that instances share can't be checked, or the handle drains.
    Unavailable,
    /// A status of a later version; told by no handle of this one.
    #[default]
    #[cfg_attr(feature = "serde", serde(other))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

impl LabelStatus {
    codes! {
        /// All that a handle tells, the most harmless first.
        7:
            Accepting = "accepting", Saturated = "saturated", Throttled = "throttled", Full = "full",
            NoSlots = "no_slots", NoActiveWorkers = "no_active_workers", Unavailable = "unavailable",
            ; Unknown = "unknown"
    }
}

impl From<RejectionKind> for LabelStatus {
    fn from(kind: RejectionKind) -> Self {
        match kind {
            RejectionKind::Saturated => Self::Saturated,
            RejectionKind::Throttled => Self::Throttled,
            RejectionKind::Unavailable => Self::Unavailable,
        }
    }
}

/// What is in the way of a label's next request.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Blocked"))]
#[non_exhaustive]
pub struct BlockedBy {
    /// The name of a [rule](RuleSnapshot::rule), or `draining`, `partition`, `limit`, `store` or `reserved`. `store`: rules
    /// that instances share can't be checked. `reserved`: slots are free, and are held back for requests that were rejected
    /// below their share.
    pub rule: Cow<'static, str>,
    /// Requests that are counted.
    pub used: usize,
    /// Requests that are allowed.
    pub bound: usize,
    /// What becomes of the request: `wait`, `reject` or `empty`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["wait", "reject", "empty"])))]
    pub when_full: Cow<'static, str>,
    /// Time until there is room again, in seconds, where time alone makes some.
    pub room_in_seconds: Option<f64>,
    /// Slots that are held back, where the rule is `reserved`; else 0.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub reserved: usize,
}

impl Engine {
    /// Returns the status of a label, judged from what its next request asks for.
    pub(crate) fn label_status(&self, label: &LabelView<'_>, ask: &Ask<'_>) -> LabelStatus {
        let id = label.id;
        if self.lifecycle.is_draining() || self.closes_without_store(label).is_some() {
            return LabelStatus::Unavailable;
        }
        if label.pending.is_some_and(|rule| !rule.observes) {
            let is_full = self.blocking_rule(self.now, id).is_some_and(|full| full.reason == Reason::PendingFull);
            return if is_full { LabelStatus::Full } else { LabelStatus::Accepting };
        }
        let slots = label.workers.map_or(usize::MAX, |workers| workers.slots);
        if label.workers.is_some_and(|workers| workers.active == 0) {
            LabelStatus::NoActiveWorkers
        } else if slots == 0 {
            LabelStatus::NoSlots
        } else if label.rule.cap.is_some_and(|cap| label.running >= cap) || self.exhausted_rule(self.now, id).is_some()
        {
            LabelStatus::Throttled
        } else if label.running >= slots || !self.may_run(ask, id) && !self.lets_all_through(ask.partition) {
            LabelStatus::Saturated
        } else {
            LabelStatus::Accepting
        }
    }

    /// Returns what becomes of requests of a label whose shared rules can't be checked; `None` while they can.
    fn closes_without_store(&self, label: &LabelView<'_>) -> Option<WhenFull> {
        let remote = label.remote.filter(|remote| self.outage.is_gone(self.now, remote.unanswered))?;
        remote.rules.closes()
    }

    /// Returns the first thing that stops the label's next request, in the order in which the engine checks.
    pub(crate) fn blocked_by(&self, label: &LabelView<'_>, ask: &Ask<'_>, rules: &[RuleSnapshot]) -> Option<BlockedBy> {
        let blocked = |rule: &'static str, used, bound, when_full: &'static str| {
            Some(BlockedBy { rule: rule.into(), used, bound, when_full: when_full.into(), ..BlockedBy::default() })
        };
        if self.lifecycle.is_draining() {
            return blocked("draining", 0, 0, "reject");
        }
        let (id, then) = (label.id, self.then(label, ask));
        // A bound on waiting and running requests is checked before a bound on running ones.
        let is_pending = |rule: &&RuleSnapshot| rule.rule == "max_pending";
        // What other instances use of a shared rate is known here only as far as the store said.
        let is_known = |rule: &&RuleSnapshot| !(rule.shared && rule.is_rate());
        let full = rules.iter().filter(|rule| rule.remaining == 0 && !rule.observes).filter(is_known);
        if let Some(rule) = full.clone().find(is_pending).or_else(|| full.clone().next()) {
            let until =
                if is_pending(&rule) { None } else { self.exhausted_rule(self.now, id).and_then(|full| full.until) };
            let room_in_seconds = until.map(|until| until.since(self.now).as_secs_f64());
            let when_full = if rule.when_full == "wait" { then.into() } else { rule.when_full.clone() };
            let (used, bound) = (rule.used, rule.bound);
            return Some(BlockedBy { rule: rule.rule.clone(), used, bound, when_full, room_in_seconds, reserved: 0 });
        }
        if let Some(remote) = label.remote {
            if let Some(when_full) = self.closes_without_store(label) {
                return blocked("store", 0, 0, when_full.as_str());
            }
            if let Some(full) = remote.exhausted(self.now) {
                let room_in_seconds = full.until.map(|until| until.since(self.now).as_secs_f64());
                let when_full = if full.when_full == WhenFull::Queue { then } else { full.when_full.as_str() };
                let blocked = blocked(remote.exhausted_name(self.now), full.bound, full.bound, when_full);
                return blocked.map(|it| BlockedBy { room_in_seconds, ..it });
            }
        }
        if self.may_run(ask, id) || self.lets_all_through(ask.partition) {
            return None;
        }
        let it = self.capacity.partition(ask.partition);
        if it.is_at_hard_cap() {
            return blocked("partition", it.running, it.cap, then);
        }
        let (used, bound) = (self.capacity.running(), self.capacity.limit());
        if self.capacity.is_full() {
            return blocked("limit", used, bound, then);
        }
        blocked("reserved", used, bound, then).map(|it| BlockedBy { reserved: self.capacity.reserved(), ..it })
    }

    /// Returns what becomes of a request that can't run: whether there is a place for it to wait, or a waiter that has
    /// to make room.
    fn then(&self, label: &LabelView<'_>, ask: &Ask<'_>) -> &'static str {
        let of_label = label.name.is_empty() || label.waiting < self.quotas.plans().0.max_waiting;
        let room = self.room();
        let has_place = || room.in_line || room.at_gate || self.victim_for(ask, label.id).is_some();
        if of_label && has_place() { "wait" } else { "reject" }
    }

    /// Returns the status of each partition that is shown, in their order: the worse of what is in the way of its next
    /// request, and of what became of most requests of the last seconds.
    pub fn partition_statuses(&self, now: Timestamp) -> Vec<LabelStatus> {
        let statuses = self.shown_partitions().map(|(number, _)| {
            let recent = self.telemetry.last_seconds(now, number, PartitionGauges::default()).mostly_rejected();
            let recent = recent.map_or(LabelStatus::Accepting, LabelStatus::from);
            let next = if self.lifecycle.is_draining() {
                LabelStatus::Unavailable
            } else if self.may_run(&Ask::of(number), LabelId::DEFAULT) || self.lets_all_through(number) {
                LabelStatus::Accepting
            } else {
                LabelStatus::Saturated
            };
            next.max(recent)
        });
        statuses.collect()
    }
}
