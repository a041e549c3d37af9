//! The journal as it is read: with names.

use std::time::Duration;

use super::{Bar, Changed, Event, Journal, Record, Verdict};
use crate::{
    engine::{Engine, labels::Label},
    rejection::Reason,
};

/// One entry of the journal of a handle.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its number, from 1 on. Numbers that are missing belong to entries that others have pushed out.
    pub sequence: u64,
    /// When it happened, in seconds since the handle was made.
    pub at_seconds: f64,
    /// What happened.
    #[cfg_attr(feature = "introspect", serde(flatten))]
    pub event: JournalEvent,
    /// How many ran then, those included that were let in by it.
    pub in_flight: usize,
    /// How many could run at once then.
    pub limit: usize,
    /// How many waited then, in line and at the gate.
    pub waiting: usize,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize), serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum JournalEvent {
    /// Something was decided about a request.
    Decision(DecisionEntry),
    /// The handle changed.
    Change(ChangeEntry),
}

/// What was decided about a request.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DecisionEntry {
    /// What became of it.
    pub decision: DecisionKind,
    /// Why it was not admitted, or would not have been.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<Reason>,
    /// What was in the way: a rule, as in [`RuleSnapshot::rule`](crate::snapshot::RuleSnapshot::rule), or `deadline`,
    /// `draining`, `gate`, `kept`, `limit`, `max_waiting`, `max_waiting_per_run`, `partition` or `queue`.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
    pub rule: Option<&'static str>,
    /// How many were counted by that.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
    pub used: Option<usize>,
    /// How many it allows.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
    pub bound: Option<usize>,
    /// The partition that it belongs to.
    pub partition: String,
    /// The namespace of its label; empty if it has none.
    pub namespace: String,
    /// Its label; empty if it has none, or shared an entry.
    pub label: String,
    /// Whether its label was forgotten since, so that nobody knows its name.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "std::ops::Not::not"))]
    pub forgotten: bool,
    /// Its class of work; empty for all that have no rules of their own.
    pub class: String,
    /// The run that it is a part of, where requests of that have waited.
    #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
    pub run: Option<String>,
    /// How long it had waited, in seconds.
    pub waited_seconds: f64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DecisionKind {
    /// It may run, as it came. Or decisions don't bind; see `reason`.
    Admitted,
    /// It has to wait.
    Queued,
    /// It has waited and may run now.
    Granted,
    /// It was turned away.
    Rejected,
    /// It was turned away because its wait took too long.
    TimedOut,
    /// It left while it waited.
    Cancelled,
    /// It runs because decisions don't bind; it would have had to wait.
    WouldQueue,
    /// It runs because decisions don't bind; it would have been turned away.
    WouldReject,
}

impl DecisionKind {
    /// The machine word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Queued => "queued",
            Self::Granted => "granted",
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::WouldQueue => "would_queue",
            Self::WouldReject => "would_reject",
        }
    }
}

/// How the handle changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize), serde(tag = "change", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ChangeEntry {
    /// The law moved the limit.
    #[non_exhaustive]
    Limit {
        /// What it was before. What it is now is the entry's `limit`.
        from: usize,
        /// The round-trip time that it was judged by, in seconds, if the law can say.
        #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
        rtt_seconds: Option<f64>,
        /// What that was compared with, in seconds: a threshold, or a time that was measured before.
        #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
        reference_seconds: Option<f64>,
        /// What the law made of both: its gradient, its `g`.
        #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
        ratio: Option<f64>,
    },
    /// Decisions bind, or don't any more.
    #[non_exhaustive]
    Mode {
        /// The mode before.
        from: &'static str,
        /// The mode now.
        to: &'static str,
    },
    /// The settings were changed.
    #[non_exhaustive]
    Reload {
        /// The limit before.
        from: usize,
    },
    /// Nobody is let in any more.
    Drain,
    /// The law panicked; the limit stayed what it was.
    LawPanic,
    /// The store that counts [shared rules](crate::AdmissionBuilder::shared) fails, is left alone, or answers again.
    #[non_exhaustive]
    Store {
        /// Its state before: `up`, `failing` or `down`, as in
        /// [`StoreSnapshot::state`](crate::snapshot::StoreSnapshot::state).
        from: &'static str,
        /// Its state now.
        to: &'static str,
        /// For how long it was down, in seconds, if it comes back from that.
        #[cfg_attr(feature = "introspect", serde(skip_serializing_if = "Option::is_none"))]
        down_seconds: Option<f64>,
    },
}

impl Verdict {
    pub(super) fn decision(self, has_waited: bool) -> DecisionKind {
        match (self, self.reason()) {
            (Self::ADMITTED, _) => DecisionKind::Admitted,
            (Self::QUEUED, _) => DecisionKind::Queued,
            (Self::GRANTED, _) => DecisionKind::Granted,
            (Self::WOULD_QUEUE, _) => DecisionKind::WouldQueue,
            _ if self.is_timed_out() => DecisionKind::TimedOut,
            (_, Some(Reason::Deadline)) if self.is_rejected() && has_waited => DecisionKind::TimedOut,
            (_, Some(_)) if self.is_rejected() => DecisionKind::Rejected,
            (_, Some(_)) => DecisionKind::WouldReject,
            (_, None) => DecisionKind::Cancelled,
        }
    }
}

