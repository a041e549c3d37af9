//! What becomes of a request that arrives.

#[cfg(test)]
use crate::engine::Refusal;
use crate::engine::{
    Arrival, Ask, Engine, Slot, Subject,
    ids::LabelId,
    ids::SeriesId,
    labels::{UNNAMED, one_turn},
    plan::Mode,
    slot::{OBSERVED, OUTSIDE},
    tokens::Holder,
};
use crate::time::Timestamp;

impl Engine {
    /// A request arrives.
    pub(crate) fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        if self.lifecycle.is_off() {
            return Arrival::Admit(Slot::uncounted(now, ask.partition, SeriesId::NONE, OBSERVED));
        }
        let label = self.label_of(now, ask);
        self.tally(label, |series| series.requests += 1);
        if self.lifecycle.is_draining() {
            return Arrival::Reject(self.refuse_closed(now, ask, label));
        }
        if self.may_start(now, ask, label) {
            return self.start(now, ask, label, true);
        }
        if let Some(arrival) = self.let_through(now, ask, label, true) {
            return arrival;
        }
        self.queue_or_refuse(now, ask, label)
    }

    /// Like [`arrive`](Self::arrive) for a request that doesn't wait.
    pub(crate) fn arrive_now(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        if !self.lifecycle.enforces() {
            return self.arrive(now, ask);
        }
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        let label = self.label_of(now, ask);
        self.tally(label, |series| series.requests += 1);
        if !self.lifecycle.is_draining() && self.may_start(now, ask, label) {
            return self.start(now, ask, label, false);
        }
        if let Some(arrival) = self.let_through(now, ask, label, false) {
            return arrival;
        }
        Arrival::Reject(self.refuse_at_once(now, ask, label))
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
        self.decay_due(now);
        if !self.quotas.rules.is_empty() && self.next_rate() <= now {
            // Those who waited for a rate that has room by now came first.
            self.settle(now);
        }
        let in_time = ask.deadline > now || !self.lifecycle.enforces();
        in_time && self.stopped_by(now, label).is_none() && self.may_run(ask, label)
    }

    /// Lets a request run that may, or lets it ask.
    pub(crate) fn occupy(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, shadow: u8) -> Arrival {
        let mut holder = Holder { partition: ask.partition, label, level: ask.criticality.level(), shadow };
        let in_flight = self.take_slot(&mut holder);
        if label != LabelId::DEFAULT {
            // It is its turn now as if it had waited for it.
            let served = self.queue.waiting.served(ask.partition, ask.criticality.level());
            let one = self.quotas.labels.get_mut(label);
            one.admitted += 1;
            one.stall.started(now);
            one.start = one_turn(served, one.rule.weight);
        }
        self.charge(now, holder);
        if shadow & OUTSIDE == 0 {
            self.note_started(now, ask.partition);
        }
        if let Some(rules) = self.has_to_ask(label) {
            return self.ask_first(now, ask, holder, in_flight, rules);
        }
        self.capacity.partitions[ask.partition as usize].counts.admitted += 1;
        self.note_admitted(now, holder);
        Arrival::Admit(self.lend(now, ask.class, holder, in_flight))
    }

    /// Notes that a request took a slot of the limit.
    #[inline]
    pub(crate) fn note_started(&mut self, now: Timestamp, partition: u16) {
        self.estimates.started(now);
        self.capacity.partitions[partition as usize].stall.started(now);
    }

    /// Whether nothing is decided or counted. A handle that drains is not reopened by any mode.
    const fn is_off(&self) -> bool {
        matches!(self.lifecycle.mode(), Mode::Off) && !self.lifecycle.is_draining()
    }

    /// Counts a request. What comes for a partition that was taken out of the settings goes to the default one.
    fn redirect<'a>(&mut self, ask: &Ask<'a>) -> Ask<'a> {
        let retired = self.capacity.partitions[ask.partition as usize].retired;
        let ask = Ask { partition: if retired { 0 } else { ask.partition }, ..*ask };
        if !self.lifecycle.is_off() {
            self.capacity.partitions[ask.partition as usize].counts.arrived += 1;
        }
        ask
    }

    pub(crate) fn label_of(&mut self, now: Timestamp, ask: &Ask<'_>) -> LabelId {
        let class = self.quotas.rules.class_of(ask.class);
        if class > 0 {
            self.telemetry.met.note(class);
        }
        match &ask.subject {
            Some(subject) => self.intern(now, class, subject),
            // What a class allows as a whole holds for those without a label as well.
            None if !self.quotas.rules.is_empty() => self.intern(now, class, &Subject::NOBODY),
            None => LabelId::DEFAULT,
        }
    }

    /// The label of this name. What the journal says of its number from now on is about this one.
    pub(crate) fn intern(&mut self, now: Timestamp, class: u8, subject: &Subject<'_>) -> LabelId {
        let id = self.quotas.labels.intern(now, class, subject, &mut self.quotas.rules);
        let label = self.quotas.labels.get_mut(id);
        if label.named_from == UNNAMED {
            label.named_from = self.telemetry.journal.sequence() + 1;
            self.find_series(id);
        }
        id
    }
}
