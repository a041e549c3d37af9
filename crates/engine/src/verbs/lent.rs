//! Slots that the engine lends, so that requests enter and leave without it while all is quiet.
//!
//! Lent slots count as running. So the limit holds, also where requests race for them.

use crate::{
    Criticality, Engine, Outcome, Reason, Timestamp,
    extras::Extras,
    ids::{ClassId, LabelId, Level, PartitionId, TtlId},
    telemetry::Event,
    tokens::{Ask, Borrower, Holder, Marks, Refusal, Settled, Slot},
    verbs::decide::Decision,
};

impl Engine {
    /// Whether no request needs a decision: none waits, nothing is held back, starts are not spread, nothing is asked beyond a slot,
    /// and a quarter of the limit is free.
    pub fn is_quiet(&self) -> bool {
        self.extras.are_none_but(Extras::LABEL_METRICS)
            && self.queue.lengths().all() == 0
            && self.notices.waiters.is_empty()
            && !self.capacity.has_reserved()
            && self.capacity.slots().pacing.is_zero()
            && self.capacity.running().saturating_mul(4) <= self.capacity.limit().saturating_mul(3)
    }

    /// Whether no request may start under the limit before a time, or only one after the other.
    pub const fn is_paused(&self) -> bool {
        self.capacity.slots().is_paused || !self.capacity.slots().pacing.is_zero()
    }

    /// Returns the limit.
    pub const fn limit(&self) -> usize {
        self.capacity.limit()
    }

    /// Returns how many requests run under the limit.
    pub const fn running(&self) -> usize {
        self.capacity.running()
    }

    /// Returns the label with this hash to lend slots for: one that is known by its name, in the class of all requests that name
    /// none. The hash is keyed and of 64 bits, so that it stands for the name.
    pub fn label_of_hash(&self, hash: u64) -> Option<LabelId> {
        self.quotas.find_by_hash(hash)
    }

    /// Lends up to `most` slots for requests of the usual importance that ask for nothing else. Returns how many: as many as
    /// requests that arrive together would get.
    pub fn lend(&mut self, borrower: Borrower, most: usize) -> u32 {
        let label = self.quotas.label(borrower.label);
        let most = most.min(label.cap.saturating_sub(label.running));
        let lent = self.capacity.room(borrower.partition, most);
        self.take_slots(&mut Holder::of(borrower), lent, None);
        #[cfg(test)]
        self.check();
        u32::try_from(lent).unwrap_or(u32::MAX)
    }

    /// Returns how many of the `lent` slots of a borrower must not be used again: a bound has shrunk, or its partition was taken
    /// out of the settings.
    pub fn too_many(&self, borrower: Borrower, lent: u32) -> u32 {
        let label = self.quotas.label(borrower.label);
        let it = self.capacity.partition(borrower.partition);
        let of_partition = if it.is_in_force { it.running.saturating_sub(it.cap) } else { usize::MAX };
        let too_many = of_partition.max(label.running.saturating_sub(label.cap));
        u32::try_from(too_many).map_or(lent, |too_many| too_many.min(lent))
    }

    /// Notes whether any request left a lent slot, and when the first of those that run entered since.
    #[inline]
    pub fn note_freed(&mut self, has_freed: bool, busy_since: Option<Timestamp>) {
        self.capacity.note_freed(has_freed, busy_since);
    }

    /// Takes lent slots back, and counts the requests that were admitted to them.
    pub fn settle(&mut self, settled: Settled) {
        let Settled { borrower: Borrower { partition, label }, admitted, back, left, busy_since } = settled;
        self.tell(self.now, Event::AdmittedUnlisted { borrower: settled.borrower, count: admitted });
        let (level, back) = (Level::of(Criticality::default()), back as usize);
        self.capacity.take_back(partition, level, back, left > 0, busy_since);
        let throttle = self.quotas.took_back(&settled, || self.queue.served(partition, level));
        self.throttle(label, throttle);
        if back > 0 && self.queue.lengths().all() > 0 {
            self.dispatch(self.now);
        }
        #[cfg(test)]
        self.check();
    }

    /// Returns the rejection that each further request of a partition gets until something changes, if it asks for nothing but
    /// a slot: where its rejection changes nothing but counts.
    pub fn standing_refusal(&self, partition: PartitionId) -> Option<Refusal> {
        let ask = &Ask::of(self.capacity.in_force(partition));
        if !self.extras.are_none() || self.below(ask, LabelId::DEFAULT, true).is_any() {
            return None;
        }
        let Decision::Reject(obstacle) = self.decide::<true>(self.now, ask, LabelId::DEFAULT, true) else {
            return None;
        };
        Some(self.refusal_for(self.now, ask.partition, LabelId::DEFAULT, obstacle.reason))
    }

    /// Returns when time alone may change what requests are told.
    pub fn next_change(&self) -> Timestamp {
        self.next_wakeup().unwrap_or(Timestamp::NEVER).min(self.capacity.next_decay())
    }

    /// Counts requests that were rejected by a [standing refusal](Self::standing_refusal).
    pub fn count_rejected(&mut self, partition: PartitionId, reason: Reason, count: u64) {
        let partition = self.capacity.in_force(partition);
        self.tell(self.now, Event::RejectedUnlisted { partition, reason, count });
        if count > 0 {
            self.controller.rejected(reason, self.capacity.is_full());
        }
    }

    /// Learns for how long a request held a lent slot, if slots were scarce when it left: while `running` requests ran, itself
    /// included, or as many as the engine counts.
    #[inline]
    pub fn learn_hold(&mut self, label: LabelId, start: Timestamp, end: Timestamp, running: u32) {
        if running == 0 {
            self.note_held(end.since(start), label);
        } else if running as usize >= self.capacity.limit() {
            self.estimates.held(end.since(start));
        }
    }

    /// Counts requests on lent slots that ended in a time that is not known: they were not timed, or their samples were
    /// overrun by later ones.
    pub fn count_untimed(&mut self, borrower: Borrower, outcome: Outcome, count: u64) {
        self.tell(self.now, Event::EndedUntimed { borrower, outcome, count });
    }

    /// Returns one in how many requests has to be timed while all is quiet: a power of two.
    pub fn time_one_in(&self) -> u32 {
        self.controller.time_one_in().checked_next_power_of_two().unwrap_or(1 << 31)
    }

    /// Returns the slot of a request that was admitted to a lent one: the engine counts it already.
    pub fn take_over(
        &mut self,
        borrower: Borrower,
        start: Timestamp,
        deadline: Timestamp,
        in_flight: u32,
        is_observed: bool,
    ) -> Slot {
        let slot = Slot::counted(start, in_flight, Holder::of(borrower), ClassId::OTHERS, TtlId::NONE);
        let marks = if is_observed { slot.marks.with(Marks::OBSERVED) } else { slot.marks };
        let slot = Slot { deadline, marks, ..slot };
        self.controller.goes_on(&slot);
        slot
    }

    /// Notes how many requests on lent slots were observed and go on, and how many of these outlast the deadline of their callers.
    pub fn note_lent_answering(&mut self, answering: usize, outlasting: usize) {
        if self.controller.note_lent(answering, outlasting) {
            self.go_on(self.now);
        }
    }
}
