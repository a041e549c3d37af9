//! How a request gets a slot as it comes.

use std::sync::Arc;

use crate::{
    engine::{
        Engine,
        ids::{LabelId, Level},
        telemetry::Event,
        tokens::{Arrival, Ask, DryRunOutcome, ExhaustedRule, Holder, Marks, Place, RequestRef, SharedRules},
    },
    rejection::Reason,
    time::Timestamp,
};

impl Engine {
    /// Gives a slot to a request that may have one, after observing rules are checked.
    #[inline]
    pub(super) fn admit(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, may_wait: bool) -> Arrival {
        if self.observes_rules()
            && let Some(full) = self.observed(now, label, true)
        {
            return self.start_over_quota(now, ask, label, full, may_wait);
        }
        self.start(now, ask, label, Marks::NONE)
    }

    /// Starts a request that may run, or has it ask a store first. `marks` are those of what it exceeds.
    pub(super) fn start(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, marks: Marks) -> Arrival {
        let mut holder = Holder { partition: ask.partition, label, level: Level::of(ask.criticality), marks };
        let in_flight = self.take_slot(&mut holder);
        if label != LabelId::DEFAULT {
            let served = self.queue.served(ask.partition, holder.level);
            self.quotas.served_at_once(now, label, served);
        }
        self.quotas.charge(now, &holder);
        if !marks.has(Marks::OVER_LIMIT) {
            self.note_started(now, ask.partition);
        }
        if let Some(rules) = self.needs_remote(label) {
            return self.begin_remote(now, ask, holder, in_flight, rules);
        }
        self.record(now, RequestRef::new(now, ask.partition, label), Event::Admitted);
        Arrival::Admit(self.slot(now, ask.class, holder, in_flight).until(ask.deadline))
    }

    /// Gives a slot to a request for which an observing rule has no room.
    fn start_over_quota(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        full: ExhaustedRule,
        may_wait: bool,
    ) -> Arrival {
        let request = self.request_of(now, ask, label);
        let (marks, dry_run) = self.count_over_quota(now, request, full, may_wait);
        let arrival = self.start(now, ask, label, marks);
        self.take_along(arrival, dry_run)
    }

    /// Gives a slot over the limit to a request whose partition observes and that nothing else stops.
    #[cold]
    pub(super) fn let_through(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        may_wait: bool,
    ) -> Option<Arrival> {
        if !self.lets_all_through(ask.partition)
            || self.lifecycle.is_draining()
            || ask.deadline <= now
            || self.quotas.is_full(label)
            || self.blocking_rule(now, label).is_some()
        {
            return None;
        }
        if self.observes_rules()
            && let Some(full) = self.observed(now, label, true)
        {
            return Some(self.start_over_quota(now, ask, label, full, may_wait));
        }
        let place = if may_wait {
            self.place_for(now, ask, label).map(drop)
        } else {
            Err(self.reason_for_not_waiting(ask.partition, label))
        };
        let dry_run = DryRunOutcome::have(place, || self.reason_for_not_waiting(ask.partition, label));
        self.reserve_as_if(now, ask, label, place, may_wait);
        self.record_dry_run(now, self.request_of(now, ask, label), place);
        let arrival = self.start(now, ask, label, Marks::OVER_QUOTA.with(Marks::OVER_LIMIT));
        Some(self.take_along(arrival, dry_run))
    }

    /// Attaches to a request that just got a slot what would have become of it.
    fn take_along(&mut self, mut arrival: Arrival, dry_run: DryRunOutcome) -> Arrival {
        match &mut arrival {
            Arrival::Admit(slot) => slot.dry_run = dry_run,
            Arrival::Ask(place, _) => self.queue.take_along(place.key(), dry_run),
            Arrival::Reject(_) | Arrival::Wait(_) => {}
        }
        arrival
    }

    /// Gives a slot to a request that has to ask a store before it runs.
    #[cold]
    pub(super) fn begin_remote(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        holder: Holder,
        in_flight: u32,
        rules: Arc<SharedRules>,
    ) -> Arrival {
        let request = self.request_of(now, ask, holder.label);
        self.record(now, request, Event::Asks);
        match self.queue.grant_to(now, ask, holder.label, (in_flight, holder.marks)) {
            Some(key) => Arrival::Ask(Place::new(key), rules),
            None => {
                self.release(&holder);
                self.record_rejected(now, request, Reason::QueueFull, false);
                Arrival::Reject(self.refusal(now, ask.partition, holder.label, Reason::QueueFull))
            }
        }
    }
}
