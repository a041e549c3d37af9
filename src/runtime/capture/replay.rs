//! An engine without a handle, for replays: the simulator tells it what a recorded one was told.

use std::{sync::Arc, task::Poll};

use crate::{
    BuildError, Outcome, Reason, Timestamp,
    engine::{Arrival, Ask, ClassId, Engine, PartitionId, Place, Slot, Subject, plan::Mode},
    runtime::{AdmissionBuilder, DrainMode, WorkerReport},
    ticket::Ticket,
};

/// An engine that decides again. For `admission-simulator` of the same version, and no part of the interface.
#[derive(Debug)]
pub struct ReplayEngine {
    engine: Engine,
    /// Names of all partitions that there have been, by their numbers.
    partitions: Vec<Arc<str>>,
}

/// A request in a [`ReplayEngine`].
#[derive(Debug)]
pub struct ReplayRequest(Stage);

#[derive(Debug)]
enum Stage {
    Waits(Place),
    Runs(Slot),
}

impl ReplayRequest {
    /// Returns the number of its place, if it waits.
    pub const fn place(&self) -> Option<u32> {
        match &self.0 {
            Stage::Waits(place) => Some(place.key().index),
            Stage::Runs(_) => None,
        }
    }
}

impl ReplayEngine {
    /// Begins with these settings, at time zero.
    ///
    /// # Errors
    ///
    /// If the settings can't be used.
    pub fn new(settings: AdmissionBuilder) -> Result<Self, BuildError> {
        let (plan, _) = settings.settings.into_plan()?;
        let engine = Engine::new(plan);
        let partitions = engine.partitions().map(|(_, name, _)| Arc::from(name)).collect();
        Ok(Self { engine, partitions })
    }

    /// Takes new settings.
    ///
    /// # Errors
    ///
    /// If the settings can't be used.
    pub fn reload(&mut self, now: Timestamp, settings: AdmissionBuilder) -> Result<(), BuildError> {
        let (plan, _) = settings.settings.into_plan()?;
        self.partitions.extend(self.engine.reload(now, plan));
        Ok(())
    }

    /// Lets a request arrive, whose caller may give up at some time.
    ///
    /// # Errors
    ///
    /// Returns why it is rejected.
    pub fn arrive(
        &mut self,
        now: Timestamp,
        ticket: &Ticket<'_>,
        deadline: Option<Timestamp>,
        waits: bool,
    ) -> Result<ReplayRequest, Reason> {
        let class = ticket.class_name().map_or(ClassId::OTHERS, |class| self.engine.class(class));
        let number = |name: &str| self.partitions.iter().position(|known| **known == *name);
        let partition = ticket.partition_name().and_then(number).and_then(PartitionId::from_index);
        let partition = partition.unwrap_or(PartitionId::DEFAULT);
        let subject = ticket.label_name().map(|it| Subject::new(ticket.namespace_name(), it, ticket.run_name()));
        let deadline = deadline.unwrap_or(Timestamp::NEVER);
        let ask = Ask { partition, class, criticality: ticket.how_critical(), subject, deadline };
        match if waits { self.engine.arrive(now, &ask) } else { self.engine.arrive_now(now, &ask) } {
            Arrival::Admit(slot) => Ok(ReplayRequest(Stage::Runs(slot))),
            Arrival::Wait(place) | Arrival::Ask(place, _) => Ok(ReplayRequest(Stage::Waits(place))),
            Arrival::Reject(refusal) => Err(refusal.reason),
        }
    }

    /// Has a waiter ask for its slot: ready where it has one, or is rejected.
    pub fn claim(&mut self, now: Timestamp, request: &mut ReplayRequest) -> Poll<Result<(), Reason>> {
        let Stage::Waits(place) = &request.0 else { return Poll::Ready(Ok(())) };
        self.engine.claim(now, place).map(|answer| {
            request.0 = Stage::Runs(answer.map_err(|refusal| refusal.reason)?);
            Ok(())
        })
    }

    /// Notes that the answer to a request has begun.
    pub fn answer(&mut self, now: Timestamp, request: &mut ReplayRequest) {
        if let Stage::Runs(slot) = &mut request.0 {
            self.engine.answer(now, slot);
        }
    }

    /// Takes the outcome of a request that runs.
    pub fn observe(&mut self, now: Timestamp, request: &mut ReplayRequest, outcome: Outcome) {
        if let Stage::Runs(slot) = &mut request.0 {
            self.engine.observe(now, slot, outcome);
        }
    }

    /// Notes that a request goes on after its outcome was taken.
    pub fn go_on(&mut self, now: Timestamp) {
        self.engine.go_on(now);
    }

    /// Takes the outcome of a request that runs and is given up, while its work may go on.
    pub fn abandon(&mut self, now: Timestamp, request: &mut ReplayRequest, outcome: Outcome) {
        if let Stage::Runs(slot) = &mut request.0 {
            self.engine.abandon(now, slot, outcome);
        }
    }

    /// Takes an overload that showed after the outcome.
    pub fn observe_late_overload(&mut self, now: Timestamp, request: &ReplayRequest) {
        if let Stage::Runs(slot) = &request.0 {
            self.engine.observe_late_overload(now, slot);
        }
    }

    /// Ends a request: its slot is free, or its place.
    pub fn finish(&mut self, now: Timestamp, request: ReplayRequest) {
        match request.0 {
            Stage::Waits(place) => self.engine.cancel(now, &place),
            Stage::Runs(mut slot) => self.engine.finish(now, &mut slot),
        }
    }

    /// Moves the time on.
    pub fn tick(&mut self, now: Timestamp) {
        self.engine.tick(now);
    }

    /// Sets whether decisions bind.
    pub fn set_mode(&mut self, now: Timestamp, mode: Mode) {
        self.engine.set_mode(now, mode);
    }

    /// Begins to drain.
    pub fn drain(&mut self, now: Timestamp, mode: DrainMode) {
        self.engine.close(now, matches!(mode, DrainMode::ServeWaiting));
    }

    /// Notes what a worker says.
    pub fn report_worker(&mut self, now: Timestamp, report: &WorkerReport) {
        if let Some((subject, worker)) = report.names() {
            let class = report.class.as_deref();
            self.engine.report_worker(now, class, &subject, worker, report.max_concurrent, report.valid_for);
        }
    }

    /// Forgets a worker that stops.
    pub fn remove_worker(&mut self, now: Timestamp, report: &WorkerReport) {
        if let Some((subject, worker)) = report.names() {
            self.engine.remove_worker(now, report.class.as_deref(), &subject, worker);
        }
    }

    /// Returns the waits that have ended since the last call: the number of the place, and why if there is no slot.
    pub fn take_ended(&mut self) -> Vec<(u32, Option<Reason>)> {
        let ended = self.engine.ended_since(0).map(|(key, reason)| (key.index, reason)).collect();
        while self.engine.take_notice().is_some() {}
        while self.engine.take_expired().is_some() {}
        ended
    }

    /// Returns the limit.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.engine.limit()
    }
}
