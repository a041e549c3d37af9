//! What becomes of a request that arrives.

#[cfg(test)]
use super::Refusal;
use super::{
    Arrival, Ask, Engine, Slot, Subject,
    labels::{LabelId, one_turn},
    plan::Mode,
    slot::OBSERVED,
    tenure::Holder,
};
use crate::{rejection::Reason, time::Timestamp};

impl Engine {
    /// A request arrives.
    pub(crate) fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        if self.mode == Mode::Off {
            return Arrival::Admit(Slot::uncounted(now, ask.partition, OBSERVED));
        }
        let label = self.label_of(now, ask);
        if self.closed {
            return Arrival::Reject(self.refuse(now, ask.partition, label, Reason::Draining));
        }
        if self.may_start(now, ask, label) {
            if let Some(rules) = self.has_to_ask(label) {
                return self.ask_first(now, ask, label, rules);
            }
            return Arrival::Admit(self.occupy(now, ask, label));
        }
        self.queue_or_refuse(now, ask, label)
    }

    /// Like [`arrive`](Self::arrive) for a request that doesn't wait.
    pub(crate) fn arrive_now(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if self.mode != Mode::Enforce {
            return self.arrive(now, ask);
        }
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        let label = self.label_of(now, ask);
        if self.closed || !self.may_start(now, ask, label) {
            return Arrival::Reject(self.refuse_at_once(now, ask, label));
        }
        if let Some(rules) = self.has_to_ask(label) {
            return self.ask_first(now, ask, label, rules);
        }
        Arrival::Admit(self.occupy(now, ask, label))
    }

    /// The same where nobody has to ask.
    #[cfg(test)]
    pub(crate) fn arrive_without_waiting(&mut self, now: Timestamp, ask: &Ask<'_>) -> Result<Slot, Refusal> {
        match self.arrive_now(now, ask) {
            Arrival::Admit(slot) => Ok(slot),
            Arrival::Reject(refusal) => Err(refusal),
            Arrival::Ask(..) | Arrival::Wait(_) => unreachable!("nobody waits or has to ask"),
        }
    }

    /// Whether a request that arrives may run at once.
    fn may_start(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> bool {
        if !self.rules.is_empty() && self.next_rate() <= now {
            // Those who waited for a rate that has room by now came first.
            self.settle(now);
        }
        let in_time = ask.deadline > now || self.mode != Mode::Enforce;
        in_time && self.stopped_by(now, label).is_none() && self.finds_room(now, ask, label)
    }

    /// Lets a request run that may.
    fn occupy(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Slot {
        let in_flight = self.seat(now, ask, label);
        self.partitions[ask.partition as usize].counts.admitted += 1;
        let holder = Holder { partition: ask.partition, label, level: ask.criticality.level() };
        self.lend(now, ask.class, holder, in_flight)
    }

    /// Takes a slot for a request that arrives, and charges it to all rules. Answers how many run then.
    #[inline]
    pub(super) fn seat(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> u32 {
        let holder = Holder { partition: ask.partition, label, level: ask.criticality.level() };
        let in_flight = self.take_slot(holder);
        if label != LabelId::DEFAULT {
            // It is its turn now as if it had waited for it.
            let served = self.waiting.served(ask.partition, ask.criticality.level());
            let one = self.labels.get_mut(label);
            one.admitted += 1;
            one.start = one_turn(served, one.rule.weight);
        }
        self.charge(now, label);
        self.drain.started(now);
        in_flight
    }

    /// What comes for a partition that was taken out of the settings goes to the default one.
    fn redirect<'a>(&self, ask: &Ask<'a>) -> Ask<'a> {
        let retired = self.partitions[ask.partition as usize].retired;
        Ask { partition: if retired { 0 } else { ask.partition }, ..*ask }
    }

    pub(super) fn label_of(&mut self, now: Timestamp, ask: &Ask<'_>) -> LabelId {
        let class = self.rules.class_of(ask.class);
        match &ask.subject {
            Some(subject) => self.labels.intern(now, class, subject, &mut self.rules),
            // What a class allows as a whole holds for those without a label as well.
            None if !self.rules.is_empty() => self.labels.intern(now, class, &Subject::NOBODY, &mut self.rules),
            None => LabelId::DEFAULT,
        }
    }
}
