//! The slots of requests that the engine admitted.
//!
//! A guard moves several times on its way from the decision to the body of the response. So it carries the number of its
//! slot, and the slot stays here.

use crate::engine::{DryRunOutcome, PartitionId, Slot, TtlId};

/// The slots, under the lock.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

/// The number of a slot, and what a guard has to know without the lock.
#[must_use]
#[derive(Debug)]
pub(in crate::runtime) struct SlotRef {
    pub(in crate::runtime) number: SlotNumber,
    pub(in crate::runtime) partition: PartitionId,
    /// The number of the slot's end, if it expires.
    pub(in crate::runtime) ttl: Option<TtlId>,
    pub(in crate::runtime) is_observed: bool,
    pub(in crate::runtime) dry_run: DryRunOutcome,
}

/// The number of a slot.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::runtime) struct SlotNumber(u32);

impl Slots {
    /// Keeps a slot.
    #[inline]
    pub(in crate::runtime) fn keep(&mut self, slot: Slot) -> SlotRef {
        let (partition, ttl, is_observed, dry_run) = (slot.partition, slot.ttl(), slot.is_observed(), slot.dry_run);
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.slots[number as usize] = Some(slot);
        SlotRef { number: SlotNumber(number), partition, ttl, is_observed, dry_run }
    }

    /// Returns a slot.
    #[inline]
    pub(in crate::runtime) fn get_mut(&mut self, number: SlotNumber) -> Option<&mut Slot> {
        self.slots.get_mut(number.0 as usize)?.as_mut()
    }

    /// Returns all slots.
    #[cfg(feature = "capture")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    /// Forgets a slot, whose number is another slot's from now on.
    #[inline]
    pub(in crate::runtime) fn free(&mut self, number: SlotNumber) {
        self.slots[number.0 as usize] = None;
        self.free.push(number.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SlotNumber {
        pub(in crate::runtime::core) const fn of(number: u32) -> Self {
            Self(number)
        }
    }
}
