//! Whether both sides stand at the same point.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    super::super::tokens::Stage,
    pair::Pair,
    setup::{At, Name},
};
use crate::Timestamp;

impl Pair {
    pub(super) fn compare(&mut self) -> Result<(), TestCaseError> {
        let snapshot = self.engine.snapshot();
        prop_assert_eq!(snapshot.in_flight, self.model.used.len());
        for (number, partition) in self.engine.capacity.partitions() {
            prop_assert_eq!(partition.running, self.model.running_in(number.index()));
        }
        for (id, place) in &self.waiting {
            let waiter = self.engine.queue.get(place.key());
            let at = match waiter.stage {
                Stage::Gate => At::Gate,
                Stage::Line => At::Line,
                Stage::Granted { .. } => At::Granted,
                Stage::Refused(refusal) => At::Refused(refusal.reason),
            };
            let person = self.model.people.iter().find(|person| person.id == *id).unwrap();
            prop_assert_eq!(at, person.at, "where number {} is", id);
            if person.waits() {
                prop_assert_eq!(waiter.deadline.as_nanos(), person.wait_ends, "when the wait of number {} ends", id);
            }
        }
        self.compare_labels()?;
        // Conservation: every request that arrived was admitted, rejected, left while waiting, or still is between the
        // two. Also those of partitions that are gone, which a snapshot leaves out.
        let ended = self.engine.capacity.numbers().map(|it| {
            let counts = self.engine.telemetry.counts(it);
            counts.admitted + counts.cancelled_waiting + counts.rejected.iter().sum::<u64>()
        });
        let ended: u64 = ended.sum();
        let between = self.model.people.iter().filter(|person| !matches!(person.at, At::Refused(_))).count() as u64;
        prop_assert_eq!(self.arrived, ended + between);
        // Every wait and every slot that ends by itself wakes the driver in time.
        let ends = self.model.people.iter().filter(|person| person.waits()).map(|person| person.wait_ends);
        let first = ends.chain(self.model.used.iter().map(|used| used.ends)).min().unwrap_or(u64::MAX);
        prop_assert!(self.engine.next_wakeup().unwrap_or(Timestamp::NEVER).as_nanos() <= first);
        while self.engine.take_notice().is_some() {}
        while self.engine.take_expired().is_some() {}
        Ok(())
    }

    fn compare_labels(&self) -> Result<(), TestCaseError> {
        let labels = &self.engine.quotas;
        let counts = (labels.table().evicted, labels.table().overflowed, self.engine.slot_ttl.expired());
        prop_assert_eq!(counts, (self.model.forgotten, self.model.overflowed, self.model.expired_slots));
        let known: BTreeSet<Name> = self.model.labels.iter().filter_map(|label| label.name).collect();
        prop_assert_eq!(self.names(), known);
        for (number, id) in labels.ids().enumerate() {
            let label = labels.label(id);
            prop_assert_eq!(label.running, self.model.running_of(number), "what label {} runs", number);
            prop_assert_eq!(label.waiting, self.model.waiting_of(number), "what label {} waits", number);
            prop_assert_eq!(
                labels.label(id).is_full,
                self.model.is_full(number),
                "whether label {} is at its cap",
                number
            );
        }
        Ok(())
    }
}
