//! What a recorder of every step of the engine sees, or a replay of the steps.

use std::{sync::Arc, time::Duration};

use crate::{
    Criticality, Engine, Reason,
    capacity::PartitionView,
    ids::{ClassId, Key, LabelId, Level, PartitionId},
    plan::Mode,
    tokens::{Slot, Stage, Subject, Waiter},
};

/// What a request asked for, in words.
#[doc(hidden)]
#[derive(Debug)]
pub struct Description {
    pub partition: String,
    pub class: Option<String>,
    pub namespace: String,
    pub label: Option<String>,
    pub run: Option<String>,
    pub criticality: Criticality,
}

/// What a worker reports of a label: how many requests it can take and for how long, or nothing where it says goodbye.
#[doc(hidden)]
#[derive(Debug)]
pub struct WorkerDescription {
    pub namespace: String,
    pub label: String,
    pub class: Option<String>,
    pub worker: String,
    pub report: Option<(usize, Duration)>,
}

impl WorkerDescription {
    pub fn new(subject: &Subject<'_>, class: Option<&str>, worker: &str, report: Option<(usize, Duration)>) -> Self {
        Self {
            namespace: subject.namespace.to_owned(),
            label: subject.label.to_owned(),
            class: class.map(str::to_owned),
            worker: worker.to_owned(),
            report,
        }
    }
}

impl Engine {
    /// Whether nothing has happened yet that a decision could depend on.
    pub fn is_fresh(&self) -> bool {
        let unused = |(number, it): (PartitionId, PartitionView<'_>)| {
            let counts = self.telemetry.counts(number);
            it.running == 0 && counts.admitted + counts.cancelled_waiting + counts.rejected.iter().sum::<u64>() == 0
        };
        let known = self.quotas.ids().any(|id| self.quotas.label(id).is_named);
        let is_new = !self.lifecycle.is_draining() && self.telemetry.reloads() == 0;
        self.capacity.partitions().all(unused) && self.queue.live().is_empty() && !known && is_new
    }

    /// Returns how many waiters have not been told yet that their wait has ended.
    pub fn pending_notices(&self) -> usize {
        self.notices.waiters.len()
    }

    /// Returns the waits that ended after the first `known`: the number of the place, and why if there is no slot.
    /// Waiters that have asked already, and so know it, are left out.
    pub fn ended_since(&self, known: usize) -> impl Iterator<Item = (Key, Option<Reason>)> {
        self.notices.waiters.iter().skip(known).filter_map(|&key| {
            let reason = match self.queue.find(key)?.stage {
                Stage::Refused(refusal) => Some(refusal.reason),
                Stage::Gate | Stage::Line | Stage::Granted { .. } => None,
            };
            Some((key, reason))
        })
    }

    #[doc(hidden)]
    pub const fn mode(&self) -> Mode {
        self.lifecycle.standing().mode
    }

    /// Returns what the holder of a slot asked for, as far as the slot tells.
    pub fn describe_slot(&self, slot: &Slot) -> Description {
        self.description(slot.partition, slot.class, slot.label, slot.holder().level)
    }

    /// Returns all waiters that have not heard of an end of their wait, by the number of the place.
    pub fn describe_waiters(&self) -> Vec<(u32, Waiter, Description)> {
        let described = self.queue.live().into_iter().map(|(key, waiter)| {
            let mut words = self.description(waiter.partition, waiter.class, waiter.label, waiter.level);
            words.run = self.queue.run_name(waiter.run).map(str::to_owned);
            (key.index, waiter, words)
        });
        described.collect()
    }

    /// Returns how many requests run in each partition, those included whose slots are only counted.
    pub fn running_by_partition(&self) -> impl Iterator<Item = (PartitionId, Arc<str>, usize)> {
        self.capacity.partitions().map(|(number, it)| (number, Arc::clone(&it.plan.name), it.running))
    }

    /// Returns the workers whose reports hold.
    pub fn describe_workers(&self) -> Vec<WorkerDescription> {
        let labels = self.quotas.ids().map(|id| self.quotas.label(id)).filter(|label| label.is_named);
        let workers = labels.filter_map(|label| Some((label, label.workers?))).flat_map(|(label, workers)| {
            let subject = Subject::new(label.namespace, label.name, None);
            let class = Some(label.class_name).filter(|class| !class.is_empty());
            workers.reports().filter(|&(.., until)| until > self.now).map(move |(worker, slots, until)| {
                WorkerDescription::new(&subject, class, worker, Some((slots, until.since(self.now))))
            })
        });
        workers.collect()
    }

    fn description(&self, partition: PartitionId, class: ClassId, label: LabelId, level: Level) -> Description {
        let label = self.quotas.label(label);
        let class = self.quotas.plans().1.class_name(self.quotas.class_of(class));
        Description {
            partition: self.capacity.partition(partition).plan.name.to_string(),
            class: (!class.is_empty()).then(|| class.to_owned()),
            namespace: if label.is_named { label.namespace.to_owned() } else { String::new() },
            label: label.is_named.then(|| label.name.to_owned()),
            run: None,
            criticality: Criticality::ALL[level.index()],
        }
    }
}
