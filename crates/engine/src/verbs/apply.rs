//! What was decided about a request that arrives is done.

use std::sync::Arc;

use crate::{
    Engine, Reason, Timestamp,
    ids::{LabelId, Level, TtlId},
    plan::rules::WhenFull,
    telemetry::{Decided, Event},
    tokens::{Arrival, Ask, Claim, DryRunOutcome, Holder, Marks, Place, RequestRef, SharedRules, Slot, Spot, Stage},
    verbs::decide::{Decision, Obstacle},
};

impl Engine {
    /// Does what was decided about a request that arrives: the only place, but for plain requests that run or wait.
    #[inline(never)]
    pub(super) fn apply(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        decision: Decision,
        may_wait: bool,
    ) -> Arrival {
        match decision {
            Decision::Run { over_limit } => self.run(now, ask, label, over_limit, may_wait),
            Decision::RunUncounted => Arrival::Admit(self.run_uncounted(now, ask, label)),
            Decision::Wait(spot) => self.wait(now, ask, label, spot),
            Decision::Reject(obstacle) => Arrival::Reject(self.reject(now, ask, label, &obstacle, may_wait)),
        }
    }

    /// Runs a request that nothing stops that binds. What observes is told what it would have done.
    #[inline]
    fn run(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, over_limit: bool, may_wait: bool) -> Arrival {
        let (marks, dry_run) = match self.observed(now, label, true) {
            Some(full) => self.count_over_quota(now, self.request_of(now, ask, label), full, may_wait),
            None if over_limit => {
                let (_, dry_run) = self.tell_dry_run(self.request_of(now, ask, label), ask, may_wait);
                (Marks::OVER_QUOTA.with(Marks::OVER_LIMIT), dry_run)
            }
            None => (Marks::NONE, DryRunOutcome::NOTHING),
        };
        self.start::<false>(now, ask, label, marks, dry_run)
    }

    /// Starts a request that may run, or has it ask a store first. `marks` are those of what it exceeds, with what would have become
    /// of it.
    #[inline(always)]
    pub(super) fn start<const PLAIN: bool>(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        label: LabelId,
        marks: Marks,
        dry_run: DryRunOutcome,
    ) -> Arrival {
        let mut holder = Holder { partition: ask.partition, label, level: Level::of(ask.criticality), marks };
        let in_flight = self.take_slots(&mut holder, 1, Some(now));
        if label != LabelId::DEFAULT {
            let served = self.queue.served(ask.partition, holder.level);
            self.quotas.charge(now, &holder, Some(served));
        }
        if !PLAIN && let Some(rules) = self.needs_remote(label) {
            return self.begin_remote(now, ask, holder, in_flight, dry_run, rules);
        }
        self.tell(now, Event::Admitted(RequestRef::new(now, ask.partition, label)));
        #[cfg(test)]
        self.check();
        let slot = if PLAIN {
            Slot::counted(now, in_flight, holder, ask.class, TtlId::NONE)
        } else {
            Slot { dry_run, ..self.slot(now, ask.class, holder, in_flight) }
        };
        Arrival::Admit(slot.until(ask.deadline))
    }

    /// Has a request that has a slot ask a store before it runs.
    #[cold]
    fn begin_remote(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        holder: Holder,
        in_flight: u32,
        dry_run: DryRunOutcome,
        rules: Arc<SharedRules>,
    ) -> Arrival {
        let request = self.request_of(now, ask, holder.label);
        self.record(now, request, Decided::Asks);
        let has = Some((in_flight, holder.marks, dry_run));
        match self.queue.join(now, ask, holder.label, has, self.telemetry.wants(now).journal) {
            Some(key) => Arrival::Ask(Place::new(key), rules),
            None => {
                self.record(now, request, Decided::GaveBack);
                self.release(&holder);
                Arrival::Reject(self.reject(now, ask, holder.label, &Obstacle::new(Reason::QueueFull), false))
            }
        }
    }

    /// Gives a request its place in line or at the gate.
    #[cold]
    pub(super) fn wait(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, spot: Spot) -> Arrival {
        let Spot { mut stage, victim, mut claim } = spot;
        // An observing rule that would reject the request: rejected, it would not have waited.
        let observed = self.observed(now, label, true).filter(|full| full.when_full != WhenFull::Queue);
        let Some(key) = self.queue.join(now, ask, label, None, self.telemetry.wants(now).journal) else {
            return Arrival::Reject(self.reject(now, ask, label, &Obstacle::new(Reason::QueueFull), true));
        };
        if let Some(victim) = victim {
            self.end_wait(now, victim, &self.why_it_leaves(now, victim, Reason::PushedOut));
        }
        // A place in a full line is for the waiter of the flow that came first, which may be at the gate.
        if (victim.is_some() || claim != Claim::None)
            && let Some(first) = self.queue.first_at_gate(Some(self.queue.get(key).flow_key()))
        {
            self.enter_line(now, first);
            (stage, claim) = (Stage::Gate, Claim::None);
        }
        let throttle = self.quotas.waits(label, observed.is_some());
        self.throttle(label, throttle);
        if claim == Claim::Beyond {
            self.capacity.pay(ask.partition, self.estimates.hold().reservation_time());
        }
        self.stand(now, key, stage, claim);
        let blocker = self.if_noted(|engine| engine.blocker_of_slot(now, ask.partition, label));
        self.record(now, self.request_of(now, ask, label), Decided::Queued(blocker));
        if let Some(full) = observed {
            let dry_run = self.record_dry_run(now, self.queue.get(key).request(), Err(full.into()));
            self.queue.mark(key, Marks::OVER_QUOTA, dry_run);
        }
        if self.quotas.has_rules().any {
            // The waiter's turn may have come already, with only a rule in the way: the driver has to know when that
            // ends.
            self.dispatch(now);
        }
        #[cfg(test)]
        self.check();
        Arrival::Wait(Place::new(key))
    }
}
