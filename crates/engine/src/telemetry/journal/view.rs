//! The journal as it is read: with names.

use std::borrow::Cow;

use super::{BlockingBound, ChangeEvent, Decision, Journal, Noted};
use crate::{Reason, Timestamp, codes};

/// One entry of the journal of a handle.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct JournalEntry {
    /// Number of the entry, from 1 on. Missing numbers belong to entries that others have pushed out: the newest ones stay, and
    /// of each partition and obstacle a fair part.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub sequence: u64,
    /// Time of the entry, in seconds since the handle was made.
    pub at_seconds: f64,
    /// What happened.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub event: JournalEvent,
    /// Requests that ran then, including a request that was admitted by this entry.
    pub in_flight: usize,
    /// Limit at that time.
    pub limit: usize,
    /// Requests that waited then, in line and at the gate.
    pub waiting: usize,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(tag = "kind", rename_all = "snake_case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum JournalEvent {
    /// Something was decided about a request.
    Decision(DecisionEntry),
    /// The handle changed.
    Change(ChangeEntry),
    /// Something that a later version tells; no handle of this one does.
    #[cfg_attr(feature = "serde", serde(other))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

/// What was decided about a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Decision"))]
#[non_exhaustive]
pub struct DecisionEntry {
    /// What became of the request.
    pub decision: DecisionKind,
    /// Why the request was not admitted, or would not have been.
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::words::known", skip_serializing_if = "Option::is_none")
    )]
    pub reason: Option<Reason>,
    /// What was in the way: the name of a [rule](crate::RuleSnapshot::rule), or `deadline`, `draining`, `gate`, `reserved`,
    /// `limit`, `max_waiting`, `max_waiting_per_run`, `partition`, `queue` or `store`.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rule: Option<Cow<'static, str>>,
    /// Requests that were counted by that bound.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub used: Option<usize>,
    /// Requests that the bound allows.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub bound: Option<usize>,
    /// Partition of the request.
    pub partition: String,
    /// Namespace of the request's label; empty if it has none.
    pub namespace: String,
    /// Label of the request; empty if it has none, or shared an entry.
    pub label: String,
    /// Whether the label was forgotten since, so that its name is not known any more.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub forgotten: bool,
    /// Class of work of the request; empty for all classes that have no rules of their own.
    pub class: String,
    /// The run that the request is a part of, where requests of that run have waited.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub run: Option<String>,
    /// Time for which the request had waited, in seconds.
    pub waited_seconds: f64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum DecisionKind {
    /// The request may run, as it came. Or decisions don't bind; see `reason`.
    Admitted,
    /// The request has to wait.
    Queued,
    /// The request has waited and may run now.
    Granted,
    /// The request was rejected.
    Rejected,
    /// The request was rejected because its wait took too long.
    TimedOut,
    /// The request left while it waited.
    Cancelled,
    /// The request runs because decisions don't bind; it would have had to wait.
    WouldQueue,
    /// The request runs because decisions don't bind; it would have been rejected.
    WouldReject,
    /// A decision of a later version; told by no handle of this one.
    #[default]
    #[cfg_attr(feature = "serde", serde(other))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

impl DecisionKind {
    codes! {
        /// All that a handle tells.
        8:
            Admitted = "admitted", Queued = "queued", Granted = "granted", Rejected = "rejected",
            TimedOut = "timed_out", Cancelled = "cancelled", WouldQueue = "would_queue", WouldReject = "would_reject",
            ; Unknown = "unknown"
    }
}

/// How the handle changed.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(tag = "change", rename_all = "snake_case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Change"))]
#[non_exhaustive]
pub enum ChangeEntry {
    /// The law moved the limit.
    #[non_exhaustive]
    Limit {
        /// Limit before the change. The new limit is the entry's `limit`.
        from: usize,
        /// Round-trip time by which the law judged, in seconds, if the law can say.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
        rtt_seconds: Option<f64>,
        /// Time with which that was compared, in seconds: a threshold, or a time that was measured before.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
        reference_seconds: Option<f64>,
        /// Result of the comparison: the law's gradient, its `g`.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
        ratio: Option<f64>,
    },
    /// Decisions bind, or don't any more.
    #[non_exhaustive]
    Mode {
        /// Mode before the change.
        #[cfg_attr(feature = "schema", schemars(with = "crate::plan::Mode"))]
        from: Cow<'static, str>,
        /// Mode after the change.
        #[cfg_attr(feature = "schema", schemars(with = "crate::plan::Mode"))]
        to: Cow<'static, str>,
    },
    /// The settings were changed.
    #[non_exhaustive]
    Reload {
        /// Limit before the change.
        from: usize,
    },
    /// The handle is to drain soon, and asks for no more requests: until then it decides as ever.
    Leave,
    /// The handle drains: no request is admitted any more.
    Drain,
    /// The law panicked; the limit stayed what it was.
    LawPanic,
    /// The callers of most requests of a partition that run leave before the answer, while all slots are taken:
    /// [`warnings`][warnings] names it.
    ///
    /// [warnings]: https://docs.rs/tower-admission/latest/tower_admission/struct.Admission.html#method.warnings
    CallersLeave,
    /// The process stood still, frozen or without a processor. Noted where a history is taken.
    #[non_exhaustive]
    Stall {
        /// Time for which it did nothing, in seconds.
        seconds: f64,
    },
    /// The store that counts [shared rules][shared] fails, is left alone, or answers again.
    ///
    /// [shared]: https://docs.rs/tower-admission/latest/tower_admission/struct.AdmissionBuilder.html#method.shared
    #[non_exhaustive]
    Store {
        /// [State](crate::StoreSnapshot::state) before the change.
        #[cfg_attr(feature = "schema", schemars(with = "crate::tokens::StoreState"))]
        from: Cow<'static, str>,
        /// State after the change.
        #[cfg_attr(feature = "schema", schemars(with = "crate::tokens::StoreState"))]
        to: Cow<'static, str>,
        /// Time for which the store was down, in seconds, if it comes back from that.
        #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
        down_seconds: Option<f64>,
    },
    /// A change of a later version; told by no handle of this one.
    #[cfg_attr(feature = "serde", serde(other))]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

impl BlockingBound {
    /// Whether the obstacle is a bound, with numbers.
    const fn counts(self) -> bool {
        !matches!(self, Self::Nothing | Self::Deadline | Self::Draining | Self::Store)
    }
}

/// Which entries are wanted.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Wanted {
    #[default]
    All,
    Decisions,
    Changes,
}

/// An entry before its names were looked up.
pub(crate) type Found<'a> = (u64, Result<&'a Noted<Decision>, &'a Noted<ChangeEvent>>);

impl Journal {
    /// Returns the entries after the entry with this number, the newest of them, in their order.
    pub(crate) fn after(&self, sequence: u64, wanted: Wanted) -> Vec<Found<'_>> {
        let decisions = self.decisions.newest_while(move |it| it.sequence > sequence);
        let decisions = decisions.map(|it| (it.sequence, Ok(it)));
        let changes = self.changes.newest_while(move |it| it.sequence > sequence).map(|it| (it.sequence, Err(it)));
        let mut found: Vec<_> = match wanted {
            Wanted::All => decisions.chain(changes).collect(),
            Wanted::Decisions => decisions.collect(),
            Wanted::Changes => changes.collect(),
        };
        found.sort_unstable_by_key(|&(number, _)| number);
        found
    }

    /// Returns how many decisions are remembered, and as many changes.
    pub(crate) const fn capacity(&self) -> usize {
        self.decisions.capacity()
    }
}

