//! What the verbs ask the rooms, and what changes nothing: may a request run, which rule stops it, where may it wait.

use std::{sync::Arc, time::Duration};

use crate::{
    Engine, Reason, Timestamp,
    ids::{AbandonedKind, FlowKey, Key, LabelId, Level, PartitionId},
    queue::Room,
    tokens::{Ask, Claim, ExhaustedRule, InForce, RequestRef, SharedRules},
};

impl Engine {
    /// Returns which rules decide: where nothing binds, all of them.
    const fn rules_in_force(&self) -> InForce {
        if self.lifecycle.enforces() { InForce::Binding } else { InForce::All }
    }

    /// Returns the rule that has no room for another request of a label, if there is such a rule.
    #[inline]
    pub(crate) fn exhausted_rule(&self, now: Timestamp, label: LabelId) -> Option<ExhaustedRule> {
        self.quotas.exhausted(now, label, self.rules_in_force(), false)
    }

    /// Returns the rule that stops a request of a label that arrives, whether the request may wait then or not.
    #[inline]
    pub(crate) fn blocking_rule(&self, now: Timestamp, label: LabelId) -> Option<ExhaustedRule> {
        self.quotas.exhausted(now, label, self.rules_in_force(), true)
    }

    /// Returns the cap of a label or of its partition that stops a request, however much is free besides.
    pub(super) fn own_cap(&self, partition: PartitionId, label: LabelId) -> Option<Reason> {
        if self.quotas.label(label).is_full {
            Some(Reason::LabelCap)
        } else {
            self.capacity.partition(partition).is_at_hard_cap().then_some(Reason::PartitionCap)
        }
    }

    /// Returns the reason to reject a request that finds neither a slot nor a place.
    pub(super) fn reason_for_rejecting(&self, partition: PartitionId, label: LabelId) -> Reason {
        if let Some(cap) = self.own_cap(partition, label) {
            cap
        } else if self.queue.plan().queue.is_some() {
            Reason::GateFull
        } else if self.room().places == 0 {
            Reason::Limit
        } else {
            Reason::QueueFull
        }
    }

    /// Returns what is free for a further waiter, without another one that makes room.
    #[inline]
    pub(crate) fn room(&self) -> Room {
        self.queue.room(self.capacity.limit(), self.capacity.running())
    }

    /// Whether a partition has fewer waiters in line than its share of the places.
    pub(super) fn is_below_share_of_line(&self, partition: PartitionId) -> bool {
        let places = self.room().places;
        self.queue.lengths_of(partition).in_line < self.capacity.partition(partition).share_of(places)
    }

    /// Returns the waiter that would have to make room for a request in a full line: of the partition that is most beyond its
    /// share of the places, for a request of a partition below its own; else of its own partition.
    pub(crate) fn victim_for(&self, ask: &Ask<'_>, label: LabelId) -> Option<Key> {
        // A line that has no places any more, since a reload, empties: slots may be held back for labels and levels
        // then, and a waiter would take such a slot.
        let places = self.room().places;
        if places == 0 {
            return None;
        }
        let most_beyond = || {
            let all = self.capacity.partitions();
            let all = all.map(|(id, it)| (self.queue.lengths_of(id).in_line.saturating_sub(it.share_of(places)), id));
            all.filter(|&(beyond, _)| beyond > 0).max_by_key(|&(beyond, _)| beyond).map(|(_, id)| id)
        };
        let most = if self.is_below_share_of_line(ask.partition) { most_beyond() } else { None };
        let key = FlowKey { label, partition: ask.partition, level: Level::of(ask.criticality) };
        self.queue.victim(key, self.quotas.label(label).rule.weight, most)
    }

    /// Returns what a request may count on in the room for guarantees, if nothing but a slot is in its way there.
    pub(super) fn claim_of(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Option<Claim> {
        let one = self.quotas.label(label);
        let is_label_free = one.running + one.waiting < one.cap && self.exhausted_rule(now, label).is_none();
        let is_next = self.capacity.may_run(ask.partition, Ask::COST) && !self.capacity.slots().is_spaced_out;
        if !is_label_free || is_next {
            return None;
        }
        let waiting = self.queue.lengths_of(ask.partition).all();
        self.capacity.claim(ask.partition, waiting, self.estimates.hold().reservation_time())
    }

    /// Whether a request may run, as far as slots and its label go.
    #[inline]
    pub(crate) fn may_run(&self, ask: &Ask<'_>, label: LabelId) -> bool {
        let level = Level::of(ask.criticality);
        self.capacity.may_run(ask.partition, Ask::COST)
            && !self.quotas.label(label).is_full
            && self.capacity.leaves_reserved(ask.partition, level, || self.is_below_fair_share(label), Ask::COST)
    }

    pub(super) fn is_below_fair_share(&self, label: LabelId) -> bool {
        self.quotas.is_below_fair_share(label, self.capacity.limit())
    }

    /// Returns when work that was given up and that started then has nearly always ended. No work is waited for longer than its
    /// slot lives.
    pub fn abandoned_end(&self, kind: AbandonedKind, start: Timestamp) -> Timestamp {
        // Where nothing else is known it lasts nearly as long as callers wait, or what a person would guess. A caller that finds all
        // slots taken by such work is served before its longest wait, four fifths of the default deadline, is over.
        let longest = self.queue.plan().default_deadline.map_or(Duration::from_secs(1), |deadline| deadline / 4 * 3);
        let end = self.estimates.abandoned_end(kind, start, longest);
        self.slot_ttl.time_to_live().map_or(end, |time_to_live| end.min(start.after(time_to_live)))
    }

    /// Whether [`finish`](Self::finish) needs the exact time. On a server that has room there is no waiter to serve and
    /// nothing to measure, and reading a clock costs more than the rest of the call.
    pub const fn is_saturated(&self) -> bool {
        self.capacity.is_full() || self.queue.lengths().all() > 0
    }

    /// Whether a partition may take a slot now, because it has room or because its decisions don't bind.
    pub(crate) fn is_served(&self, partition: PartitionId) -> bool {
        self.capacity.partition(partition).plan.observes || self.capacity.may_run(partition, Ask::COST)
    }

    /// Whether the bounds of a partition stop no request.
    pub(crate) fn lets_all_through(&self, partition: PartitionId) -> bool {
        self.capacity.partition(partition).plan.observes && self.lifecycle.enforces()
    }

    /// Returns the observing rule that has no room for a request of a label, which arrives or has its turn.
    #[inline]
    pub(super) fn observed(&self, now: Timestamp, label: LabelId, arrives: bool) -> Option<ExhaustedRule> {
        let observe = self.quotas.has_rules().observing && self.lifecycle.enforces();
        if observe { self.quotas.exhausted(now, label, InForce::Observing, arrives) } else { None }
    }

    /// Returns the rules that requests of a label have to ask for before they run.
    #[inline]
    pub(super) fn needs_remote(&self, label: LabelId) -> Option<Arc<SharedRules>> {
        let may_share = self.quotas.has_rules().shared && self.lifecycle.enforces();
        if may_share { self.quotas.label(label).remote.map(|it| Arc::clone(&it.rules)) } else { None }
    }

    /// Returns the reference of a request that has just come, with its run.
    pub(super) fn request_of(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> RequestRef {
        RequestRef { run: self.queue.find_run(ask), ..RequestRef::new(now, ask.partition, label) }
    }
}
