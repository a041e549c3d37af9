//! Telemetry: counts by partition and by label, times, and the journal of decisions and changes.
//!
//! What happened comes in by one door, [`Telemetry::take`]. Requests that were admitted, rejected or cancelled and waiters add up
//! to the requests that arrived.

mod classes_seen;
mod counts;
mod event;
mod followed;
mod health;
mod health_state;
mod journal;
mod label_metrics;
mod label_window;
mod recent;
mod rejected_by;
mod sampled;
mod totals;

use std::time::Duration;

use self::{
    classes_seen::ClassesSeen, health_state::HealthState, journal::Journal, label_metrics::AllLabelMetrics,
    sampled::TimeKind, totals::Totals,
};
pub use self::{
    counts::Counts,
    event::BlockingBound,
    health::Health,
    journal::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent, MOST_ENTRIES, Wanted},
    label_metrics::{LabelOutcome, named},
    rejected_by::RejectedCount,
};
pub(crate) use self::{
    event::{Blocker, ChangeEvent, Decided, Event, Gauges, short},
    health::HealthInputs,
    journal::{Decision, Noted},
    label_metrics::{LabelCounts, LabelMetricsName, LabelMetricsRef, Named},
    label_window::{LabelGauges, LabelWindow, Most},
    recent::{Held, LastSeconds, PartitionGauges, RejectionKind},
    sampled::SampledCounts,
};
use crate::{
    Outcome, Reason, Timestamp,
    ids::{LabelId, LabelMetricsId, PartitionId},
    plan::{LabelPlan, rules::RulesPlan},
    tokens::{Borrower, RequestRef},
};

/// What the journal tells of a request that runs: as it came, or after a wait.
const ADMITTED: (DecisionKind, Option<Reason>) = (DecisionKind::Admitted, None);
const GRANTED: (DecisionKind, Option<Reason>) = (DecisionKind::Granted, None);

/// Everything that is counted or noted.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// Counts by partition.
    counts: Vec<Counts>,
    /// Totals by label.
    totals: Vec<Totals>,
    health: HealthState,
    label_metrics: AllLabelMetrics,
    classes_seen: ClassesSeen,
    /// Reloads of the settings.
    reloads: u64,
    journal: Journal,
    /// What a history asks for besides.
    sampled: sampled::Sampled,
}

/// What it is of use to find out or to keep for telemetry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// What was in the way of a request, since there is a journal.
    pub(crate) blockers: bool,
    /// The metrics of a label, since any label has some.
    pub(crate) label_metrics: bool,
    /// A judgement of the handle, since a second is over.
    pub(crate) judgement: bool,
    /// Names of runs: of those that left after the first of these entries of the journal. The second is its newest.
    pub(crate) journal: (u64, u64),
}

impl Telemetry {
    /// Returns telemetry with room for these numbers of partitions and decisions.
    pub(crate) fn new(partitions: usize, decisions: usize) -> Self {
        let mut telemetry = Self {
            counts: Vec::new(),
            totals: vec![Totals::default()],
            health: HealthState::default(),
            label_metrics: AllLabelMetrics::default(),
            classes_seen: ClassesSeen::default(),
            reloads: 0,
            journal: Journal::new(decisions),
            sampled: sampled::Sampled::default(),
        };
        telemetry.grow(partitions);
        telemetry
    }

    fn replace(&mut self, partitions: usize, decisions: usize) {
        self.reloads += 1;
        self.grow(partitions);
        self.classes_seen.before = self.counts.iter().map(|it| it.arrived).sum();
        self.journal.resize(decisions);
    }

    fn grow(&mut self, partitions: usize) {
        self.counts.resize_with(partitions, Counts::default);
        self.health.grow(partitions);
        self.sampled.rejected_by.grow(partitions);
    }

    /// Returns how often the settings were changed.
    pub(crate) const fn reloads(&self) -> u64 {
        self.reloads
    }

