//! Slots that are lent for a time.
//!
//! Where permits have a time to live, each slot has an entry here. When its time is over, the slot is taken back although
//! its holder still works: others may run, and the holder is told. The entry stays until the holder is done, so that the
//! slot is not given back twice.

use std::{collections::VecDeque, time::Duration};

use crate::engine::{deadlines::Deadlines, labels::LabelId, series::SeriesId};
use crate::time::Timestamp;

/// A slot without an entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Whom a slot belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) partition: u16,
    pub(crate) label: LabelId,
    pub(crate) level: u8,
    /// What it is beyond of, as marks of a slot.
    pub(crate) shadow: u8,
}

#[derive(Debug, Default)]
pub(crate) struct Tenures {
    /// `None`: the slot was taken back.
    entries: Vec<Option<Holder>>,
    /// Where each is counted by label, as long as its holder is not done.
    series: Vec<SeriesId>,
    free: Vec<u32>,
    ends: Deadlines,
    /// Those whose holders have to be told.
    pub(crate) overdue: VecDeque<u32>,
}

/// Slots that expire.
#[derive(Debug, Default)]
pub(crate) struct SlotTtl {
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) tenures: Tenures,
    /// How many slots were taken back from holders who kept them for too long.
    pub(crate) overdue: u64,
}

impl Tenures {
    pub(crate) fn lend(&mut self, holder: Holder, series: SeriesId, until: Timestamp) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.series.push(SeriesId::NONE);
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        });
        self.entries[number as usize] = Some(holder);
        self.series[number as usize] = series;
        self.ends.set(number, until);
        number
    }

    /// Ends a tenure from the holder's side; answers whether the slot had been taken back before.
    pub(crate) fn give_back(&mut self, number: u32) -> bool {
        let Some(entry) = self.entries.get_mut(number as usize) else { return false };
        self.ends.remove(number);
        self.free.push(number);
        entry.take().is_none()
    }

    pub(crate) fn is_overdue(&self, number: u32) -> bool {
        self.entries.get(number as usize).is_some_and(Option::is_none)
    }

    /// Where it is counted by label.
    pub(crate) fn series(&self, number: u32) -> SeriesId {
        self.series.get(number as usize).copied().unwrap_or(SeriesId::NONE)
    }

    pub(crate) fn next_end(&self) -> Timestamp {
        self.ends.first().map_or(Timestamp::NEVER, |(at, _)| at)
    }

    /// Takes back a slot whose time is over.
    pub(crate) fn take_back(&mut self, now: Timestamp) -> Option<Holder> {
        let (_, number) = self.ends.first().filter(|&(at, _)| at <= now)?;
        self.ends.remove(number);
        self.overdue.push_back(number);
        self.entries[number as usize].take()
    }
}

/// For `Engine::check_all`.
#[cfg(test)]
impl Tenures {
    /// The holders of all slots that are lent now.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let lent: Vec<u32> = self.ends.members().into_keys().collect();
        let known = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_some()).map(|(number, _)| number);
        assert_eq!(lent, known.collect::<Vec<u32>>(), "every slot that is lent has an end, and no other");
        self.entries.iter().copied().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_slot_is_taken_back_once_and_given_back_once() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let holder = |partition| Holder { partition, label: LabelId::DEFAULT, level: 1, shadow: 0 };
        let mut tenures = Tenures::default();
        let (late, good) =
            (tenures.lend(holder(1), SeriesId::OTHERS, at(5)), tenures.lend(holder(2), SeriesId::NONE, at(9)));
        assert!(tenures.take_back(at(4)).is_none());
        assert_eq!(tenures.take_back(at(5)).map(|it| it.partition), Some(1));
        assert!(tenures.take_back(at(5)).is_none());
        assert!(tenures.is_overdue(late) && !tenures.is_overdue(good) && !tenures.is_overdue(NONE));
        assert_eq!(tenures.series(late), SeriesId::OTHERS, "whoever is late is still counted");
        assert_eq!(tenures.next_end(), at(9));
        assert!(tenures.give_back(late) && !tenures.give_back(good) && !tenures.give_back(NONE));
        assert_eq!((tenures.next_end(), tenures.free.len()), (Timestamp::NEVER, 2));
    }
}
