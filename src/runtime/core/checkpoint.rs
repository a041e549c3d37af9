//! What is there when a record begins in the middle: slots, waiters and workers, in words.

use super::{
    request::{Arrive, Gets},
    slots::Slots,
};
use crate::{
    Timestamp,
    engine::{Description, Engine, PartitionId, WorkerDescription, plan::Mode},
};

/// The state of an engine, as far as a replay needs it. What laws and rates have learned is left out.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(in crate::runtime) at: Timestamp,
    pub(in crate::runtime) mode: Mode,
    pub(in crate::runtime) limit: usize,
    /// Turns that were not recorded before.
    pub(in crate::runtime) missed: u64,
    /// All partitions, except the default one.
    pub(in crate::runtime) partitions: Vec<String>,
    pub(in crate::runtime) present: Vec<Present>,
    /// Requests that run on slots that were lent: their ends will not be seen.
    pub(in crate::runtime) unseen: Vec<(String, usize)>,
    pub(in crate::runtime) workers: Vec<WorkerDescription>,
}

/// A request that runs or waits.
#[derive(Debug)]
pub(crate) struct Present {
    pub(in crate::runtime) since: Timestamp,
    pub(in crate::runtime) is_observed: bool,
    pub(in crate::runtime) asked: Arrive,
}

impl Checkpoint {
    /// Takes as long as there are requests in flight and waiters.
    #[cold]
    pub(super) fn of(engine: &Engine, slots: &Slots, missed: u64) -> Self {
        let running = slots.iter().map(|slot| {
            let asked =
                arrive(engine.describe_slot(slot), slot.partition, slot.deadline, Gets::Slot(slot.fingerprint()));
            Present { since: slot.start, is_observed: slot.is_observed(), asked }
        });
        let waiters = engine.describe_waiters();
        let waiting = waiters.into_iter().map(|(place, waiter, words)| {
            let asked = arrive(words, waiter.partition, waiter.caller_deadline, Gets::Place(place));
            (Present { since: waiter.since, is_observed: false, asked }, waiter.has_slot())
        });
        let waiting: Vec<_> = waiting.collect();
        let unseen = engine.running_by_partition().filter_map(|(number, name, running)| {
            let known = slots.iter().filter(|slot| slot.partition == number && slot.is_counted()).count();
            let granted = waiting.iter().filter(|(it, has_slot)| *has_slot && it.asked.number == number).count();
            let unseen = running.saturating_sub(known + granted);
            (unseen > 0).then(|| (name.to_string(), unseen))
        });
        let unseen = unseen.collect();
        let partitions = engine.running_by_partition().filter(|&(number, ..)| number != PartitionId::DEFAULT);
        Self {
            at: engine.now(),
            mode: engine.mode(),
            limit: engine.limit(),
            missed,
            partitions: partitions.map(|(_, name, _)| name.to_string()).collect(),
            unseen,
            workers: engine.describe_workers(),
            present: running.chain(waiting.into_iter().map(|(present, _)| present)).collect(),
        }
    }
}

fn arrive(words: Description, number: PartitionId, deadline: Timestamp, gets: Gets) -> Arrive {
    Arrive {
        waits: true,
        partition: (number != PartitionId::DEFAULT).then_some(words.partition),
        number,
        class: words.class,
        namespace: words.namespace,
        label: words.label,
        run: words.run,
        criticality: words.criticality,
        deadline,
        gets,
    }
}
