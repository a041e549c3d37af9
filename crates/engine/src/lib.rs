//! The pure state machine that decides.
//!
//! Every verb takes the time as an argument, so the engine runs in virtual time as it stands. It calls nothing outside of itself but laws:
//! waiters whose wait ended are listed by [`Engine::take_notice`], and the runtime wakes them.
//!
//! ```text
//!            arrive                      dispatch                  claim
//! request ──────────▶ Admit ────────────────────────────────────────────▶ Slot ──▶ observe, finish
//!            │  └────▶ Wait ─▶ [gate] ─▶ [line] ─▶ granted ───────────────▲
//!            └───────▶ Reject                 └──▶ rejected (deadline, longest wait)
//! ```
//!
//! The state is in rooms, each of which owns its part of it: what runs (`capacity`), what waits (`queue`), what each key may (`quota`),
//! what the limit should be (`control`), what is expected (`estimate`), which slots expire (`slot_ttl`), and what is told afterwards
//! (`telemetry`). Rooms don't know each other. `verbs` combine them, and `view` reads them.
//!
//! What holds after every verb:
//!
//! 1. No more requests run than the limit allows, except what a shrunk limit left over and what a partition may overcommit.
//! 2. A free slot and a waiter that may take it never coexist.
//! 3. Room in the line and a waiter at the gate never coexist.
//! 4. Every request that arrived is running, waiting, finished, rejected or cancelled: exactly one of them.

// What users see of this crate they see in the facade, whose tests hold these rules for it.
#![allow(clippy::exhaustive_enums, clippy::exhaustive_structs, reason = "the facade has the version of the engine")]
#![expect(unnameable_types, reason = "the facade holds them and calls them, and has no need of their names")]

mod capacity;
mod control;
mod deadlines;
mod estimate;
mod extras;
mod ids;
mod lifecycle;
pub mod limit;
mod links;
mod outage;
pub mod plan;
mod queue;
mod quota;
pub mod settings;
pub mod shares;
mod slot_ttl;
mod stall;
mod telemetry;
mod tokens;
mod verbs;
mod view;
mod words;

#[cfg(any(test, kani))]
mod arbitrary_tests;
#[cfg(test)]
mod kept_tests;
#[cfg(any(test, kani))]
mod shares_proof_tests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use self::{
    capacity::Capacity, control::Controller, estimate::Estimates, extras::Extras, lifecycle::Lifecycle, outage::Outage,
    plan::Plan, queue::WaitQueue, quota::Quotas, slot_ttl::SlotTtl, telemetry::Telemetry,
};
pub use self::{
    control::ShadowSnapshot,
    ids::{AbandonedKind, ClassId, Key, LabelId, PartitionId, TtlId},
    plan::rules,
    quota::RuleSnapshot,
    telemetry::{
        BlockingBound, ChangeEntry, Counts, DecisionEntry, DecisionKind, Health, JournalEntry, JournalEvent,
        LabelOutcome, MOST_ENTRIES, RejectedCount, Wanted, named,
    },
    tokens::{
        Arrival, Ask, Borrower, Counted, DryRunOutcome, Place, Refusal, RequestSample, Settled, SharedBound,
        SharedRules, Slot, StoreChange, StoreState, Subject,
    },
    verbs::NoRoom,
    view::{
        BlockedBy, Description, Foremost, HealthSnapshot, HistorySample, LabelMetricsView, LabelRow, LabelSnapshot,
        LabelStatus, LimitMove, LimitSnapshot, PartitionSnapshot, Quantiles, RecentSnapshot, RejectedSnapshot, Sampled,
        SampledName, Snapshot, StoreSnapshot, Unmet, WaiterSnapshot, WorkerDescription, text,
    },
    words::{
        BuildError, Criticality, Histogram, OnStoreFailure, Outcome, Problem, Reason, Timestamp, UnknownWord, hash_of,
        nanos, normal, short, short_words,
    },
};

/// Decides which requests run, which wait and which are rejected. See the module.
///
/// Each field is a room that owns its state. Only `verbs` combine them.
#[derive(Debug)]
pub struct Engine {
    now: Timestamp,
    /// What settings and mode ask of a request beyond a slot.
    extras: Extras,
    lifecycle: Lifecycle,
    outage: Outage,
    capacity: Capacity,
    queue: WaitQueue,
    quotas: Quotas,
    controller: Controller,
    estimates: Estimates,
    slot_ttl: SlotTtl,
    telemetry: Telemetry,
    notices: Notices,
}

/// Waiters whose wait ended, and slots that were taken back: they or their holders have to be told.
#[derive(Debug, Default)]
struct Notices {
    waiters: VecDeque<Key>,
    slots: VecDeque<TtlId>,
}

impl Engine {
    #[doc(hidden)]
    pub fn new(plan: Plan) -> Self {
        let (queue, partitions) = (plan.queue(), plan.partitions.len());
        let mut controller = Controller::new(plan.law, plan.shadow, plan.time_one_in, plan.default_deadline);
        let quotas = Quotas::new(plan.labels, plan.rules, |name| controller.class(name));
        let mut engine = Self {
            now: Timestamp::ZERO,
            extras: Extras::default(),
            lifecycle: Lifecycle::default(),
            outage: Outage::default(),
            capacity: Capacity::new(plan.partitions, controller.limit(1)),
            queue: WaitQueue::new(partitions, queue),
            quotas,
            controller,
            estimates: Estimates::default(),
            slot_ttl: SlotTtl::default(),
            telemetry: Telemetry::new(partitions, plan.journal),
            notices: Notices::default(),
        };
        engine.slot_ttl.replace(plan.time_to_live);
        engine.open_label_metrics();
        engine.find_extras();
        engine
    }
}
