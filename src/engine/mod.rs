//! The pure state machine that decides.
//!
//! Every verb takes the time as an argument, so the engine runs in virtual time as it stands. It calls nobody: those
//! whose wait ended are listed by [`Engine::take_notice`], and whoever drives the engine wakes them.
//!
//! ```text
//!            arrive                      settle                    claim
//! request ──────────▶ Admit ────────────────────────────────────────────▶ Slot ──▶ observe, finish
//!            │  └────▶ Wait ─▶ [gate] ─▶ [line] ─▶ granted ───────────────▲
//!            └───────▶ Reject                 └──▶ refused (deadline, longest wait)
//! ```
//!
//! What holds after every verb:
//!
//! 1. No more run than the limit allows, except what a shrunk limit left over and what a partition may overcommit.
//! 2. A free slot and a waiter that may take it never coexist.
//! 3. Room in the line and a waiter at the gate never coexist.
//! 4. Every request that arrived is running, waiting, finished, rejected or cancelled: exactly one of them.

mod capacity;
mod control;
mod deadlines;
mod estimate;
mod ids;
mod lifecycle;
pub(crate) mod plan;
mod queue;
mod quota;
mod slot_ttl;
mod telemetry;
mod tokens;
mod verbs;
mod view;

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, task::Poll, time::Duration};

#[cfg(feature = "introspect")]
use self::telemetry::recent;
pub(crate) use self::{capacity::shares, control::law as limit, quota::rules};
use self::{
    capacity::{partition, reservation, reservations as room},
    estimate::hold_time as drain,
    queue::{fair as fair_queue, jobs as runs, slab as waiters},
    quota::{labels, workers},
    telemetry::{histogram, journal, label_metrics as series, unmet},
    tokens as ask, tokens as slot, tokens as would, verbs as outage, view as label_status,
};

pub(crate) use ask::{Ask, Subject};
pub use control::ShadowSnapshot;
pub(crate) use histogram::Histogram;
pub(crate) use ids::{Key, LabelId, TtlId};
pub use journal::{Change, Decided, Decision, JournalEntry, JournalEvent};
pub(crate) use journal::{MOST_ENTRIES, Wanted};
pub(crate) use lifecycle::{StoreChange, StoreState};
pub(crate) use partition::Counts;
pub(crate) use series::{LabelOutcome, LabelSeries, named};
pub(crate) use slot::{Arrival, Place, Refusal, Slot};
pub(crate) use unmet::Unmet;
pub(crate) use verbs::NoRoom;
#[cfg(feature = "introspect")]
pub(crate) use view::LabelRow;
pub use view::{
    Blocked, LabelSnapshot, LabelStatus, PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot, WaiterSnapshot,
};

use self::{
    capacity::Capacity,
    control::Controller,
    estimate::Estimates,
    fair_queue::FairQueue,
    journal::{Cause, Journal, Verdict},
    labels::Labels,
    lifecycle::Lifecycle,
    partition::Partition,
    plan::{Discipline, Plan},
    queue::WaitQueue,
    quota::Quotas,
    rules::Rules,
    runs::Runs,
    series::AllSeries,
    slot::{COUNTED, IN_SHADOW},
    slot_ttl::SlotTtl,
    telemetry::Telemetry,
    unmet::Met,
    waiters::{Stage, Waiter},
};
use crate::time::Timestamp;

/// Decides who runs, who waits and who is turned away. See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    now: Timestamp,
    lifecycle: Lifecycle,
    capacity: Capacity,
    queue: WaitQueue,
    quotas: Quotas,
    controller: Controller,
    estimates: Estimates,
    slot_ttl: SlotTtl,
    telemetry: Telemetry,
    notices: VecDeque<Key>,
}

impl Engine {
    pub(crate) fn new(plan: Plan) -> Self {
        let by_arrival = plan.discipline == Discipline::Fifo;
        let mut rules = Rules::new(plan.rules);
        let mut engine = Self {
            now: Timestamp::ZERO,
            lifecycle: Lifecycle::default(),
            queue: WaitQueue {
                in_line: 0,
                at_gate: 0,
                line: plan.line,
                gate: plan.gate,
                queue: plan.queue,
                discipline: plan.discipline,
                last_empty: Timestamp::ZERO,
                credit: Default::default(),
                waiting: FairQueue::new(plan.partitions.len(), by_arrival, plan.aging),
                runs: Runs::default(),
                deadlines: Default::default(),
                sequence: 0,
            },
            capacity: Capacity::new(plan.partitions),
            quotas: Quotas {
                labels: Labels::new(plan.labels, &mut rules),
                rules,
                rates_due: Default::default(),
                workers_due: Timestamp::NEVER,
            },
            controller: Controller::new(plan.law, plan.shadow),
            estimates: Estimates::default(),
            slot_ttl: SlotTtl::new(plan.time_to_live),
            telemetry: Telemetry {
                series: AllSeries::default(),
                met: Met::default(),
                reloads: 0,
                journal: Journal::new(plan.journal),
            },
            notices: VecDeque::new(),
        };
        engine.resize(engine.controller.limit());
        engine.quotas.rules.number_classes(|name| engine.controller.class(name));
        engine.reserve_series();
        engine
    }

