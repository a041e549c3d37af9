//! Who is turned away, why, and when it is worth coming back.

use std::time::Duration;

use super::{
    Ask, Engine, Refusal,
    fair_queue::FlowKey,
    journal::Party,
    labels::LabelId,
    plan::{Mode, PartitionMode},
    rules::{Full, Rules, WhenFull},
    series::LabelOutcome,
    waiters::{Key, Stage},
};
use crate::{rejection::Reason, time::Timestamp};

/// A prediction has to miss a deadline by this part of the time that is left before it is believed.
const MARGIN: u32 = 10;

impl Engine {
    /// For a request that can't run at once and does not wait.
    #[cold]
    pub(super) fn refuse_at_once(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        if self.closed {
            return self.refuse_closed(now, ask, label);
        }
        if ask.deadline <= now {
            self.note_refused(now, ask, label, Reason::Deadline);
            return self.refuse_too_late(now, ask, label);
        }
        if let Some(full) = self.stopped_by(now, label) {
            self.note_refused(now, ask, label, full.reason);
            return self.refuse_by(now, ask.partition, label, full);
        }
        let reason = self.reason_for_not_waiting(ask.partition, label);
        // Where it ran into a bound of its own, nothing needs to be kept for it.
        if reason != Reason::LabelCap {
            self.reserve_slot(now, ask, label);
        }
        self.note_refused(now, ask, label, reason);
        self.refuse(now, ask.partition, label, reason)
    }

    /// For a request that comes when nobody is let in any more.
    #[cold]
    pub(super) fn refuse_closed(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        self.note_refused(now, ask, label, Reason::Draining);
        self.refuse(now, ask.partition, label, Reason::Draining)
    }

    /// Why a request is turned away that doesn't wait.
    pub(super) fn reason_for_not_waiting(&self, partition: u16, label: LabelId) -> Reason {
        match self.reason_for_refusing(partition, label) {
            reason @ (Reason::PartitionCap | Reason::LabelCap) => reason,
            _ => Reason::Limit,
        }
    }

    pub(super) fn reason_for_refusing(&self, partition: u16, label: LabelId) -> Reason {
        let it = &self.partitions[partition as usize];
        if self.labels.is_full(label) {
            Reason::LabelCap
        } else if it.plan.mode == PartitionMode::HardCap && it.running >= it.cap {
            Reason::PartitionCap
        } else if self.queue.is_some() {
            Reason::GateFull
        } else if self.line.places.count(self.limit) == 0 {
            Reason::Limit
        } else {
            Reason::QueueFull
        }
    }

    pub(super) fn refuse(&mut self, now: Timestamp, partition: u16, label: LabelId, reason: Reason) -> Refusal {
        self.labels.get_mut(label).rejected += 1;
        self.tally(label, |series| series.ended(LabelOutcome::of_rejected(reason)));
        self.refuse_uncounted(now, partition, label, reason)
    }

    /// The same, but for what is counted by label.
    fn refuse_uncounted(&mut self, now: Timestamp, partition: u16, label: LabelId, reason: Reason) -> Refusal {
        self.shadow.refused(reason);
        let waiting = self.waiting.in_line(partition) + self.waiting.at_gate(partition);
        let it = &mut self.partitions[partition as usize];
        it.counts.rejected[reason.index()] += 1;
        let (ahead, slots, stall) = match reason {
            Reason::LabelCap | Reason::LabelQueueFull => {
                let (label, cap) = (self.labels.get(label), self.labels.cap(label));
                ((label.running + label.waiting + 1).saturating_sub(cap).max(1), cap, label.stall)
            }
            _ if it.running >= it.cap => (it.running + waiting + 1 - it.cap, it.cap, it.stall),
            _ => {
                let inside = self.running + self.in_line + self.at_gate;
                (inside.saturating_sub(self.limit) + 1, self.limit, self.drain.stall)
            }
        };
        let slots = slots.min(self.limit);
        let bound = match reason {
            Reason::LabelQueueFull => self.labels.plan().max_waiting,
            Reason::RunCap => self.labels.plan().max_waiting_per_run,
            _ => slots,
        };
        let retry_after = self.drain.retry_after(now, ahead, slots, stall);
        Refusal { reason, retry_after, partition, bound, empty: false, timed_out: false, over: false }
    }

