//! What becomes of a request that arrives.

#[cfg(test)]
use super::Refusal;
use super::{
    Arrival, Ask, Engine, Slot, Subject,
    labels::{LabelId, UNNAMED, one_turn},
    plan::Mode,
    series::SeriesId,
    slot::{OBSERVED, OUTSIDE},
    tenure::Holder,
};
use crate::time::Timestamp;

impl Engine {
    /// A request arrives.
    pub(crate) fn arrive(&mut self, now: Timestamp, ask: &Ask<'_>) -> Arrival {
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        if self.is_off() {
            return Arrival::Admit(Slot::uncounted(now, ask.partition, SeriesId::NONE, OBSERVED));
        }
        let label = self.label_of(now, ask);
        self.tally(label, |series| series.requests += 1);
        if self.closed {
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
        if self.mode != Mode::Enforce {
            return self.arrive(now, ask);
        }
        let now = self.advance(now);
        let ask = &self.redirect(ask);
        let label = self.label_of(now, ask);
        self.tally(label, |series| series.requests += 1);
        if !self.closed && self.may_start(now, ask, label) {
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
        if !self.rules.is_empty() && self.next_rate() <= now {
            // Those who waited for a rate that has room by now came first.
            self.settle(now);
        }
        let in_time = ask.deadline > now || self.mode != Mode::Enforce;
        in_time && self.stopped_by(now, label).is_none() && self.may_run(ask, label)
    }

    /// Lets a request run that may, or lets it ask.
    pub(super) fn occupy(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, shadow: u8) -> Arrival {
        let mut holder = Holder { partition: ask.partition, label, level: ask.criticality.level(), shadow };
        let in_flight = self.take_slot(&mut holder);
        if label != LabelId::DEFAULT {
            // It is its turn now as if it had waited for it.
            let served = self.waiting.served(ask.partition, ask.criticality.level());
            let one = self.labels.get_mut(label);
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
        self.partitions[ask.partition as usize].counts.admitted += 1;
        self.note_admitted(now, holder);
        Arrival::Admit(self.lend(now, ask.class, holder, in_flight))
    }

    /// Notes that a request took a slot of the limit.
    #[inline]
    pub(super) fn note_started(&mut self, now: Timestamp, partition: u16) {
        self.drain.stall.started(now);
        self.partitions[partition as usize].stall.started(now);
    }

    /// Whether nothing is decided or counted. A handle that drains is not reopened by any mode.
    const fn is_off(&self) -> bool {
        matches!(self.mode, Mode::Off) && !self.closed
    }

    /// Counts a request. What comes for a partition that was taken out of the settings goes to the default one.
    fn redirect<'a>(&mut self, ask: &Ask<'a>) -> Ask<'a> {
        let retired = self.partitions[ask.partition as usize].retired;
        let ask = Ask { partition: if retired { 0 } else { ask.partition }, ..*ask };
        if !self.is_off() {
            self.partitions[ask.partition as usize].counts.arrived += 1;
        }
        ask
    }

    pub(super) fn label_of(&mut self, now: Timestamp, ask: &Ask<'_>) -> LabelId {
        let class = self.rules.class_of(ask.class);
        if class > 0 {
            self.met.note(class);
        }
        match &ask.subject {
            Some(subject) => self.intern(now, class, subject),
            // What a class allows as a whole holds for those without a label as well.
            None if !self.rules.is_empty() => self.intern(now, class, &Subject::NOBODY),
            None => LabelId::DEFAULT,
        }
    }

    /// The label of this name. What the journal says of its number from now on is about this one.
    pub(super) fn intern(&mut self, now: Timestamp, class: u8, subject: &Subject<'_>) -> LabelId {
        let id = self.labels.intern(now, class, subject, &mut self.rules);
        let label = self.labels.get_mut(id);
        if label.named_from == UNNAMED {
            label.named_from = self.journal.sequence() + 1;
            self.find_series(id);
        }
        id
    }
}
