//! What is in the way of a request, how long the way is, and what a rejected request is told of it.

use std::time::Duration;

use crate::{
    Engine, Reason, Timestamp,
    ids::{FlowKey, LabelId, Level, PartitionId},
    plan::{PartitionMode, rules::WhenFull},
    telemetry::{Blocker, BlockingBound},
    tokens::{Ask, ExhaustedRule, Refusal},
    verbs::decide::Obstacle,
};

/// A prediction has to miss a deadline by this part of the time that is left before it is believed.
const MARGIN: u32 = 10;

impl Engine {
    /// Returns the answer to a request that is rejected, with the time after which it is worth coming back.
    pub(super) fn refusal(&mut self, now: Timestamp, partition: PartitionId, label: LabelId, it: &Obstacle) -> Refusal {
        let refusal = self.refusal_for(now, partition, label, it.reason);
        let bound = it.places.map_or(refusal.bound, |(_, most)| most);
        let Some(full) = &it.rule else { return Refusal { bound, timed_out: it.timed_out, ..refusal } };
        let (promised, stall) = self.quotas.promise(label, full);
        // At least a nanosecond: zero would mean that there is room now.
        let promised = promised.map(|at| at.since(now).max(Duration::from_nanos(1)));
        // Room comes when a request that the meter counts ends.
        let by_meter = stall.filter(|_| full.until.is_none());
        let by_meter = by_meter.map(|stall| self.estimates.hold().retry_after(now, 1, full.bound, stall));
        Refusal {
            retry_after: promised.or(by_meter).unwrap_or(refusal.retry_after),
            is_promised: promised.is_some(),
            bound: full.bound,
            empty: full.when_full == WhenFull::RespondEmpty,
            timed_out: it.timed_out,
            ..refusal
        }
    }

    /// The same where no rule rejects.
    pub(super) fn refusal_for(
        &self,
        now: Timestamp,
        partition: PartitionId,
        label: LabelId,
        reason: Reason,
    ) -> Refusal {
        let (limit, running) = (self.capacity.limit(), self.capacity.running());
        let it = self.capacity.partition(partition);
        let (ahead, slots, stall) = match reason {
            Reason::LabelCap | Reason::LabelQueueFull => {
                let label = self.quotas.label(label);
                let ahead = (label.running + label.waiting + 1).saturating_sub(label.cap);
                (ahead.max(1), label.cap, label.stall)
            }
            _ if it.running >= it.cap => {
                (it.running + self.queue.lengths_of(partition).all() + 1 - it.cap, it.cap, it.stall)
            }
            _ => {
                let inside = running + self.queue.lengths().all();
                (inside.saturating_sub(limit) + 1, limit, self.capacity.slots().stall)
            }
        };
        let slots = slots.min(limit);
        let retry_after = self.estimates.hold().retry_after(now, ahead, slots, stall);
        Refusal {
            reason,
            retry_after: retry_after.max(self.capacity.pause_left(now, partition)),
            partition,
            bound: slots,
            is_promised: false,
            empty: false,
            timed_out: false,
            over: false,
        }
    }

