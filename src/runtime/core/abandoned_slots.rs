//! Slots of requests that were given up while their work may go on.
//!
//! What a request started at a database does not stop because its caller left. Such a slot stays taken for as long as
//! work of its kind nearly always needs, by what was learned of it. That is looked up again, once a millisecond at most, when slots
//! are asked for: where the server answers faster by now, the slot comes back sooner.
//!
//! To the engine these are requests that run: they count against the limit, their partition and their label. There are
//! never more of them than slots.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::slots::SlotNumber;
use crate::{Timestamp, engine::AbandonedKind};

/// What goes back with a slot, such as a lease of shared rules.
pub(in crate::runtime) type Along = Box<dyn fmt::Debug + Send + Sync>;

#[derive(Debug)]
pub(in crate::runtime) struct AbandonedSlots {
    /// By kind of work: slots by the time when the work started, and what goes back with them.
    slots: BTreeMap<AbandonedKind, BTreeMap<(Timestamp, SlotNumber), Option<Along>>>,
    /// What came along with slots that went back.
    pub(in crate::runtime) ended: Vec<Along>,
    /// When to look again, by what was known at the last look.
    pub(super) next_end: Timestamp,
    /// When that was.
    looked: Timestamp,
}

impl Default for AbandonedSlots {
    fn default() -> Self {
        Self { slots: BTreeMap::new(), ended: Vec::new(), next_end: Timestamp::NEVER, looked: Timestamp::ZERO }
    }
}

impl AbandonedSlots {
    pub(super) fn count(&self) -> usize {
        self.slots.values().map(BTreeMap::len).sum()
    }

    /// Whether it is time to look again.
    #[inline]
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        !self.slots.is_empty() && (self.next_end <= now || now.since(self.looked) >= Duration::from_millis(1))
    }

    /// Takes in the slot of work that started at this time, and is likely to end at that time.
    pub(super) fn add(
        &mut self,
        (kind, start): (AbandonedKind, Timestamp),
        ends: Timestamp,
        (slot, along): (SlotNumber, Option<Along>),
    ) {
        self.slots.entry(kind).or_default().insert((start, slot), along);
        self.next_end = self.next_end.min(ends);
    }

    /// Returns a slot whose work has ended by now, if work of a kind that started then ends so.
    pub(super) fn take_ended(
        &mut self,
        now: Timestamp,
        end: impl Fn(AbandonedKind, Timestamp) -> Timestamp,
    ) -> Option<SlotNumber> {
        self.looked = now;
        let firsts = self.slots.iter().filter_map(|(&kind, slots)| Some((kind, slots.first_key_value()?.0.0)));
        let first = firsts.map(|(kind, start)| (end(kind, start), kind)).min();
        self.next_end = first.map_or(Timestamp::NEVER, |(at, _)| at);
        let (_, kind) = first.filter(|&(at, _)| at <= now)?;
        let slots = self.slots.get_mut(&kind)?;
        let ((_, slot), along) = slots.pop_first()?;
        if slots.is_empty() {
            self.slots.remove(&kind);
        }
        self.ended.extend(along);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{ClassId, PartitionId};

    #[test]
    fn work_ends_by_what_is_known_of_its_kind() {
        let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
        let kind = |class| AbandonedKind {
            class: ClassId::from_index(class),
            partition: PartitionId::DEFAULT,
            is_known: true,
        };
        let (quick, slow) = (kind(1), kind(2));
        let end = |kind, start: Timestamp| start.after(Duration::from_millis(if kind == quick { 10 } else { 100 }));
        let mut abandoned = AbandonedSlots::default();
        for (number, kind) in [(0, slow), (1, quick), (2, quick), (3, slow)] {
            let start = at(u64::from(number));
            abandoned.add((kind, start), end(kind, start), (SlotNumber::of(number), None));
        }
        assert_eq!((abandoned.count(), abandoned.next_end), (4, at(11)));
        assert_eq!(abandoned.take_ended(at(10), end), None);
        assert_eq!(abandoned.take_ended(at(11), end), Some(SlotNumber::of(1)));
        assert_eq!((abandoned.take_ended(at(11), end), abandoned.next_end), (None, at(12)));
        // Slow work is as quick as the other by now.
        let sooner = |_, start: Timestamp| start.after(Duration::from_millis(10));
        let ended: Vec<_> = std::iter::from_fn(|| abandoned.take_ended(at(12), sooner)).collect();
        assert_eq!(ended, [SlotNumber::of(0), SlotNumber::of(2)]);
        assert_eq!((abandoned.count(), abandoned.next_end), (1, at(13)));
        assert_eq!(abandoned.take_ended(at(13), sooner), Some(SlotNumber::of(3)));
        assert_eq!(abandoned.take_ended(at(13), sooner), None);
        assert_eq!((abandoned.count(), abandoned.next_end), (0, Timestamp::NEVER));
    }
}
