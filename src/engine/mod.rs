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

mod arrive;
mod ask;
mod classes;
mod closing;
mod consent;
mod credit;
mod deadlines;
mod drain;
mod fair_queue;
mod histogram;
mod journal;
mod label_snapshot;
mod label_status;
mod labels;
mod learn;
pub(crate) mod limit;
mod outage;
mod parking;
mod partition;
mod patience;
pub(crate) mod plan;
#[cfg(feature = "introspect")]
mod recent;
mod refuse;
mod reload;
mod reports;
mod reservation;
mod room;
pub(crate) mod rules;
mod runs;
mod scheduler;
mod series;
mod shadow;
pub(crate) mod shares;
mod slot;
mod snapshot;
mod tenure;
mod tick;
mod unmet;
mod waiter_snapshot;
mod waiters;
#[cfg(feature = "introspect")]
mod witness;
mod work;
mod workers;
mod would;

#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod incident_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod shadow_tests;

use std::{collections::VecDeque, task::Poll, time::Duration};

pub(crate) use ask::{Ask, Subject};
pub(crate) use consent::NoRoom;
pub(crate) use histogram::Histogram;
pub use journal::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent};
pub(crate) use journal::{MOST_ENTRIES, Wanted};
#[cfg(feature = "introspect")]
pub(crate) use label_snapshot::LabelRow;
pub use label_snapshot::LabelSnapshot;
pub use label_status::{BlockedBy, LabelStatus};
pub(crate) use labels::LabelId;
pub(crate) use outage::{StoreChange, StoreState};
pub(crate) use partition::Counts;
pub(crate) use series::{LabelOutcome, LabelSeries, named};
pub use shadow::ShadowSnapshot;
pub(crate) use slot::{Arrival, Place, Refusal, Slot};
pub use snapshot::{PartitionSnapshot, Quantiles, Snapshot, StoreSnapshot};
pub(crate) use unmet::Unmet;
pub use waiter_snapshot::WaiterSnapshot;
pub(crate) use waiters::Key;

use self::{
    classes::Classes,
    credit::Credit,
    deadlines::Deadlines,
    drain::Drain,
    fair_queue::FairQueue,
    journal::{Cause, Journal, Verdict},
    labels::Labels,
    limit::LimitAlgorithm,
    outage::Outage,
    partition::Partition,
    plan::{Bound, Discipline, Mode, Plan},
    room::Reservations,
    rules::Rules,
    runs::Runs,
    series::AllSeries,
    shadow::ShadowLaw,
    slot::{COUNTED, IN_SHADOW},
    tenure::Tenures,
    unmet::Met,
    waiters::{Stage, Waiter},
    work::Work,
};
use crate::time::Timestamp;

/// Decides who runs, who waits and who is turned away. See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Changes when the law says so, or by hand.
    limit: usize,
    running: usize,
    /// How many run besides, in partitions whose decisions don't bind.
    outside: usize,
    /// How many wait, in line and at the gate.
    in_line: usize,
    at_gate: usize,
    mode: Mode,
    /// Nobody is let in any more, and whether those who wait are served.
    closed: bool,
    serves_waiting: bool,
    /// Whether the store that counts shared rules can be asked.
    store: Outage,
    now: Timestamp,
    partitions: Vec<Partition>,
    /// The part of each partition, and room to compute its share: a limit moves without an allocation.
    parts: Vec<u32>,
    shares: Vec<usize>,
    law: Box<dyn LimitAlgorithm>,
    line: Bound,
    gate: Bound,
    queue: Option<usize>,
    /// Slots and places that are held back for requests that were refused below their share.
    reserved: Reservations,
    /// Whether any partition may run beyond the limit.
    overcommits: bool,
    discipline: Discipline,
    /// When the line was empty last.
    last_empty: Timestamp,
    credit: Credit,
    waiting: FairQueue,
    labels: Labels,
    series: AllSeries,
    rules: Rules,
    /// When the rates have room again for which labels wait.
    rates_due: Deadlines,
    running_by_level: [usize; 4],
    runs: Runs,
    deadlines: Deadlines,
    time_to_live: Option<Duration>,
    tenures: Tenures,
    /// How many slots were taken back from holders who kept them for too long.
    overdue: u64,
    /// When a worker of a label falls silent.
    workers_due: Timestamp,
    sequence: u64,
    notices: VecDeque<Key>,
    drain: Drain,
    work: Work,
    classes: Classes,
    met: Met,
    law_panics: u64,
    shadow: ShadowLaw,
    /// How often the settings were changed.
    reloads: u64,
    journal: Journal,
}