    /// The rule that has no room for one more request of a label, if there is one.
    pub(super) fn full_rule(&self, now: Timestamp, label: LabelId) -> Option<Full> {
        if self.rules.is_empty() {
            return None;
        }
        self.rules.full(now, self.labels.get(label), self.which())
    }

    /// The rule that stops one more request of a label that arrives, whether it may wait then or not.
    pub(super) fn stopped_by(&self, now: Timestamp, label: LabelId) -> Option<Full> {
        if self.rules.is_empty() {
            return None;
        }
        let one = self.labels.get(label);
        Rules::pending_full(one, self.which()).or_else(|| self.rules.full(now, one, self.which()))
    }

    /// The rule because of which a request of a label is turned away rather than let wait.
    pub(super) fn bar(&self, now: Timestamp, label: LabelId) -> Option<Full> {
        if self.rules.is_empty() {
            return None;
        }
        let one = self.labels.get(label);
        let stops = || self.rules.full(now, one, self.which()).filter(|full| full.when_full != WhenFull::Queue);
        Rules::pending_full(one, self.which()).or_else(stops)
    }

    /// Turns away a request because of a rule.
    pub(super) fn refuse_by(&mut self, now: Timestamp, partition: u16, label: LabelId, full: Full) -> Refusal {
        let refusal = self.refuse(now, partition, label, full.reason);
        self.as_rule_says(now, refusal, full)
    }

    /// A refusal with the numbers of the rule that is full.
    fn as_rule_says(&self, now: Timestamp, refusal: Refusal, full: Full) -> Refusal {
        // One of what the meter counts has to end.
        let by_meter = full.meter.filter(|_| full.until.is_none());
        let by_meter = by_meter.map(|(meter, _)| self.drain.retry_after(now, 1, full.bound, self.rules.stall(meter)));
        Refusal {
            retry_after: full.retry_after(now).or(by_meter).unwrap_or(refusal.retry_after),
            bound: full.bound,
            empty: full.when_full == WhenFull::RespondEmpty,
            ..refusal
        }
    }

    /// Turns away a request whose deadline comes before its turn; it would have had a chance that much later.
    pub(super) fn refuse_too_late(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        let wait = self.expected_wait(now, ask, label).unwrap_or_default();
        let wait = wait.max(self.drain.stalled(now, self.drain.stall).unwrap_or_default());
        let refusal = self.refuse(now, ask.partition, label, Reason::Deadline);
        match wait.checked_sub(ask.deadline.since(now)) {
            Some(missing) if ask.deadline > now => Refusal { retry_after: missing, ..refusal },
            _ => Refusal { over: ask.deadline <= now, ..refusal },
        }
    }

    /// Ends a wait that took too long, or that leads nowhere.
    pub(super) fn end_wait(&mut self, now: Timestamp, key: Key, reason: Reason) {
        let waiter = self.waiting.get(key);
        let (party, over) = (waiter.party(), reason == Reason::Deadline && waiter.caller_deadline <= now);
        self.note_ended(now, party, reason);
        self.leave(key);
        let refusal = self.refuse(now, party.partition, party.label, reason);
        self.answer(key, Refusal { over, ..refusal });
    }

    /// Ends the wait of somebody whose turn it is and whom a rule turns away.
    pub(super) fn end_wait_by(&mut self, now: Timestamp, key: Key, full: Full) {
        let party = self.waiting.get(key).party();
        self.note_ended(now, party, full.reason);
        self.leave(key);
        let refusal = self.refuse_by(now, party.partition, party.label, full);
        self.answer(key, refusal);
    }

    fn answer(&mut self, key: Key, refusal: Refusal) {
        self.waiting.get_mut(key).stage = Stage::Refused(refusal);
        self.notices.push_back(key);
    }

