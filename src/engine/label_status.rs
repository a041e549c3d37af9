//! How a label fares, and what stops its next request.

use super::{
    Ask, Engine,
    fair_queue::FlowKey,
    labels::{Label, LabelId},
    plan::PartitionMode,
    rules::{RuleSnapshot, Rules, WhenFull},
};

/// How a label fares. Where several hold, the one listed last is told.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LabelStatus {
    /// Slots are free, and no cap or rate is full.
    Accepting,
    /// Every slot it could have is taken: those of its workers, or those of the handle.
    Saturated,
    /// A cap, a rate or a budget is full.
    Throttled,
    /// As many are waiting or running as may; only where a rule bounds that.
    Full,
    /// Its workers are there, and have no slots at all.
    NoSlots,
    /// It had workers, and none was heard of in time.
    NoActiveWorkers,
    /// A rule that instances share can't be checked, or the handle drains.
    Unavailable,
}

impl LabelStatus {
    /// All of them, the most harmless first.
    pub const ALL: [Self; 7] = [
        Self::Accepting,
        Self::Saturated,
        Self::Throttled,
        Self::Full,
        Self::NoSlots,
        Self::NoActiveWorkers,
        Self::Unavailable,
    ];

    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepting => "accepting",
            Self::Saturated => "saturated",
            Self::Throttled => "throttled",
            Self::Full => "full",
            Self::NoSlots => "no_slots",
            Self::NoActiveWorkers => "no_active_workers",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What is in the way of a label's next request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BlockedBy {
    /// The rule, as in [`RuleSnapshot::rule`], or `draining`, `partition`, `limit`, `store`: rules that instances share can't
    /// be checked, or `kept`: slots are free, and are kept for somebody who was turned away below its share.
    pub rule: &'static str,
    /// How many are counted.
    pub used: usize,
    /// How many it allows.
    pub bound: usize,
    /// What becomes of the request: `wait`, `reject` or `empty`.
    pub when_full: &'static str,
    /// After how long it has room again, in seconds, where time alone makes some.
    pub room_in_seconds: Option<f64>,
}

impl Engine {
    /// How a label fares, judged from what its next request asks for.
    pub(super) fn label_status(&self, id: LabelId, label: &Label, ask: &Ask<'_>) -> LabelStatus {
        if self.closed || self.closes_without_store(id).is_some() {
            return LabelStatus::Unavailable;
        }
        if label.account.as_ref().is_some_and(|account| account.rules.pending.is_some_and(|rule| !rule.observes)) {
            return if Rules::pending_full(label, self.which()).is_some() {
                LabelStatus::Full
            } else {
                LabelStatus::Accepting
            };
        }
        let slots = label.workers.as_ref().map_or(usize::MAX, |workers| workers.slots());
        if label.workers.as_ref().is_some_and(|workers| workers.active() == 0) {
            LabelStatus::NoActiveWorkers
        } else if slots == 0 {
            LabelStatus::NoSlots
        } else if label.rule.cap.is_some_and(|cap| label.running >= cap) || self.full_rule(self.now, id).is_some() {
            LabelStatus::Throttled
        } else if label.running >= slots || !self.may_run(ask, id) && !self.lets_all_through(ask.partition) {
            LabelStatus::Saturated
        } else {
            LabelStatus::Accepting
        }
    }

    /// The first thing that stops its next request, in the order in which the engine asks.
    pub(super) fn blocked_by(
        &self,
        id: LabelId,
        label: &Label,
        ask: &Ask<'_>,
        rules: &[RuleSnapshot],
    ) -> Option<BlockedBy> {
        let blocked =
            |rule, used, bound, when_full| Some(BlockedBy { rule, used, bound, when_full, room_in_seconds: None });
        if self.closed {
            return blocked("draining", 0, 0, "reject");
        }
        let then = self.then(id, label, ask);
        // What bounds who may come in is asked before what bounds who may run.
        let is_pending = |rule: &&RuleSnapshot| rule.rule == "max_pending";
        // Of what others use of a shared rate, this process only knows what it was told.
        let is_known = |rule: &&RuleSnapshot| !(rule.shared && rule.is_rate());
        let full = rules.iter().filter(|rule| rule.remaining == 0 && !rule.observes).filter(is_known);
        if let Some(rule) = full.clone().find(is_pending).or_else(|| full.clone().next()) {
            let until = if is_pending(&rule) { None } else { self.full_rule(self.now, id).and_then(|full| full.until) };
            let room_in_seconds = until.map(|until| until.since(self.now).as_secs_f64());
            let when_full = if rule.when_full == "wait" { then } else { rule.when_full };
            return Some(BlockedBy { rule: rule.rule, used: rule.used, bound: rule.bound, when_full, room_in_seconds });
        }
        if let Some(consent) = self.consent(id) {
            if let Some(when_full) = self.closes_without_store(id) {
                return blocked("store", 0, 0, when_full.as_str());
            }
            if let Some(full) = consent.full(self.now) {
                let room_in_seconds = full.until.map(|until| until.since(self.now).as_secs_f64());
                let when_full = if full.when_full == WhenFull::Queue { then } else { full.when_full.as_str() };
                let rule = consent.full_name(self.now);
                return Some(BlockedBy { rule, used: full.bound, bound: full.bound, when_full, room_in_seconds });
            }
        }
        if self.may_run(ask, id) || self.lets_all_through(ask.partition) {
            return None;
        }
        let it = &self.partitions[ask.partition as usize];
        if it.plan.mode == PartitionMode::HardCap && it.running >= it.cap {
            return blocked("partition", it.running, it.cap, then);
        }
        let rule = if self.running < self.limit { "kept" } else { "limit" };
        blocked(rule, self.running, self.limit, then)
    }

    /// What becomes of a request that can't run: whether there is a place for it to wait, or somebody who has to make room.
    fn then(&self, id: LabelId, label: &Label, ask: &Ask<'_>) -> &'static str {
        let key = FlowKey { label: id, partition: ask.partition, level: ask.criticality.level() };
        let of_label = label.name.is_empty() || label.waiting < self.labels.plan().max_waiting;
        let room = || {
            self.line_has_room(ask.partition)
                || self.waiting.victim(key, label.rule.weight).is_some()
                || self.at_gate < self.gate.places.count(self.limit)
        };
        if of_label && room() { "wait" } else { "reject" }
    }
}
