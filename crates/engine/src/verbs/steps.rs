//! The steps that several verbs take: each changes more than one room, and decides nothing.

use std::time::Duration;

use crate::{
    Engine, Timestamp,
    capacity::Below,
    ids::{ClassId, Key, LabelId, Level, RuleClassId},
    quota::{Quotas, Throttle},
    telemetry::{Event, Named},
    tokens::{Ask, Claim, ExhaustedRule, Holder, Slot, Stage, Subject},
};

impl Engine {
    /// Gives `count` requests alike a slot each, which start now, if they do: the only place that gives any. Returns how many
    /// requests run then.
    #[inline(always)]
    pub(super) fn take_slots(&mut self, holder: &mut Holder, count: usize, start: Option<Timestamp>) -> u32 {
        if self.controller.has_shadow() {
            let waits = self.room().places > 0;
            holder.marks = holder.marks.with(self.controller.enter_shadow(waits));
        }
        let Self { capacity, quotas, .. } = self;
        let limit = capacity.limit();
        let in_flight = capacity.take(holder, count, start, || quotas.is_below_fair_share(holder.label, limit));
        #[cfg(test)]
        assert!(
            holder.marks.has(crate::tokens::Marks::OVER_LIMIT)
                || !self.lifecycle.enforces()
                || self.capacity.running() <= limit
                || self.capacity.is_within_overcommit(holder.partition),
            "more run than the limit allows"
        );
        let throttle = self.quotas.started(holder, count);
        self.throttle(holder.label, throttle);
        in_flight
    }

    /// Counts a request that gives its slot back.
    #[inline]
    pub(super) fn release(&mut self, holder: &Holder) {
        self.capacity.release(holder);
        self.controller.leave_shadow(holder.marks);
        let throttle = self.quotas.ended(holder);
        self.throttle(holder.label, throttle);
    }

    /// Learns for how long a slot was held, where slots are scarce.
    pub(super) fn note_held(&mut self, held: Duration, label: LabelId) {
        if self.is_saturated() {
            self.estimates.held(held);
            self.quotas.held(label, held);
        }
    }

    /// Takes a waiter out of the line or the gate, unless its wait ended before: for its slot if it `is_served`.
    pub(super) fn leave(&mut self, key: Key, is_served: bool) {
        if let Some(left) = self.queue.leave(key, is_served) {
            let throttle = self.quotas.left(left.label, left.is_over_quota, left.start);
            self.throttle(left.label, throttle);
        }
    }

    /// Forgets a waiter that stands nowhere any more.
    pub(super) fn forget(&mut self, key: Key) {
        self.queue.remove(key, self.telemetry.wants(self.now).journal.1);
    }

    /// Puts a waiter at the end of the line or of the gate; its wait there starts now.
    pub(super) fn stand(&mut self, now: Timestamp, key: Key, stage: Stage, claim: Claim) {
        let waiter = self.queue.get(key);
        let label = waiter.label;
        let in_room = (claim != Claim::None).then(|| {
            let left = waiter.caller_deadline.since(now) / 2;
            self.estimates.hold().reservation_time().min(left).min(Duration::from_millis(500))
        });
        let (flow_tag, own) = self.quotas.waits_by(label);
        let two_turns = || self.estimates.hold().estimate(2, self.capacity.limit());
        self.queue.stand(now, key, (stage, claim), flow_tag, (own, in_room), two_turns);
    }

    /// Moves a waiter from the gate into the line.
    pub(super) fn enter_line(&mut self, now: Timestamp, key: Key) {
        let label = self.queue.get(key).label;
        if let Some(start) = self.queue.leave_gate(key) {
            self.quotas.goes_on_at(label, start);
        }
        self.stand(now, key, Stage::Line, Claim::None);
    }

    /// Lets the next request of a label ask, because the last one was admitted, or left before it had an answer.
    pub(super) fn allow_probe(&mut self, label: LabelId) {
        if self.quotas.has_rules().shared && self.quotas.allow_probe(label) {
            self.unthrottle(label);
        }
    }

    /// Notes that the store gave a request of a label an answer, or none.
    pub(super) fn note_answer(&mut self, now: Timestamp, label: LabelId, answered: bool) {
        let unanswered = (!answered).then_some(now);
        if self.quotas.note_answer(label, unanswered) {
            self.outage.note_answer(unanswered);
        }
    }

    /// Holds a slot back for a request that is rejected. Where requests may wait, labels and levels take turns and need
    /// no reservation, and neither does a partition that has a share of the line left.
    pub(super) fn reserve(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, may_wait: bool) {
        let below = self.below(ask, label, may_wait);
        self.capacity.reserve_slot(now, self.estimates.hold().reservation_time(), below);
    }

    /// Returns the shares for which [`reserve`](Self::reserve) holds a slot back.
    pub(super) fn below(&self, ask: &Ask<'_>, label: LabelId, may_wait: bool) -> Below {
        if may_wait && self.is_below_share_of_line(ask.partition) {
            return Below::default();
        }
        let none_waits = self.room().places == 0;
        let is_label_below = none_waits.then(|| self.quotas.table().active > 1 && self.is_below_fair_share(label));
        self.capacity.below(ask.partition, Level::of(ask.criticality), is_label_below, may_wait)
    }

    /// Has a label wait until the rule that stops it has room.
    pub(super) fn await_room(&mut self, now: Timestamp, label: LabelId, full: &ExhaustedRule) {
        self.queue.throttle(label, true);
        self.quotas.await_room(now, label, full);
    }

    /// Stops the turns of a label, or lets it have them again, as what changed says.
    #[inline]
    pub(super) fn throttle(&mut self, label: LabelId, throttle: Throttle) {
        if let Throttle::Changed(is_throttled) = throttle {
            self.queue.throttle(label, is_throttled);
        }
    }

    /// Lets a label have its turns again, unless it is at its cap.
    pub(super) fn unthrottle(&mut self, label: LabelId) {
        if !self.quotas.label(label).is_full {
            self.queue.throttle(label, false);
        }
    }

    /// Returns the label of this name. From now on, counts and journal entries of its number are about this label.
    pub(super) fn intern(&mut self, now: Timestamp, class: RuleClassId, subject: &Subject<'_>) -> LabelId {
        let (id, is_new) = self.quotas.intern(now, class, subject);
        if is_new {
            let event = Event::Named(id, name_of(&self.quotas, id), self.quotas.plans());
            self.telemetry.take(now, event, self.gauges());
        }
        id
    }

    /// Opens the metrics of the labels that settings name.
    pub(crate) fn open_label_metrics(&mut self) {
        let Self { quotas, telemetry, .. } = self;
        telemetry.open_label_metrics(quotas.plans(), quotas.ids().map(|id| (id, name_of(quotas, id))));
    }

    /// Returns the token of a slot that was taken.
    #[inline(always)]
    pub(super) fn slot(&mut self, now: Timestamp, class: ClassId, holder: Holder, in_flight: u32) -> Slot {
        let telemetry = &self.telemetry;
        let ttl = self.slot_ttl.issue(now, holder, || telemetry.label_metrics_of(holder.label));
        Slot::counted(now, in_flight, holder, class, ttl)
    }
}

fn name_of(quotas: &Quotas, id: LabelId) -> Named<'_> {
    let label = quotas.label(id);
    if label.is_overflow {
        Named::Overflow
    } else if label.name.is_empty() {
        Named::Nobody
    } else {
        Named::Label { class: label.class, namespace: label.namespace, label: label.name }
    }
}