    /// Ends a wait whose time is over. What is told is the rule that was in its way, where that was not the limit.
    pub(super) fn expire(&mut self, now: Timestamp, key: Key) {
        let waiter = self.waiting.get(key);
        if waiter.caller_deadline <= now {
            return self.end_wait(now, key, Reason::Deadline);
        }
        let party = waiter.party();
        let Party { partition, label, .. } = party;
        let timeout = if waiter.stage == Stage::Gate { Reason::GateTimeout } else { Reason::QueueTimeout };
        let full = self.full_rule(now, label).filter(|full| full.when_full == WhenFull::Queue);
        let full = full.filter(|_| !self.labels.is_full(label));
        let reason = full.map_or_else(
            || match self.reason_for_refusing(partition, label) {
                reason @ (Reason::LabelCap | Reason::PartitionCap) => reason,
                _ => timeout,
            },
            |full| full.reason,
        );
        self.note_timed_out(now, party, reason);
        self.leave(key);
        self.labels.get_mut(label).rejected += 1;
        self.tally(label, |series| series.ended(LabelOutcome::Timeout));
        let refusal = self.refuse_uncounted(now, partition, label, reason);
        let refusal = full.map_or(refusal, |full| self.as_rule_says(now, refusal, full));
        self.answer(key, Refusal { timed_out: true, ..refusal });
    }

    /// How long a request that joins the line now waits for a slot, judged from how fast slots came free; `None` while
    /// nothing is known about that.
    ///
    /// It waits until everybody before it got a slot: all who wait and are as important, or, where the turn goes round,
    /// as many rounds as it takes until its own flow is through. Its partition's share is a second way to a slot, and the
    /// earlier one counts. A cap on its label can only make it later.
    pub(super) fn expected_wait(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Option<Duration> {
        if self.drain.mean().is_zero() {
            return None;
        }
        let weight = self.labels.get(label).rule.weight;
        let key = FlowKey { label, partition: ask.partition, level: ask.criticality.level() };
        let (in_partition, in_all) = self.waiting.turns_before(key, weight, self.is_backed_up(now));
        let it = &self.partitions[ask.partition as usize];
        let beyond = self.running.saturating_sub(self.limit);
        let by_limit = self.drain.estimate(in_all + beyond, self.limit);
        let by_share = (it.share > 0).then(|| {
            let beyond = it.running.saturating_sub(it.share);
            self.drain.estimate(in_partition + beyond, it.share)
        });
        let hard = it.plan.mode == PartitionMode::HardCap;
        let by_partition = match by_share {
            Some(by_share) if hard => by_share,
            Some(by_share) => by_share.min(by_limit),
            None => by_limit,
        };
        let (cap, one) = (self.labels.cap(label), self.labels.get(label));
        let by_cap = if cap < self.limit {
            self.drain.estimate((one.running + one.waiting + 1).saturating_sub(cap), cap)
        } else {
            Duration::ZERO
        };
        let by_rule =
            self.full_rule(now, label).and_then(|full| full.until).map_or(Duration::ZERO, |until| until.since(now));
        Some(by_partition.max(by_cap).max(by_rule))
    }

    /// Whether the deadline of a request comes before its turn, with a margin for what a prediction is worth.
    pub(super) fn comes_too_late(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> bool {
        if ask.deadline == Timestamp::NEVER || self.mode != Mode::Enforce {
            return false;
        }
        let left = ask.deadline.since(now);
        self.expected_wait(now, ask, label).is_some_and(|wait| wait > left + left / MARGIN)
    }

    /// Whether the time that is left to a waiter is less than its work is likely to take, so that a slot is better given
    /// to somebody else who waits.
    pub(super) fn is_hopeless(&self, now: Timestamp, key: Key) -> bool {
        let waiter = self.waiting.get(key);
        self.mode == Mode::Enforce
            && waiter.caller_deadline != Timestamp::NEVER
            && self.in_line + self.at_gate > 1
            && self.work.likely(waiter.class).is_some_and(|work| waiter.caller_deadline.since(now) < work)
    }
}