    /// Like `refusal`, for a request whose deadline comes before its turn: a deadline that much later might have been
    /// met.
    pub(super) fn refusal_too_late(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Refusal {
        let wait = self.expected_wait(now, ask, label).unwrap_or_default();
        let wait = wait.max(self.estimates.hold().stalled(now, self.capacity.slots().stall).unwrap_or_default());
        let refusal = self.refusal_for(now, ask.partition, label, Reason::Deadline);
        match wait.checked_sub(ask.deadline.since(now)) {
            Some(missing) if ask.deadline > now => Refusal { retry_after: missing, ..refusal },
            _ => Refusal { over: ask.deadline <= now, ..refusal },
        }
    }

    /// Returns what was in the way of a request, if that is written down.
    #[inline]
    pub(super) fn if_noted(&self, find: impl FnOnce(&Self) -> Blocker) -> Blocker {
        if self.telemetry.wants(self.now).blockers { find(self) } else { Blocker::NOTHING }
    }

    /// Returns the bound for which a request was rejected.
    pub(super) fn blocker(&self, now: Timestamp, partition: PartitionId, label: LabelId, it: &Obstacle) -> Blocker {
        if let Some(full) = &it.rule {
            return self.blocker_of_rule(now, label, full);
        }
        let (limit, (taken, places)) = (self.capacity.limit(), it.places.unwrap_or_default());
        match it.reason {
            Reason::Deadline => Blocker::new(BlockingBound::Deadline, 0, 0),
            Reason::Draining => Blocker::new(BlockingBound::Draining, 0, 0),
            Reason::PendingUnavailable | Reason::StoreUnavailable => Blocker::new(BlockingBound::Store, 0, 0),
            Reason::GateFull | Reason::GateTimeout => {
                let bound = limit.saturating_add(self.queue.plan().queue.unwrap_or(0));
                Blocker::new(BlockingBound::Gate, self.capacity.running() + self.queue.lengths().in_line, bound)
            }
            Reason::LabelQueueFull => Blocker::new(BlockingBound::MaxWaiting, taken, places),
            Reason::RunCap => Blocker::new(BlockingBound::MaxWaitingPerRun, taken, places),
            Reason::PushedOut | Reason::QueueFull => {
                Blocker::new(BlockingBound::Queue, self.queue.lengths().in_line, self.room().places)
            }
            Reason::PartitionCap => {
                let it = self.capacity.partition(partition);
                Blocker::new(BlockingBound::Partition, it.running, it.cap)
            }
            // These come with their rule.
            Reason::Budget | Reason::NamespaceCap | Reason::PendingFull | Reason::Rate => Blocker::NOTHING,
            Reason::LabelCap | Reason::Limit | Reason::QueueTimeout => self.blocker_of_slot(now, partition, label),
        }
    }

    /// Returns what keeps a request from running: the first bound in the order in which they are checked.
    pub(super) fn blocker_of_slot(&self, now: Timestamp, partition: PartitionId, label: LabelId) -> Blocker {
        let it = self.capacity.partition(partition);
        let one = self.quotas.label(label);
        if one.is_full {
            let bound = one.cap;
            let slots = one.workers.filter(|_| self.quotas.plans().0.enforce_workers).map(|it| it.slots);
            let by = match (one.rule.cap, slots) {
                (Some(cap), _) if cap == bound => BlockingBound::LabelCap,
                (_, Some(slots)) if slots == bound => BlockingBound::WorkerSlots,
                _ => BlockingBound::MaxInFlight,
            };
            Blocker::new(by, one.running, bound)
        } else if let Some(full) = self.exhausted_rule(now, label) {
            self.blocker_of_rule(now, label, &full)
        } else if it.is_at_hard_cap() {
            Blocker::new(BlockingBound::Partition, it.running, it.cap)
        } else {
            let by = if self.capacity.is_full() { BlockingBound::Limit } else { BlockingBound::Reserved };
            Blocker::new(by, self.capacity.running(), self.capacity.limit())
        }
    }

    fn blocker_of_rule(&self, now: Timestamp, label: LabelId, full: &ExhaustedRule) -> Blocker {
        let by = match (full.reason, full.meter) {
            (Reason::Budget, _) => BlockingBound::Budget,
            (Reason::NamespaceCap, _) => BlockingBound::MaxInFlightPerNamespace,
            (Reason::PendingFull, _) => BlockingBound::MaxPending,
            (Reason::Rate, None) => BlockingBound::MaxPerMinute,
            (Reason::Rate, Some(_)) => BlockingBound::MaxPerMinutePerNamespace,
            _ => BlockingBound::MaxInFlight,
        };
        Blocker::new(by, self.quotas.used(now, label, full), full.bound)
    }

    /// Returns how long a request that joins the line now waits for a slot, judged from how fast slots came free;
    /// `None` while nothing is known about that.
    ///
    /// The request waits until all requests before it got a slot: all waiters of its level and of more important ones,
    /// or, where flows take turns, as many rounds as its own flow needs. The share of its partition is a second way to
    /// a slot, and the earlier way counts. A cap on its label can only make the wait longer.
    pub(crate) fn expected_wait(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Option<Duration> {
        if self.estimates.hold().mean().is_zero() {
            return None;
        }
        let (limit, running) = (self.capacity.limit(), self.capacity.running());
        let (one, it) = (self.quotas.label(label), self.capacity.partition(ask.partition));
        let key = FlowKey { label, partition: ask.partition, level: Level::of(ask.criticality) };
        let (in_partition, in_all) = self.queue.turns_before(now, key, one.rule.weight);
        let by_limit = self.estimates.hold().estimate(in_all + running.saturating_sub(limit), limit);
        let by_share = (it.share > 0).then(|| {
            let beyond = it.running.saturating_sub(it.share);
            self.estimates.hold().estimate(in_partition + beyond, it.share)
        });
        let by_partition = match by_share {
            Some(by_share) if it.plan.mode == PartitionMode::HardCap => by_share,
            Some(by_share) => by_share.min(by_limit),
            None => by_limit,
        };
        let by_cap = if one.cap < limit {
            self.estimates.hold().estimate((one.running + one.waiting + 1).saturating_sub(one.cap), one.cap)
        } else {
            Duration::ZERO
        };
        let room = self.exhausted_rule(now, label).and_then(|full| full.until);
        let by_rule = room.map_or(Duration::ZERO, |until| until.since(now));
        Some(by_partition.max(by_cap).max(by_rule).max(self.capacity.pause_left(now, ask.partition)))
    }

    /// Whether the deadline of a request comes before its turn, with a margin for what a prediction is worth.
    pub(crate) fn will_miss_deadline(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> bool {
        if ask.deadline == Timestamp::NEVER || !self.lifecycle.enforces() {
            return false;
        }
        let left = ask.deadline.since(now);
        self.expected_wait(now, ask, label).is_some_and(|wait| wait > left + left / MARGIN)
    }
}