impl Bar {
    const fn as_str(self) -> Option<&'static str> {
        Some(match self {
            Self::Nothing => return None,
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::Draining => "draining",
            Self::Gate => "gate",
            Self::Kept => "kept",
            Self::LabelCap => "label_cap",
            Self::Limit => "limit",
            Self::MaxInFlight => "max_in_flight",
            Self::MaxInFlightPerNamespace => "max_in_flight_per_namespace",
            Self::MaxPending => "max_pending",
            Self::MaxPerMinute => "max_per_minute",
            Self::MaxPerMinutePerNamespace => "max_per_minute_per_namespace",
            Self::MaxWaiting => "max_waiting",
            Self::MaxWaitingPerRun => "max_waiting_per_run",
            Self::Partition => "partition",
            Self::Queue => "queue",
            Self::WorkerSlots => "worker_slots",
        })
    }

    /// Whether it is a bound, with numbers.
    const fn counts(self) -> bool {
        !matches!(self, Self::Nothing | Self::Deadline | Self::Draining)
    }
}

/// Which entries are wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Wanted {
    #[default]
    All,
    #[cfg_attr(not(feature = "introspect"), expect(dead_code, reason = "only introspection asks for less"))]
    Decisions,
    #[cfg_attr(not(feature = "introspect"), expect(dead_code, reason = "only introspection asks for less"))]
    Changes,
}

/// An entry before its names were looked up.
type Found<'a> = (u64, Result<&'a Record, &'a Changed>);

impl Journal {
    /// Those after the entry with this number, the newest of them, in their order.
    fn after(&self, sequence: u64, wanted: Wanted) -> Vec<Found<'_>> {
        let newer = |found: &Found<'_>| found.0 > sequence;
        let decisions = self.decisions.iter().rev().map(|it| (self.whole(it.sequence), Ok(it))).take_while(newer);
        let changes = self.changes.iter().rev().map(|it| (it.sequence, Err(it))).take_while(newer);
        let mut found: Vec<_> = match wanted {
            Wanted::All => decisions.chain(changes).collect(),
            Wanted::Decisions => decisions.collect(),
            Wanted::Changes => changes.collect(),
        };
        found.sort_unstable_by_key(|&(number, _)| number);
        found
    }
}

impl Engine {
    /// The oldest entries after the one with this number, so many at most.
    pub(crate) fn journal_since(&self, sequence: u64, count: usize, wanted: Wanted) -> Vec<JournalEntry> {
        let found = self.journal.after(sequence, wanted).into_iter().take(count);
        let entries = found.map(|(number, it)| match it {
            Ok(record) => self.decided(number, record),
            Err(changed) => changed.view(number),
        });
        entries.collect()
    }

    /// After which number the newest entries come, so many of them.
    #[cfg(feature = "introspect")]
    pub(crate) fn journal_before(&self, count: usize, wanted: Wanted) -> u64 {
        let all = self.journal.after(0, wanted);
        all.iter().rev().nth(count).map_or(0, |&(number, _)| number)
    }

    /// How many decisions are kept, and as many changes.
    #[cfg(feature = "introspect")]
    pub(crate) fn journal_capacity(&self) -> usize {
        self.journal.decisions.entries.len()
    }

    /// The number of the newest entry.
    pub(crate) const fn journal_newest(&self) -> u64 {
        self.journal.sequence
    }

    fn decided(&self, sequence: u64, record: &Record) -> JournalEntry {
        let is_shared = !self.labels.is_named(record.label);
        let label = self.labels.get(record.label);
        let named = |label: &&Label| is_shared || label.named_from <= sequence;
        let (known, forgotten) = (Some(label).filter(named), !named(&label));
        let name = |of: fn(&Label) -> &str| known.map(of).unwrap_or_default().to_owned();
        let counted = |number: u32| record.bar.counts().then_some(number as usize);
        let decided = DecisionEntry {
            decision: record.verdict.decision(record.waited > 0.0),
            reason: record.verdict.reason(),
            rule: record.bar.as_str(),
            used: counted(record.used),
            bound: counted(record.bound),
            partition: self.partitions[record.partition as usize].plan.name.to_string(),
            namespace: name(|label| &label.namespace),
            label: name(|label| &label.name),
            forgotten,
            class: known.map(|label| self.rules.class_name(label.class)).unwrap_or_default().to_owned(),
            run: self.runs.name(record.run).map(str::to_owned),
            waited_seconds: f64::from(record.waited),
        };
        JournalEntry {
            sequence,
            at_seconds: seconds(record.at.as_nanos()),
            event: JournalEvent::Decision(decided),
            in_flight: record.in_flight as usize,
            limit: record.limit as usize,
            waiting: record.waiting as usize,
        }
    }
}

impl Changed {
    fn view(&self, sequence: u64) -> JournalEntry {
        let change = match self.event {
            Event::Limit { from, basis } => ChangeEntry::Limit {
                from: from as usize,
                rtt_seconds: basis.rtt_seconds(),
                reference_seconds: basis.reference_seconds(),
                ratio: basis.ratio_if_known(),
            },
            Event::Mode { from, to } => ChangeEntry::Mode { from: from.as_str(), to: to.as_str() },
            Event::Reload { from } => ChangeEntry::Reload { from: from as usize },
            Event::Drain => ChangeEntry::Drain,
            Event::LawPanic => ChangeEntry::LawPanic,
            Event::Store(it) => ChangeEntry::Store {
                from: it.from.as_str(),
                to: it.to.as_str(),
                down_seconds: it.down_for.map(|time| time.as_secs_f64()),
            },
        };
        JournalEntry {
            sequence,
            at_seconds: seconds(self.at.as_nanos()),
            event: JournalEvent::Change(change),
            in_flight: self.in_flight as usize,
            limit: self.limit as usize,
            waiting: self.waiting as usize,
        }
    }
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}
