//! Slots that expire.
//!
//! Where permits have a time to live, each slot has an entry here. When its time is over, the slot is taken back
//! although its holder still works: other requests may run, and the holder is told. The entry stays until the holder is
//! done, so that the slot is not given back twice.

use std::time::Duration;

use crate::{
    Timestamp,
    deadlines::Deadlines,
    ids::{LabelMetricsId, TtlId},
    tokens::Holder,
};

/// The slots that expire. There are none where permits have no time to live.
#[derive(Debug, Default)]
pub(crate) struct SlotTtl {
    time_to_live: Option<Duration>,
    /// Holder of each slot, `None` after the slot was taken back; and the metrics that count it by label, as long as its holder is not
    /// done.
    entries: Vec<(Option<Holder>, LabelMetricsId)>,
    free: Vec<TtlId>,
    ends: Deadlines,
    /// Slots that were taken back.
    expired: u64,
}

impl SlotTtl {
    /// Sets the time to live of slots that are issued from now on.
    pub(crate) const fn replace(&mut self, time_to_live: Option<Duration>) {
        self.time_to_live = time_to_live;
    }

    /// Returns how long a slot lives; `None` for ever.
    pub(crate) const fn time_to_live(&self) -> Option<Duration> {
        self.time_to_live
    }

    /// Notes that a slot was handed out, if slots expire.
    #[inline(always)]
    pub(crate) fn issue(&mut self, now: Timestamp, holder: Holder, metrics: impl FnOnce() -> LabelMetricsId) -> TtlId {
        let Some(time) = self.time_to_live else { return TtlId::NONE };
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push((None, LabelMetricsId::NONE));
            TtlId::from_index(self.entries.len() - 1)
        });
        self.entries[id.index()] = (Some(holder), metrics());
        self.ends.set(id.number(), now.after(time));
        id
    }

    /// Ends the life of a slot from its holder's side; returns whether it had expired.
    #[inline]
    pub(crate) fn give_back(&mut self, id: TtlId) -> bool {
        let Some((entry, _)) = self.entries.get_mut(id.index()) else { return false };
        self.ends.remove(id.number());
        self.free.push(id);
        entry.take().is_none()
    }

    /// Whether the slot was taken back, and its holder is not done.
    pub(crate) fn is_expired(&self, id: TtlId) -> bool {
        self.entries.get(id.index()).is_some_and(|(holder, _)| holder.is_none())
    }

    /// Returns the metrics that count the slot by label.
    pub(crate) fn label_metrics(&self, id: TtlId) -> LabelMetricsId {
        self.entries.get(id.index()).map_or(LabelMetricsId::NONE, |&(_, metrics)| metrics)
    }

    /// Returns when the next slot expires.
    pub(crate) fn next_end(&self) -> Timestamp {
        self.ends.earliest()
    }

    /// Takes back a slot that expired; returns it, and its holder.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<(TtlId, Holder)> {
        let id = TtlId::from_number(self.ends.take_due(now)?);
        self.expired += 1;
        Some((id, self.entries[id.index()].0.take()?))
    }

    /// Returns how many slots were taken back.
    pub(crate) const fn expired(&self) -> u64 {
        self.expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Criticality,
        ids::{LabelId, Level, PartitionId},
        tokens::Marks,
    };

    /// For `Engine::check_all`.
    impl SlotTtl {
        /// Returns the holders of all slots that have not expired or been given back.
        pub(crate) fn holders(&self) -> Vec<Holder> {
            let lent: Vec<u32> = self.ends.members().into_keys().collect();
            let known = (0..).zip(&self.entries).filter(|(_, (entry, _))| entry.is_some()).map(|(number, _)| number);
            assert_eq!(lent, known.collect::<Vec<u32>>(), "every slot that is lent has an end, and no other");
            self.entries.iter().filter_map(|&(holder, _)| holder).collect()
        }
    }

    #[test]
    fn a_slot_is_taken_back_once_and_given_back_once() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let partition = |index| PartitionId::from_index(index).unwrap();
        let holder = |number| {
            let level = Level::of(Criticality::Critical);
            Holder { partition: partition(number), label: LabelId::DEFAULT, level, marks: Marks::NONE }
        };
        let mut slots = SlotTtl::default();
        slots.replace(Some(Duration::from_secs(4)));
        let late = slots.issue(at(1), holder(1), || LabelMetricsId::OTHERS);
        let good = slots.issue(at(5), holder(2), || LabelMetricsId::NONE);
        assert!(slots.expire(at(4)).is_none());
        assert_eq!(slots.expire(at(5)).map(|(id, it)| (id, it.partition)), Some((late, partition(1))));
        assert!(slots.expire(at(5)).is_none());
        assert!(slots.is_expired(late) && !slots.is_expired(good) && !slots.is_expired(TtlId::NONE));
        assert_eq!(slots.label_metrics(late), LabelMetricsId::OTHERS, "a request that is late is still counted");
        assert_eq!(slots.next_end(), at(9));
        assert!(slots.give_back(late) && !slots.give_back(good) && !slots.give_back(TtlId::NONE));
        assert_eq!((slots.next_end(), slots.free.len(), slots.expired()), (Timestamp::NEVER, 2, 1));
        slots.replace(None);
        assert_eq!(
            slots.issue(at(9), holder(1), || LabelMetricsId::NONE),
            TtlId::NONE,
            "without a time to live none expires"
        );
    }
}