impl<T> Noted<T> {
    fn entry(&self, event: JournalEvent) -> JournalEntry {
        JournalEntry {
            sequence: self.sequence,
            at_seconds: self.at.since(Timestamp::ZERO).as_secs_f64(),
            event,
            in_flight: self.gauges.in_flight as usize,
            limit: self.gauges.limit as usize,
            waiting: self.gauges.waiting as usize,
        }
    }
}

impl Noted<Decision> {
    /// Returns the entry, with the names that its numbers had.
    pub(crate) fn view(&self, names: DecisionEntry) -> JournalEntry {
        let Decision { waited, kind, reason, blocker, .. } = self.what;
        let counted = |number: u32| blocker.by.counts().then_some(number as usize);
        self.entry(JournalEvent::Decision(DecisionEntry {
            decision: match (kind, reason) {
                (DecisionKind::Rejected, Some(Reason::Deadline)) if waited > 0.0 => DecisionKind::TimedOut,
                _ => kind,
            },
            reason,
            rule: blocker.by.rule().map(Cow::Borrowed),
            used: counted(blocker.used),
            bound: counted(blocker.bound),
            waited_seconds: f64::from(waited),
            ..names
        }))
    }
}

impl Noted<ChangeEvent> {
    pub(crate) fn view(&self) -> JournalEntry {
        self.entry(JournalEvent::Change(match self.what {
            ChangeEvent::Limit { from, basis } => ChangeEntry::Limit {
                from: from as usize,
                rtt_seconds: basis.rtt_seconds(),
                reference_seconds: basis.reference_seconds(),
                ratio: basis.ratio_if_known(),
            },
            ChangeEvent::Mode { from, to } => ChangeEntry::Mode { from: from.as_str().into(), to: to.as_str().into() },
            ChangeEvent::Reload { from } => ChangeEntry::Reload { from: from as usize },
            ChangeEvent::Leave => ChangeEntry::Leave,
            ChangeEvent::Drain => ChangeEntry::Drain,
            ChangeEvent::LawPanic => ChangeEntry::LawPanic,
            ChangeEvent::CallersLeave => ChangeEntry::CallersLeave,
            ChangeEvent::Stall(lasted) => ChangeEntry::Stall { seconds: lasted.as_secs_f64() },
            ChangeEvent::Store(it) => ChangeEntry::Store {
                from: it.from.as_str().into(),
                to: it.to.as_str().into(),
                down_seconds: it.down_for.map(|time| time.as_secs_f64()),
            },
        }))
    }
}
