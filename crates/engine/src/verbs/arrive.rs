//! How a request arrives.

use crate::{
    Engine, Timestamp,
    ids::{ClassId, LabelId, LabelMetricsId, RuleClassId},
    telemetry::Event,
    tokens::{Arrival, Ask, DryRunOutcome, Marks, Slot, Subject},
    verbs::decide::Decision,
};

impl Engine {
    /// Lets a request arrive that waits where it has to.
    pub fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        self.come::<true>(now, ask)
    }

    /// Lets a request arrive that doesn't wait.
    pub fn arrive_now(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if self.lifecycle.enforces() { self.come::<false>(now, ask) } else { self.come::<true>(now, ask) }
    }

    #[inline]
    fn come<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let now = self.advance(now);
        let partition = self.capacity.in_force(ask.partition);
        match self.queue.plan().default_deadline.filter(|_| ask.deadline == Timestamp::NEVER) {
            None if partition == ask.partition => self.come_in_force::<MAY_WAIT>(now, ask),
            default => {
                let deadline = default.map_or(ask.deadline, |default| now.after(default));
                self.come_changed::<MAY_WAIT>(now, &Ask { partition, deadline, ..*ask })
            }
        }
    }

    /// The same for a request that came without a deadline, or for a partition that was taken out of the settings.
    #[inline(never)]
    fn come_changed<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        self.come_in_force::<MAY_WAIT>(now, ask)
    }

    #[inline]
    fn come_in_force<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if self.extras.are_none() {
            self.come_as::<MAY_WAIT, true>(now, ask)
        } else {
            self.come_with_extras::<MAY_WAIT>(now, ask)
        }
    }

    #[inline(never)]
    fn come_with_extras<const MAY_WAIT: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if self.lifecycle.standing().is_off {
            return Arrival::Admit(Slot::uncounted(now, ask.partition, LabelMetricsId::NONE, Marks::OBSERVED));
        }
        self.come_as::<MAY_WAIT, false>(now, ask)
    }

    /// The way of a request, compiled twice: `PLAIN` where it is asked for nothing but a slot and the cap of its label, without
    /// the questions whose answers are known then.
    #[inline]
    fn come_as<const MAY_WAIT: bool, const PLAIN: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let label = self.label_of::<PLAIN>(now, ask);
        self.tell(now, Event::Arrived { partition: ask.partition, label });
        // Those that came first are served: waiters for a rule that has room by now, or for a slot that is not held back any more.
        let has_room = !PLAIN && self.quotas.has_rules().any && self.quotas.next_room() <= now;
        if (has_room || self.capacity.next_decay() <= now) && (PLAIN || !self.lifecycle.is_draining()) {
            self.dispatch(now);
        }
        match self.decide::<PLAIN>(now, ask, label, MAY_WAIT) {
            Decision::Run { .. } if PLAIN => self.start::<true>(now, ask, label, Marks::NONE, DryRunOutcome::NOTHING),
            Decision::Wait(spot) if PLAIN => self.wait(now, ask, label, spot),
            decision => self.apply(now, ask, label, decision, MAY_WAIT),
        }
    }

    /// Returns the number of a kind of work, for [`Ask::class`]: times are compared within their kind.
    pub fn class(&mut self, name: &str) -> ClassId {
        self.controller.class(name)
    }

    /// Returns the label of a request.
    #[inline]
    pub(crate) fn label_of<const PLAIN: bool>(&mut self, now: Timestamp, ask: &Ask<'_>) -> LabelId {
        let class = if PLAIN { RuleClassId::OTHERS } else { self.quotas.class_of(ask.class) };
        if class != RuleClassId::OTHERS {
            self.tell(now, Event::Met(class));
        }
        match &ask.subject {
            Some(subject) => self.intern(now, class, subject),
            // What a class allows as a whole holds for requests without a label as well.
            None if !PLAIN && self.quotas.has_rules().any => self.intern(now, class, &Subject::NOBODY),
            None => LabelId::DEFAULT,
        }
    }
}
