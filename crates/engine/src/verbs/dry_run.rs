//! Dry run: decisions that don't bind, those of partitions and rules that observe, and those of a shadow law.
//!
//! A request that such a decision would have rejected, or would have made wait, runs all the same. It is counted by
//! reason. It is then left out of what the next of these decisions are judged by, because it would not have been there.
//! So these decisions are exact where the time that a request takes does not depend on what else runs, and no request
//! would have waited. How long a request would have waited isn't known: such a request counts as having come and gone.
//!
//! Two marks on a slot say where it doesn't count: *over the quota* of observing rules, and *over the limit*, where its
//! partition observes. Rules and limits that bind count it in any case.

use crate::{
    Engine, Reason, Timestamp,
    ids::{Key, LabelId},
    plan::rules::WhenFull,
    telemetry::Decided,
    tokens::{Ask, DryRunOutcome, ExhaustedRule, Marks, RequestRef, Slot},
    verbs::decide::Obstacle,
};

impl Engine {
    /// Counts what an observing rule would have done; returns the outcome, and the marks of the request that it
    /// concerns.
    pub(super) fn count_over_quota(
        &mut self,
        now: Timestamp,
        request: RequestRef,
        full: ExhaustedRule,
        may_wait: bool,
    ) -> (Marks, DryRunOutcome) {
        let waits = may_wait && full.when_full == WhenFull::Queue && self.room().in_line;
        let place = if waits { Ok(full.reason) } else { Err(full.into()) };
        let dry_run = self.record_dry_run(now, request, place);
        let observes = self.capacity.partition(request.partition).plan.observes;
        (if observes { Marks::OVER_QUOTA.with(Marks::OVER_LIMIT) } else { Marks::OVER_QUOTA }, dry_run)
    }

    /// Records that a request would have been rejected, or would have waited for what this reason says. Returns what its slot says.
    pub(super) fn record_dry_run(
        &mut self,
        now: Timestamp,
        request: RequestRef,
        place: Result<Reason, Obstacle>,
    ) -> DryRunOutcome {
        let (partition, label) = (request.partition, request.label);
        let blocker = self.if_noted(|engine| match &place {
            Err(obstacle) => engine.blocker(now, partition, label, obstacle),
            Ok(_) => engine.blocker_of_slot(now, partition, label),
        });
        let place = place.map_err(|obstacle| obstacle.reason);
        self.record(now, request, Decided::DryRun { reject: place.err(), blocker });
        DryRunOutcome::have(place)
    }

    /// Tells what would become of a request that finds no slot, and holds back for it what would have been held back. Returns
    /// whether it would wait, and what its slot says.
    pub(super) fn tell_dry_run(&mut self, request: RequestRef, ask: &Ask<'_>, may_wait: bool) -> (bool, DryRunOutcome) {
        let (now, label) = (request.since, request.label);
        let without_wait = |engine: &Self| engine.own_cap(ask.partition, label).unwrap_or(Reason::Limit);
        let place = if may_wait {
            self.place_for(now, ask, label)
                .map(|_| self.exhausted_rule(now, label).map_or_else(|| without_wait(self), |full| full.reason))
        } else {
            Err(Obstacle::new(without_wait(self)))
        };
        if let Err(obstacle) = place
            && !obstacle.is_its_own()
        {
            self.reserve(now, ask, label, may_wait);
        }
        (place.is_ok(), self.record_dry_run(now, request, place))
    }

    /// Runs a request that finds no slot, uncounted, because decisions don't bind.
    pub(super) fn run_uncounted(&mut self, now: Timestamp, ask: &Ask<'_>, label: LabelId) -> Slot {
        let request = self.request_of(now, ask, label);
        let (waits, dry_run) = self.tell_dry_run(request, ask, true);
        self.record(now, request, Decided::LetThrough);
        let marks = self.controller.enter_shadow(waits);
        Slot { dry_run, ..Slot::uncounted(now, ask.partition, self.telemetry.label_metrics_of(label), marks) }
    }

    /// Returns the marks for the slot of a waiter whose turn it is: the observing rules that it exceeds.
    pub(super) fn observe_turn(&mut self, now: Timestamp, key: Key) -> Marks {
        let waiter = self.queue.get(key);
        let (request, mut marks) = (waiter.request(), waiter.marks);
        let RequestRef { partition, label, .. } = request;
        if marks.is_empty()
            && let Some(full) = self.observed(now, label, false)
        {
            let (exceeded, dry_run) = self.count_over_quota(now, request, full, true);
            marks = exceeded;
            self.queue.mark(key, waiter.marks, dry_run);
        }
        if self.lets_all_through(partition) {
            if marks.is_empty() && !self.capacity.may_run(partition, Ask::COST) {
                let waits_for = self.own_cap(partition, label).unwrap_or(Reason::Limit);
                let dry_run = self.record_dry_run(now, request, Ok(waits_for));
                marks = Marks::OVER_QUOTA;
                self.queue.mark(key, waiter.marks, dry_run);
            }
            if !marks.is_empty() {
                marks = marks.with(Marks::OVER_LIMIT);
            }
        }
        marks
    }
}