impl Engine {
    pub(crate) fn new(plan: Plan) -> Self {
        let by_arrival = plan.discipline == Discipline::Fifo;
        let mut rules = Rules::new(plan.rules);
        let mut engine = Self {
            limit: 0,
            running: 0,
            outside: 0,
            in_line: 0,
            at_gate: 0,
            mode: Mode::Enforce,
            closed: false,
            serves_waiting: false,
            store: Outage::default(),
            now: Timestamp::ZERO,
            overcommits: plan.partitions.iter().any(plan::PartitionPlan::passes_limit),
            parts: plan.partitions.iter().map(|it| it.part).collect(),
            shares: vec![0; plan.partitions.len()],
            waiting: FairQueue::new(plan.partitions.len(), by_arrival, plan.aging),
            partitions: plan.partitions.into_iter().map(Partition::new).collect(),
            law: plan.law,
            line: plan.line,
            gate: plan.gate,
            queue: plan.queue,
            reserved: Reservations::none(),
            discipline: plan.discipline,
            last_empty: Timestamp::ZERO,
            credit: Credit::default(),
            labels: Labels::new(plan.labels, &mut rules),
            series: AllSeries::default(),
            rules,
            rates_due: Deadlines::default(),
            running_by_level: [0; 4],
            runs: Runs::default(),
            deadlines: Deadlines::default(),
            time_to_live: plan.time_to_live,
            tenures: Tenures::default(),
            overdue: 0,
            workers_due: Timestamp::NEVER,
            sequence: 0,
            notices: VecDeque::new(),
            drain: Drain::default(),
            work: Work::default(),
            classes: Classes::default(),
            met: Met::default(),
            law_panics: 0,
            shadow: ShadowLaw::default(),
            reloads: 0,
            journal: Journal::new(plan.journal),
        };
        engine.shadow.replace(plan.shadow);
        engine.resize(engine.law.limit());
        engine.rules.number_classes(|name| engine.classes.number(name));
        engine.reserve_series();
        engine
    }

    /// The number of a kind of work, for [`Ask::class`]: times are compared within their kind.
    pub(crate) fn class(&mut self, name: &str) -> u8 {
        self.classes.number(name)
    }

    /// Asks for the slot of a waiter. Whatever the timers say, this answer counts.
    pub(crate) fn claim(&mut self, now: Timestamp, place: &Place) -> Poll<Result<Slot, Refusal>> {
        let now = self.advance(now);
        let key = place.0;
        if self.waiting.get(key).deadline <= now {
            self.expire(now, key);
            self.settle(now);
        }
        let &Waiter { stage, partition, since, label, class, would, .. } = self.waiting.get(key);
        let answer = match stage {
            Stage::Gate | Stage::Line => return Poll::Pending,
            // Its time starts now, not at the grant: how long the task took to wake up is no congestion.
            Stage::Granted { in_flight, until } => {
                let counts = &mut self.partitions[partition as usize].counts;
                counts.admitted += 1;
                if until.is_some() {
                    counts.queued += 1;
                    counts.wait.record(now.since(since));
                    self.tally(label, |series| series.times.wait.record(now.since(since)));
                }
                let holder = self.waiting.get(key).holder();
                if self.has_to_ask(label).is_some() {
                    self.note_consent(now, key, until.is_some());
                }
                Ok(Slot { would, ..self.lend(now, class, holder, in_flight) })
            }
            Stage::Refused(refusal) => Err(refusal),
        };
        self.waiting.remove(key);
        if self.rules.are_shared && answer.is_ok() {
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
        let waiter = self.waiting.get(key);
        let (stage, partition, holder, party) = (waiter.stage, waiter.partition, waiter.holder(), waiter.party());
        match stage {
            Stage::Gate | Stage::Line => self.leave(key),
            Stage::Granted { .. } => {
                self.vacate(holder);
                if self.rules.are_shared {
                    self.next_may_ask(holder.label);
                }
            }
            Stage::Refused(_) => {}
        }
        if !matches!(stage, Stage::Refused(_)) {
            self.partitions[partition as usize].counts.cancelled_waiting += 1;
            self.tally(holder.label, |series| series.ended(LabelOutcome::Cancelled));
            self.note(now, Verdict::CANCELLED, party, Cause::NOTHING);
        }
        self.waiting.remove(key);
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
        if !self.tenures.give_back(slot.tenure) {
            if within_limit {
                self.note_held(now.since(slot.start), slot.label);
            }
            self.vacate(holder);
        }
        if self.in_line + self.at_gate > 0 {
            self.settle(now);
        }
    }

    /// Learns for how long a slot was held, where slots are scarce.
    fn note_held(&mut self, held: Duration, label: LabelId) {
        if self.is_saturated() {
            self.drain.finished(held);
            self.labels.held(label, held);
        }
    }

    /// Whether the slot with this tenure was taken back because its time was over.
    pub(crate) fn is_overdue(&self, tenure: u32) -> bool {
        self.tenures.is_overdue(tenure)
    }

    /// The next tenure that ended since the last call: its holder should be told.
    pub(crate) fn take_overdue(&mut self) -> Option<u32> {
        self.tenures.overdue.pop_front()
    }

    /// Whether [`finish`](Self::finish) needs the exact time: there is nobody to serve and nothing to measure on a
    /// server that has room, and reading a clock costs more than the rest of it.
    pub(crate) const fn is_saturated(&self) -> bool {
        self.running >= self.limit || self.in_line + self.at_gate > 0
    }

    /// The next waiter whose wait ended since the last call, granted or refused: it should be woken.
    pub(crate) fn take_notice(&mut self) -> Option<Key> {
        self.notices.pop_front()
    }

    pub(crate) fn has_notices(&self) -> bool {
        !self.notices.is_empty() || !self.tenures.overdue.is_empty()
    }
}