    /// The number of a kind of work, for [`Ask::class`]: times are compared within their kind.
    pub(crate) fn class(&mut self, name: &str) -> u8 {
        self.controller.class(name)
    }

    /// Asks for the slot of a waiter. Whatever the timers say, this answer counts.
    pub(crate) fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let now = self.advance(now);
        let key = place.0;
        if self.queue.waiting.get(key).deadline <= now {
            self.expire(now, key);
            self.settle(now);
        }
        let &Waiter { stage, partition, since, label, class, would, .. } = self.queue.waiting.get(key);
        let answer = match stage {
            Stage::Gate | Stage::Line => return Poll::Pending,
            // Its time starts now, not at the grant: how long the task took to wake up is no congestion.
            Stage::Granted { in_flight, until } => {
                let counts = &mut self.capacity.partitions[partition as usize].counts;
                counts.admitted += 1;
                if until.is_some() {
                    counts.queued += 1;
                    counts.wait.record(now.since(since));
                    self.tally(label, |series| series.times.wait.record(now.since(since)));
                }
                let holder = self.queue.waiting.get(key).holder();
                if self.has_to_ask(label).is_some() {
                    self.note_consent(now, key, until.is_some());
                }
                Ok(Slot { would, ..self.lend(now, class, holder, in_flight) })
            }
            Stage::Refused(refusal) => Err(refusal),
        };
        self.queue.waiting.remove(key);
        if self.quotas.rules.are_shared && answer.is_ok() {
            self.next_may_ask(label);
            self.settle(now);
        }
        #[cfg(test)]
        self.check();
        Poll::Ready(answer)
    }

    /// Gives up a place, and the slot that may have been granted to it.
    pub(crate) fn cancel(&mut self, now: Timestamp, place: &Place) {
        let now = self.advance(now);
        let key = place.0;
        let waiter = self.queue.waiting.get(key);
        let (stage, partition, holder, party) = (waiter.stage, waiter.partition, waiter.holder(), waiter.party());
        match stage {
            Stage::Gate | Stage::Line => self.leave(key),
            Stage::Granted { .. } => {
                self.vacate(holder);
                if self.quotas.rules.are_shared {
                    self.next_may_ask(holder.label);
                }
            }
            Stage::Refused(_) => {}
        }
        if !matches!(stage, Stage::Refused(_)) {
            self.capacity.partitions[partition as usize].counts.cancelled_waiting += 1;
            self.tally(holder.label, |series| series.ended(LabelOutcome::Cancelled));
            self.note(now, Verdict::CANCELLED, party, Cause::NOTHING);
        }
        self.queue.waiting.remove(key);
        self.settle(now);
    }

    /// Gives a slot back, once.
    pub(crate) fn finish(&mut self, now: Timestamp, slot: &mut Slot) {
        let (is_counted, within_limit, holder) = (slot.is_counted(), slot.is_within_limit(), slot.holder());
        slot.marks &= !(COUNTED | IN_SHADOW);
        if !is_counted {
            return self.leave_shadow(holder);
        }
        let now = self.advance(now);
        // Of a slot that was taken back before, nothing is left to count, and its label may be forgotten.
        if !self.slot_ttl.give_back(slot.ttl) {
            if within_limit {
                self.note_held(now.since(slot.start), slot.label);
            }
            self.vacate(holder);
        }
        if self.queue.in_line + self.queue.at_gate > 0 {
            self.settle(now);
        }
    }

    /// Learns for how long a slot was held, where slots are scarce.
    fn note_held(&mut self, held: Duration, label: LabelId) {
        if self.is_saturated() {
            self.estimates.held(held);
            self.quotas.labels.held(label, held);
        }
    }

    /// Whether the slot with this tenure was taken back because its time was over.
    pub(crate) fn is_expired(&self, slot: TtlId) -> bool {
        self.slot_ttl.is_expired(slot)
    }

    /// The next tenure that ended since the last call: its holder should be told.
    pub(crate) fn take_expired(&mut self) -> Option<TtlId> {
        self.slot_ttl.take_notice()
    }

    /// Whether [`finish`](Self::finish) needs the exact time: there is nobody to serve and nothing to measure on a
    /// server that has room, and reading a clock costs more than the rest of it.
    pub(crate) const fn is_saturated(&self) -> bool {
        self.capacity.running >= self.capacity.limit || self.queue.in_line + self.queue.at_gate > 0
    }

    /// The next waiter whose wait ended since the last call, granted or refused: it should be woken.
    pub(crate) fn take_notice(&mut self) -> Option<Key> {
        self.notices.pop_front()
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty() || self.slot_ttl.has_notices()
    }
}
