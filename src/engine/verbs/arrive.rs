//! How a request arrives.

use crate::{
    engine::{
        Engine,
        ids::{ClassId, LabelId, LabelMetricsId, Level, PartitionId, RuleClassId, TtlId},
        tokens::{Arrival, Ask, Holder, Marks, Refusal, Slot, Subject},
        verbs::decide::Obstacle,
    },
    time::Timestamp,
};

impl Engine {
    /// Lets a request arrive that waits where it has to.
    pub(crate) fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        self.come::<true>(now, ask)
    }

    /// Lets a request arrive that doesn't wait.
    pub(crate) fn arrive_now(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if self.lifecycle.enforces() { self.come::<false>(now, ask) } else { self.come::<true>(now, ask) }
    }

    #[inline]
    fn come<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let now = self.advance(now);
        match self.queue.deadline_for(now, ask) {
            None => self.come_by::<MAY_WAIT>(now, ask),
            Some(deadline) => self.come_by_default::<MAY_WAIT>(now, ask, deadline),
        }
    }

    /// The same for a request that has this deadline because it came without one.
    #[inline(never)]
    fn come_by_default<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>, deadline: Timestamp) -> Arrival {
        self.come_by::<MAY_WAIT>(now, &Ask { deadline, ..*ask })
    }

    #[inline]
    fn come_by<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if let Some(slot) = self.admit_plainly(now, ask) {
            return Arrival::Admit(slot);
        }
        if MAY_WAIT && let Some(refusal) = self.reject_plainly(now, ask) {
            return Arrival::Reject(refusal);
        }
        let ask = &Ask { partition: self.capacity.in_force(ask.partition), ..*ask };
        if self.lifecycle.is_off() {
            return Arrival::Admit(Slot::uncounted(now, ask.partition, LabelMetricsId::NONE, Marks::OBSERVED));
        }
        let label = self.label_of(now, ask);
        self.telemetry.arrived(ask.partition, label);
        self.catch_up(now);
        let decision = self.decide(now, ask, label, MAY_WAIT);
        self.apply(now, ask, label, decision, MAY_WAIT)
    }

    /// Serves those that came first: waiters for a rule that has room by now, or for a slot that is not held back any more.
    #[inline]
    fn catch_up(&mut self, now: Timestamp) {
        let is_due = self.capacity.next_decay() <= now || (self.quotas.has_rules() && self.quotas.next_room() <= now);
        if is_due && !self.lifecycle.is_draining() {
            self.dispatch(now);
        }
    }

    /// A slot for a request that is asked for nothing else, if its partition has one and its label is below its cap: what the
    /// other way would do, without the questions whose answers are known.
    #[inline]
    fn admit_plainly(&mut self, now: Timestamp, ask: &Ask<'_>) -> Option<Slot> {
        if !self.extras.are_none() {
            return None;
        }
        let partition = self.capacity.in_force(ask.partition);
        if self.capacity.has_reserved() || ask.deadline <= now || !self.capacity.may_run(partition, Ask::COST) {
            return None;
        }
        let level = Level::of(ask.criticality);
        let label = match &ask.subject {
            None => {
                self.quotas.started_plainly(Ask::COST);
                LabelId::DEFAULT
            }
            Some(subject) => self.start_label(now, partition, level, subject)?,
        };
        let in_flight = self.capacity.take_plainly(now, partition, level, Ask::COST);
        self.estimates.started(now);
        self.telemetry.admitted_plainly(now, partition, label, self.gauges());
        #[cfg(test)]
        self.check();
        let holder = Holder { partition, label, level, marks: Marks::NONE };
        Some(Slot::counted(now, in_flight, holder, ask.class, TtlId::NONE).until(ask.deadline))
    }

    /// Counts a request of a label that is asked for nothing but its cap, unless as many requests of the label run as may.
    fn start_label(
        &mut self,
        now: Timestamp,
        partition: PartitionId,
        level: Level,
        subject: &Subject<'_>,
    ) -> Option<LabelId> {
        let label = self.intern(now, RuleClassId::OTHERS, subject);
        if self.quotas.is_full(label) {
            return None;
        }
        let served = self.queue.served(partition, level);
        let throttle = self.quotas.started_at_once(now, label, served, Ask::COST);
        self.throttle(label, throttle);
        Some(label)
    }

    /// The rejection of a request that is asked for nothing else, where no request waits and its partition has no slot: what
    /// the other way would do, without the questions whose answers are known.
    fn reject_plainly(&mut self, now: Timestamp, ask: &Ask<'_>) -> Option<Refusal> {
        if !self.extras.are_none() || ask.subject.is_some() || self.queue.takes_any(self.capacity.limit()) {
            return None;
        }
        let ask = &Ask { partition: self.capacity.in_force(ask.partition), ..*ask };
        let partition = ask.partition;
        if self.capacity.has_reserved()
            || ask.deadline <= now
            || self.capacity.may_run(partition, Ask::COST)
            || self.claim_of_partition(partition).is_some()
        {
            return None;
        }
        self.telemetry.arrived(partition, LabelId::DEFAULT);
        let obstacle = Obstacle::new(self.reason_for_rejecting(partition, LabelId::DEFAULT));
        Some(self.reject(now, ask, LabelId::DEFAULT, obstacle, true))
    }

    /// Like [`arrive_now`](Self::arrive_now), where no request has to ask a store.
    #[cfg(test)]
    pub(crate) fn arrive_without_waiting(&mut self, now: Timestamp, ask: &Ask<'_>) -> Result<Slot, Refusal> {
        match self.arrive_now(now, ask) {
            Arrival::Admit(slot) => Ok(slot),
            Arrival::Reject(refusal) => Err(refusal),
            Arrival::Ask(..) | Arrival::Wait(_) => unreachable!("no request waits or has to ask"),
        }
    }

    /// Returns the number of a kind of work, for [`Ask::class`]: times are compared within their kind.
    pub(crate) fn class(&mut self, name: &str) -> ClassId {
        self.controller.class(name)
    }

    /// Returns the label of a request.
    #[inline]
    pub(in crate::engine) fn label_of(&mut self, now: Timestamp, ask: &Ask<'_>) -> LabelId {
        let class = self.quotas.class_of(ask.class);
        if class != RuleClassId::OTHERS {
            self.telemetry.see_class(class);
        }
        match &ask.subject {
            Some(subject) => self.intern(now, class, subject),
            // What a class allows as a whole holds for requests without a label as well.
            None if self.quotas.has_rules() => self.intern(now, class, &Subject::NOBODY),
            None => LabelId::DEFAULT,
        }
    }
}
