//! Writing into the journal.

use super::{Bar, Cause, Changed, Event, Party, Record, Verdict};
use crate::{
    engine::{Ask, Engine, ids::LabelId, plan::PartitionMode, rules::Full, runs, tokens::Holder},
    rejection::Reason,
    time::Timestamp,
};

/// Counts are far below four billion.
#[expect(clippy::cast_possible_truncation, reason = "see above; bounds may be the largest number there is")]
const fn short(count: usize) -> u32 {
    if count > u32::MAX as usize { u32::MAX } else { count as u32 }
}

impl Party {
    /// Somebody who has just come.
    pub(crate) const fn new(now: Timestamp, partition: u16, label: LabelId) -> Self {
        Self { partition, label, run: runs::NONE, since: now }
    }
}

impl Engine {
    /// Notes that a request was admitted as it came.
    #[inline]
    pub(crate) fn note_admitted(&mut self, now: Timestamp, holder: Holder) {
        self.note(now, Verdict::ADMITTED, Party::new(now, holder.partition, holder.label), Cause::NOTHING);
    }

    /// Notes what became of a request.
    #[inline]
    pub(crate) fn note(&mut self, now: Timestamp, verdict: Verdict, party: Party, cause: Cause) {
        if self.telemetry.journal.is_off() {
            return;
        }
        self.telemetry.journal.sequence += 1;
        let Party { partition, label, run, since } = party;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower half is wanted; and 24 bits are enough for a wait"
        )]
        let record = Record {
            at: now,
            sequence: self.telemetry.journal.sequence as u32,
            waited: if since < now { now.since(since).as_secs_f32() } else { 0.0 },
            label,
            run,
            used: short(cause.used),
            bound: short(cause.bound),
            in_flight: short(self.capacity.running),
            limit: short(self.capacity.limit),
            waiting: short(self.queue.in_line + self.queue.at_gate),
            partition,
            verdict,
            bar: cause.bar,
        };
        self.telemetry.journal.decisions.push(record);
    }

    /// Notes that a request that came was turned away.
    #[cold]
    pub(crate) fn note_refused(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId, reason: Reason) {
        if !self.telemetry.journal.is_off() {
            let cause = self.cause(now, ask.partition, label, reason);
            let party = self.party(now, ask, label);
            self.note(now, Verdict::rejected(reason), party, cause);
        }
    }

    /// Notes that a request that came has to wait.
    #[cold]
    pub(crate) fn note_queued(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) {
        if !self.telemetry.journal.is_off() {
            let cause = self.obstacle(now, ask.partition, label);
            let party = self.party(now, ask, label);
            self.note(now, Verdict::QUEUED, party, cause);
        }
    }

    /// Notes what would have become of a request, had decisions been binding.
    #[cold]
    pub(crate) fn note_would(&mut self, now: Timestamp, party: Party, refused: Option<Reason>) {
        if !self.telemetry.journal.is_off() {
            let Party { partition, label, .. } = party;
            let (verdict, cause) = match refused {
                Some(reason) => (Verdict::would_reject(reason), self.cause(now, partition, label, reason)),
                None => (Verdict::WOULD_QUEUE, self.obstacle(now, partition, label)),
            };
            self.note(now, verdict, party, cause);
        }
    }

    /// Notes that somebody who waited was turned away.
    #[cold]
    pub(crate) fn note_ended(&mut self, now: Timestamp, party: Party, reason: Reason) {
        if !self.telemetry.journal.is_off() {
            let cause = self.cause(now, party.partition, party.label, reason);
            self.note(now, Verdict::rejected(reason), party, cause);
        }
    }

    /// Notes that a request waited for as long as it might, and what was in its way.
    #[cold]
    pub(crate) fn note_timed_out(&mut self, now: Timestamp, party: Party, reason: Reason) {
        if !self.telemetry.journal.is_off() {
            let cause = self.cause(now, party.partition, party.label, reason);
            self.note(now, Verdict::timed_out(reason), party, cause);
        }
    }

    /// Notes that something changed.
    #[cold]
    pub(crate) fn note_change(&mut self, now: Timestamp, event: Event) {
        if !self.telemetry.journal.is_off() {
            self.telemetry.journal.sequence += 1;
            let (limit, in_flight) = (short(self.capacity.limit), short(self.capacity.running));
            let waiting = short(self.queue.in_line + self.queue.at_gate);
            let sequence = self.telemetry.journal.sequence;
            self.telemetry.journal.changes.push(Changed { at: now, sequence, event, limit, in_flight, waiting });
        }
    }

    /// A number as entries hold it.
    pub(crate) const fn limit_as_noted(&self) -> u32 {
        short(self.capacity.limit)
    }

    /// Somebody who has just come, and the run that it belongs to.
    pub(crate) fn party(&self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Party {
        let run = ask.subject.and_then(|subject| Some(self.queue.runs.find(subject.namespace, subject.run?)));
        let run = run.unwrap_or(runs::NONE);
        Party { run, ..Party::new(now, ask.partition, label) }
    }

    /// What a request was turned away for.
    fn cause(&self, now: Timestamp, partition: u16, label: LabelId, reason: Reason) -> Cause {
        let one = self.quotas.labels.get(label);
        match reason {
            Reason::Deadline => Cause::new(Bar::Deadline, 0, 0),
            Reason::Draining => Cause::new(Bar::Draining, 0, 0),
            Reason::PendingUnavailable | Reason::StoreUnavailable => Cause::NOTHING,
            Reason::GateFull | Reason::GateTimeout => {
                let bound = self.capacity.limit.saturating_add(self.queue.queue.unwrap_or(0));
                Cause::new(Bar::Gate, self.capacity.running + self.queue.in_line, bound)
            }
            Reason::LabelQueueFull => Cause::new(Bar::MaxWaiting, one.waiting, self.quotas.labels.plan().max_waiting),
            Reason::RunCap => {
                let bound = self.quotas.labels.plan().max_waiting_per_run;
                Cause::new(Bar::MaxWaitingPerRun, bound, bound)
            }
            Reason::PushedOut | Reason::QueueFull => {
                Cause::new(Bar::Queue, self.queue.in_line, self.queue.line.places.count(self.capacity.limit))
            }
            Reason::PartitionCap => {
                let it = &self.capacity.partitions[partition as usize];
                Cause::new(Bar::Partition, it.running, it.cap)
            }
            Reason::Budget | Reason::NamespaceCap | Reason::PendingFull | Reason::Rate => {
                let full = self.stopped_by(now, label).filter(|full| full.reason == reason);
                full.map_or(Cause::NOTHING, |full| self.cause_of_rule(now, label, &full))
            }
            Reason::LabelCap | Reason::Limit | Reason::QueueTimeout => self.obstacle(now, partition, label),
        }
    }

    /// What keeps a request from running, in the order in which it is asked.
    fn obstacle(&self, now: Timestamp, partition: u16, label: LabelId) -> Cause {
        let it = &self.capacity.partitions[partition as usize];
        if self.quotas.labels.is_full(label) {
            let (one, bound) = (self.quotas.labels.get(label), self.quotas.labels.cap(label));
            let slots = one.workers.as_ref().filter(|_| self.quotas.labels.plan().enforce_workers).map(|it| it.slots());
            let bar = match (one.rule.cap, slots) {
                (Some(cap), _) if cap == bound => Bar::LabelCap,
                (_, Some(slots)) if slots == bound => Bar::WorkerSlots,
                _ => Bar::MaxInFlight,
            };
            Cause::new(bar, one.running, bound)
        } else if let Some(full) = self.full_rule(now, label) {
            self.cause_of_rule(now, label, &full)
        } else if it.plan.mode == PartitionMode::HardCap && it.running >= it.cap {
            Cause::new(Bar::Partition, it.running, it.cap)
        } else {
            let bar = if self.capacity.running < self.capacity.limit { Bar::Kept } else { Bar::Limit };
            Cause::new(bar, self.capacity.running, self.capacity.limit)
        }
    }

    pub(crate) fn cause_of_rule(&self, now: Timestamp, label: LabelId, full: &Full) -> Cause {
        let bar = match (full.reason, full.meter) {
            (Reason::Budget, _) => Bar::Budget,
            (Reason::NamespaceCap, _) => Bar::MaxInFlightPerNamespace,
            (Reason::PendingFull, _) => Bar::MaxPending,
            (Reason::Rate, None) => Bar::MaxPerMinute,
            (Reason::Rate, Some(_)) => Bar::MaxPerMinutePerNamespace,
            _ => Bar::MaxInFlight,
        };
        Cause::new(bar, self.quotas.rules.used(now, self.quotas.labels.get(label), full), full.bound)
    }
}
