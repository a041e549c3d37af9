//! Requests that got a slot and have to ask for the consent of a store before they run, since some of their rules are
//! counted for all instances.
//!
//! Who asks is a waiter that was granted a slot and hasn't fetched it. From there it goes one of three ways: the slot is
//! [claimed](Engine::claim) as any other; it is [denied](Engine::deny); or, where the rule that has no room lets its label
//! wait, it is [put back](Engine::put_back) to where it stood in line, without a slot. Its label is closed then: the others
//! go on, and of the label nobody takes a slot until it is worth [looking again](Engine::look_again). Then one of it asks,
//! and the next one when that was let in: however many wait, one asks at a time.

use std::{sync::Arc, time::Duration};

use super::{
    Arrival, Ask, Engine, Place, Refusal,
    journal::{Cause, Verdict},
    labels::LabelId,
    plan::Mode,
    rules::{Closed, Consent, Counted, Full, SharedRules, WhenFull},
    runs,
    slot::BEYOND,
    tenure::Holder,
    waiters::{Key, Stage, Waiter},
};
use crate::{rejection::Reason, time::Timestamp};

/// A shared rule that has no room, as whoever asked was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRoom {
    /// Which it is. Not its index: the rules may have been replaced while the store was asked.
    pub(crate) rule: Counted,
    /// When there is room again, if time alone makes some.
    pub(crate) retry_after: Option<Duration>,
}

impl Engine {
    /// The rules that requests of a label have to ask for before they run.
    pub(super) fn has_to_ask(&self, label: LabelId) -> Option<Arc<SharedRules>> {
        if !self.rules.are_shared || self.mode != Mode::Enforce {
            return None;
        }
        self.consent(label).map(|consent| Arc::clone(&consent.rules))
    }

    pub(super) fn consent(&self, label: LabelId) -> Option<&Consent> {
        self.labels.get(label).account.as_ref()?.consent.as_deref()
    }

    pub(super) fn consent_mut(&mut self, label: LabelId) -> Option<&mut Consent> {
        self.labels.get_mut(label).account.as_mut()?.consent.as_deref_mut()
    }

    /// A request that took a slot, and has to ask before it runs.
    #[cold]
    pub(super) fn ask_first(
        &mut self,
        now: Timestamp,
        ask: &Ask<'_>,
        holder: Holder,
        in_flight: u32,
        rules: Arc<SharedRules>,
    ) -> Arrival {
        self.sequence += 1;
        let mut waiter = Waiter::new(ask, holder.label, runs::NONE, self.sequence, now);
        (waiter.stage, waiter.shadow) = (Stage::Granted { in_flight, until: None }, holder.shadow);
        match self.waiting.insert(waiter) {
            Some(key) => Arrival::Ask(Place(key), rules),
            None => {
                self.vacate(holder);
                Arrival::Reject(self.refuse(now, ask.partition, holder.label, Reason::QueueFull))
            }
        }
    }

    /// Notes that a request that asked runs now.
    pub(super) fn note_consent(&mut self, now: Timestamp, key: Key, stood: bool) {
        let (party, holder) = (self.waiting.get(key).party(), self.waiting.get(key).holder());
        self.note_answer(now, holder.label, true);
        if stood {
            self.note(now, Verdict::GRANTED, party, Cause::NOTHING);
        } else {
            self.note_admitted(now, holder);
        }
    }

    /// The rules that a request which was granted a slot has to ask for before it [claims](Self::claim) that.
    pub(crate) fn has_to_ask_for(&self, place: &Place) -> Option<Arc<SharedRules>> {
        if !self.rules.are_shared {
            return None;
        }
        let waiter = self.waiting.get(place.0);
        if matches!(waiter.stage, Stage::Granted { .. }) { self.has_to_ask(waiter.label) } else { None }
    }

    /// The label of a request that waits.
    pub(crate) fn label_at(&self, place: &Place) -> LabelId {
        self.waiting.get(place.0).label
    }

    /// One of a label was let in, or left before it knew: the next one may ask.
    pub(super) fn next_may_ask(&mut self, label: LabelId) {
        if let Some(closed) = self.consent_mut(label).and_then(|consent| consent.closed.as_mut()) {
            closed.one_may_ask = true;
            self.stand_in_line(label);
        }
    }

    /// Turns away a request that asked: a shared rule has no room.
    pub(crate) fn deny(&mut self, now: Timestamp, place: &Place, no_room: NoRoom) -> Refusal {
        let now = self.advance(now);
        let (partition, label) = self.give_up(now, place.0);
        self.note_answer(now, label, true);
        let until = no_room.retry_after.map(|after| now.after(after));
        let rule = self.consent(label).and_then(|consent| consent.rules.find(no_room.rule));
        let party = self.waiting.get(place.0).party();
        let refusal = match rule {
            Some((index, rule)) => {
                let (when_full, bound) = (rule.when_full, rule.most());
                if let Some(consent) = self.consent_mut(label) {
                    // Until then, nobody need ask.
                    let known = until.filter(|_| when_full != WhenFull::Queue);
                    consent.barred = known.map(|until| (index, until)).or(consent.barred);
                }
                let full = Full { reason: rule.reason(), when_full, until, bound, meter: None };
                let cause = self.cause_of_rule(now, label, &full);
                self.note(now, Verdict::rejected(full.reason), party, cause);
                self.refuse_by(now, partition, label, full)
            }
            // The rules were replaced meanwhile.
            None => self.refuse(now, partition, label, Reason::Limit),
        };
        self.leave_for_good(now, place.0, label);
        refusal
    }