    /// Takes what happened, and the state of the handle then: the only way in which the engine tells anything of requests.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: Timestamp, event: Event<'_>, gauges: Gauges) {
        match event {
            Event::Arrived { partition, label } => {
                self.counts[partition.index()].arrived += 1;
                self.tally(label, |metrics| metrics.requests += 1);
            }
            Event::Met(class) => self.classes_seen.note(class),
            Event::Admitted(request) => {
                self.counts[request.partition.index()].admitted += 1;
                self.count_admitted(request.label);
                self.journal.decided(now, ADMITTED, request, Blocker::NOTHING, gauges);
            }
            Event::Decided(request, decided) => self.decided(now, request, decided, gauges),
            Event::Ended { partition, label, metrics, outcome, rtt, weight } => {
                self.ended(partition, label, metrics, outcome, (rtt, weight.into()));
            }
            Event::EndedUntimed { borrower, outcome, count } => {
                self.count_left(borrower.label, outcome, count);
                *self.counts[borrower.partition.index()].of(outcome) += count;
                self.tally(borrower.label, |metrics| metrics.ended(LabelOutcome::of_ended(outcome), count));
            }
            Event::AnsweredLate { borrower: Borrower { partition, label }, count } => {
                self.counts[partition.index()].late += count;
                self.count_left(label, Outcome::Cancelled, count);
            }
            Event::EndedLate(partition) => self.counts[partition.index()].late_overloads += 1,
            Event::AdmittedUnlisted { borrower: Borrower { partition, label }, count } => {
                let counts = &mut self.counts[partition.index()];
                counts.arrived = counts.arrived.wrapping_add_signed(count);
                counts.admitted = counts.admitted.wrapping_add_signed(count);
                if label != LabelId::DEFAULT {
                    let totals = self.totals_mut(label);
                    totals.admitted = totals.admitted.wrapping_add_signed(count);
                    self.tally(label, |metrics| metrics.requests = metrics.requests.wrapping_add_signed(count));
                }
            }
            Event::Listed { request, in_flight } => {
                let gauges = Gauges { in_flight, ..gauges };
                self.journal.decided(request.since, ADMITTED, request, Blocker::NOTHING, gauges);
            }
            Event::RejectedUnlisted { partition, reason, count } => {
                let counts = &mut self.counts[partition.index()];
                counts.arrived += count;
                counts.rejected[reason.index()] += count;
                self.totals_mut(LabelId::DEFAULT).rejected[RejectionKind::of(reason) as usize] += count;
                #[expect(clippy::cast_possible_truncation, reason = "counts of a moment, which wrap around anyway")]
                let count = count as u32;
                self.sampled.rejected_by.count(partition, 0, reason, BlockingBound::of_plain(reason), count);
            }
            Event::Named(label, name, plans) => {
                // Its counts begin at zero.
                *self.totals_mut(label) = Totals { named_from: self.journal.sequence + 1, ..Totals::default() };
                self.label_metrics.find(label, name, plans);
            }
            Event::Settings { partitions, decisions } => self.replace(partitions, decisions),
            Event::SamplingBegins => self.sampled.rejected_by.begin(self.counts.len()),
            Event::Waits { are_longer } => self.health.are_waits_longer = are_longer,
            Event::Changed(event) => {
                if let ChangeEvent::Stall(_) = event {
                    self.health.judge.begin(now);
                }
                self.journal.changed(now, event, gauges);
            }
        }
    }

    /// Takes what became of a request. Compiled where that is told, since it is known there what it was.
    #[inline(always)]
    fn decided(&mut self, now: Timestamp, request: RequestRef, decided: Decided, gauges: Gauges) {
        let counts = &mut self.counts[request.partition.index()];
        let nothing = Blocker::NOTHING;
        let (kind, request, blocker) = match decided {
            Decided::LetThrough => {
                counts.admitted += 1;
                return;
            }
            Decided::Asks => return self.count_admitted(request.label),
            Decided::GaveBack => {
                let totals = self.totals_mut(request.label);
                totals.admitted = totals.admitted.saturating_sub(1);
                return;
            }
            Decided::Queued(blocker) => ((DecisionKind::Queued, None), request, blocker),
            Decided::Granted { asks } => {
                self.count_admitted(request.label);
                if asks {
                    return;
                }
                (GRANTED, request, nothing)
            }
            Decided::Claimed { waited, asked } => {
                counts.admitted += 1;
                if waited {
                    let wait = now.since(request.since);
                    counts.queued += 1;
                    counts.wait.record(wait);
                    self.tally(request.label, |metrics| metrics.times.wait.record(wait));
                    self.note_time(request.label, TimeKind::Wait, wait);
                }
                match (asked, waited) {
                    (false, _) => return,
                    (true, true) => (GRANTED, request, nothing),
                    (true, false) => (ADMITTED, RequestRef { since: now, ..request }, nothing),
                }
            }
            Decided::Rejected { reason, blocker, timed_out } => {
                counts.rejected[reason.index()] += 1;
                let totals = self.totals_mut(request.label);
                totals.rejected[RejectionKind::of(reason) as usize] += 1;
                let row = totals.row;
                self.sampled.rejected_by.count(request.partition, row, reason, blocker.by, 1);
                let outcome = if timed_out { LabelOutcome::Timeout } else { LabelOutcome::of_rejected(reason) };
                self.tally(request.label, |metrics| metrics.ended(outcome, 1));
                let kind = if timed_out { DecisionKind::TimedOut } else { DecisionKind::Rejected };
                ((kind, Some(reason)), request, blocker)
            }
            Decided::Cancelled => {
                counts.cancelled_waiting += 1;
                self.count_left(request.label, Outcome::Cancelled, 1);
                self.tally(request.label, |metrics| metrics.ended(LabelOutcome::Cancelled, 1));
                ((DecisionKind::Cancelled, None), request, nothing)
            }
            Decided::DryRun { reject: None, blocker } => {
                counts.would_queue += 1;
                ((DecisionKind::WouldQueue, None), request, blocker)
            }
            Decided::DryRun { reject: Some(reason), blocker } => {
                counts.would_reject[reason.index()] += 1;
                self.totals_mut(request.label).would_reject += 1;
                ((DecisionKind::WouldReject, Some(reason)), request, blocker)
            }
        };
        self.journal.decided(now, kind, request, blocker, gauges);
    }

    #[inline]
    fn count_admitted(&mut self, label: LabelId) {
        if label != LabelId::DEFAULT {
            self.totals_mut(label).admitted += 1;
        }
    }

    #[inline]
    fn count_left(&mut self, label: LabelId, outcome: Outcome, count: u64) {
        if outcome == Outcome::Cancelled && label != LabelId::DEFAULT {
            self.totals_mut(label).left += count;
        }
    }

    /// Returns what it is of use to find out or to keep for telemetry. Compiled where it is asked, so that only that is looked up.
    #[inline(always)]
    pub(crate) fn wants(&self, now: Timestamp) -> Wants {
        Wants {
            blockers: !self.journal.is_off(),
            label_metrics: self.label_metrics.is_on(),
            judgement: self.health.is_due(now),
            journal: (self.journal.forgotten_until(), self.journal.sequence),
        }
    }

    #[inline(always)]
    fn ended(
        &mut self,
        partition: PartitionId,
        label: LabelId,
        metrics: LabelMetricsId,
        outcome: Outcome,
        (rtt, weight): (Duration, u64),
    ) {
        let counts = &mut self.counts[partition.index()];
        *counts.of(outcome) += 1;
        if outcome == Outcome::Success {
            counts.rtt.record_many(rtt, weight);
            self.note_time(label, TimeKind::RoundTrip, rtt);
        }
        self.count_left(label, outcome, 1);
        if self.label_metrics.is_on() {
            self.label_metrics.count(metrics, |metrics| {
                metrics.ended(LabelOutcome::of_ended(outcome), 1);
                if outcome == Outcome::Success {
                    metrics.times.rtt.record_many(rtt, weight);
                }
            });
        }
    }

    pub(crate) fn counts(&self, partition: PartitionId) -> &Counts {
        &self.counts[partition.index()]
    }

    /// Returns what became of the requests of a label.
    pub(crate) fn totals(&self, label: LabelId) -> Totals {
        self.totals.get(label.index() as usize).copied().unwrap_or_default()
    }

    fn totals_mut(&mut self, label: LabelId) -> &mut Totals {
        let index = label.index() as usize;
        if self.totals.len() <= index {
            self.totals.resize(index + 1, Totals::default());
        }
        &mut self.totals[index]
    }

    /// Opens metrics for the labels that settings name, and looks up those of all `labels`.
    pub(crate) fn open_label_metrics<'a>(
        &mut self,
        plans: (&LabelPlan, &RulesPlan),
        labels: impl Iterator<Item = (LabelId, Named<'a>)>,
    ) {
        self.label_metrics.open(plans, labels);
    }

    /// Returns the metrics of a label.
    #[inline]
    pub(crate) fn label_metrics_of(&self, label: LabelId) -> LabelMetricsId {
        self.label_metrics.of(label)
    }

    #[inline]
    fn tally(&mut self, label: LabelId, count: impl FnOnce(&mut LabelCounts)) {
        if self.label_metrics.is_on() {
            self.label_metrics.count(self.label_metrics.of(label), count);
        }
    }

    /// Returns the metrics of all labels, the shared ones first.
    pub(crate) fn label_metrics(&self) -> impl Iterator<Item = LabelMetricsRef<'_>> {
        self.label_metrics.iter()
    }

    /// Returns of which classes of rules requests came.
    pub(crate) const fn classes_seen(&self) -> ClassesSeen {
        self.classes_seen
    }

    /// Returns the entries of the journal, for a reader that knows names.
    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }
}