    /// Turns away a request that could not ask, since the store is gone and one of its rules is closed then.
    pub(crate) fn deny_without_store(
        &mut self,
        now: Timestamp,
        place: &Place,
        retry_after: Option<Duration>,
    ) -> Refusal {
        let now = self.advance(now);
        let (partition, label) = self.give_up(now, place.0);
        self.note_answer(now, label, false);
        let fails_fast = self.labels.get(label).account.as_ref().is_some_and(|it| it.rules.pending.is_some());
        let reason = if fails_fast { Reason::PendingUnavailable } else { Reason::StoreUnavailable };
        let party = self.waiting.get(place.0).party();
        self.note_ended(now, party, reason);
        let refusal = self.refuse(now, partition, label, reason);
        let empty = self.consent(label).and_then(|consent| consent.rules.closes()) == Some(WhenFull::RespondEmpty);
        // Those who wait find out for themselves, one after the other.
        self.leave_for_good(now, place.0, label);
        Refusal { retry_after: retry_after.unwrap_or(refusal.retry_after), empty, ..refusal }
    }

    /// Lets a request that asked wait for a shared rule that has no room, without its slot. Answers why it can't wait.
    ///
    /// It stands where it stood before, and no longer than it would have; if it had not waited yet, it begins to.
    pub(crate) fn put_back(&mut self, now: Timestamp, place: &Place, no_room: NoRoom) -> Result<(), Refusal> {
        let now = self.advance(now);
        let key = place.0;
        let &Waiter { stage, label, caller_deadline, .. } = self.waiting.get(key);
        let Stage::Granted { until, .. } = stage else { return Ok(()) };
        let one = self.labels.get(label);
        let no_place = (!one.name.is_empty() && one.waiting >= self.labels.plan().max_waiting)
            || self.line.places.count(self.limit) == 0;
        if caller_deadline <= now || (until.is_none() && no_place) {
            return Err(self.deny(now, place, no_room));
        }
        if self.closed && !self.serves_waiting {
            let (partition, label) = self.give_up(now, key);
            let party = self.waiting.get(key).party();
            self.note_ended(now, party, Reason::Draining);
            let refusal = self.refuse(now, partition, label, Reason::Draining);
            self.leave_for_good(now, key, label);
            return Err(refusal);
        }
        self.note_answer(now, label, true);
        if let Some(consent) = self.consent_mut(label) {
            let until = no_room.retry_after.map_or(Timestamp::NEVER, |after| now.after(after));
            // Where there is no such rule any more, nothing is known of those that there are: it asks for them anew.
            let found = consent.rules.find(no_room.rule).filter(|(_, rule)| rule.when_full == WhenFull::Queue);
            if let Some((rule, _)) = found {
                consent.closed = Some(Closed { rule, until, one_may_ask: false });
            }
        }
        self.give_up(now, key);
        self.change(label, |label| label.waiting += 1);
        self.enlist_again(now, key, until);
        if let Some(full) = self.full_rule(now, label) {
            self.park(now, label, full);
        }
        self.settle(now);
        Ok(())
    }

    /// It may be worth asking again for a label that waits for this kind of shared rule. Answers whether it still waits
    /// for it.
    pub(crate) fn look_again(&mut self, now: Timestamp, label: LabelId, counted: Counted) -> bool {
        let now = self.advance(now);
        let waits = self.labels.get(label).waiting > 0;
        let Some(consent) = self.consent_mut(label) else { return false };
        let Some(closed) = &mut consent.closed else { return false };
        if consent.rules.rules.get(closed.rule).is_none_or(|rule| rule.counts != counted) {
            return false;
        }
        if !waits {
            consent.closed = None;
            return false;
        }
        closed.one_may_ask = true;
        self.stand_in_line(label);
        self.settle(now);
        true
    }

    /// Gives back the slot of a request that asked, as if it had never had it.
    fn give_up(&mut self, now: Timestamp, key: Key) -> (u16, LabelId) {
        let waiter = self.waiting.get_mut(key);
        let (holder, _) = (waiter.holder(), std::mem::take(&mut waiter.shadow));
        let one = self.labels.get_mut(holder.label);
        one.admitted = one.admitted.saturating_sub(1);
        self.rules.refund(now, one, holder.shadow & BEYOND != 0);
        self.vacate(holder);
        (holder.partition, holder.label)
    }

    /// Puts a waiter that had a slot and gave it back to where it stood in line, for as long as it could have waited; if
    /// it had not waited yet, its wait starts now.
    fn enlist_again(&mut self, now: Timestamp, key: Key, until: Option<Timestamp>) {
        if self.in_line == 0 {
            self.last_empty = now;
        }
        self.in_line += 1;
        let label = self.waiting.get(key).label;
        self.waiting.enlist_again(key, self.labels.standing(label));
        self.begin_wait(now, key, Stage::Line);
        if let Some(until) = until {
            self.waiting.get_mut(key).deadline = until;
            self.deadlines.set(key.index, until);
        }
    }

    fn leave_for_good(&mut self, now: Timestamp, key: Key, label: LabelId) {
        self.waiting.remove(key);
        self.next_may_ask(label);
        self.settle(now);
    }
}
