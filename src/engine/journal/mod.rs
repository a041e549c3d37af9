//! What was decided lately, and what changed: two bounded rings of numbers.
//!
//! One ring is for decisions, of which there are thousands in a second, and one for changes (of the limit, the settings, the
//! mode, the store), so that the ones never push the others out. Entries are as large as three quarters of a cache line and have their
//! place from the beginning: writing one allocates nothing. They hold numbers; names are looked up by whoever reads them, see
//! [`view`]. A number that has been given to another label since then finds no name: a label notes with which entry its name
//! begins to hold, and [`Runs`](super::runs) keeps the names of runs for as long as an entry may ask for them.

mod note;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use view::Wanted;
pub use view::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent};

use super::{labels::LabelId, limit::LimitInputs, outage::StoreChange, plan::Mode};
use crate::{rejection::Reason, time::Timestamp};

/// No more entries than this, so that the low half of a sequence number says which one it is.
pub(crate) const MOST_ENTRIES: usize = 1 << 20;

/// A ring that forgets the oldest.
#[derive(Debug)]
struct Ring<T> {
    entries: Box<[T]>,
    /// Where the next one goes.
    next: usize,
    is_full: bool,
}

impl<T: Copy> Ring<T> {
    fn new(capacity: usize, blank: T) -> Self {
        Self { entries: vec![blank; capacity].into(), next: 0, is_full: false }
    }

    #[inline]
    fn push(&mut self, entry: T) {
        if let Some(place) = self.entries.get_mut(self.next) {
            *place = entry;
            self.next += 1;
            if self.next == self.entries.len() {
                (self.next, self.is_full) = (0, true);
            }
        }
    }

    /// The one that is forgotten next, if the next one needs its place.
    fn first_to_go(&self) -> Option<&T> {
        if self.is_full { self.entries.get(self.next) } else { None }
    }

    /// The oldest one first.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (newer, older) = self.entries.split_at(self.next);
        let older = if self.is_full { older } else { &[] };
        older.iter().chain(newer)
    }
}

/// What became of a request, in numbers.
#[derive(Clone, Copy, Debug)]
struct Record {
    at: Timestamp,
    /// The lower half of its number in the order of all entries.
    sequence: u32,
    /// For how long it had waited, in seconds.
    waited: f32,
    label: LabelId,
    /// The number of its run.
    run: u32,
    /// What is used of the bound that was in the way.
    used: u32,
    bound: u32,
    in_flight: u32,
    limit: u32,
    waiting: u32,
    partition: u16,
    verdict: Verdict,
    bar: Bar,
}

/// What became of a request: in one byte, for reasons come with it, of which there may be 32.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Verdict(u8);

impl Verdict {
    pub(super) const ADMITTED: Self = Self(0);
    pub(super) const QUEUED: Self = Self(1);
    pub(super) const GRANTED: Self = Self(2);
    pub(super) const CANCELLED: Self = Self(3);
    /// Admitted because decisions don't bind; it would have waited.
    pub(super) const WOULD_QUEUE: Self = Self(4);
    const REJECTED: u8 = 0x40;
    const TIMED_OUT: u8 = 0x60;
    const WOULD_REJECT: u8 = 0x80;

    pub(super) const fn rejected(reason: Reason) -> Self {
        Self(Self::REJECTED + reason.index() as u8)
    }

    /// Rejected because its wait was over, and what was in its way.
    pub(super) const fn timed_out(reason: Reason) -> Self {
        Self(Self::TIMED_OUT + reason.index() as u8)
    }

    /// Admitted because decisions don't bind.
    pub(super) const fn would_reject(reason: Reason) -> Self {
        Self(Self::WOULD_REJECT + reason.index() as u8)
    }

    fn reason(self) -> Option<Reason> {
        Reason::ALL
            .get(usize::from(self.0.checked_sub(Self::REJECTED)?) % usize::from(Self::TIMED_OUT - Self::REJECTED))
            .copied()
    }

    const fn is_timed_out(self) -> bool {
        self.0 >= Self::TIMED_OUT && self.0 < Self::WOULD_REJECT
    }

    const fn is_rejected(self) -> bool {
        self.0 >= Self::REJECTED && self.0 < Self::WOULD_REJECT
    }
}

/// What can be in the way of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Bar {
    Nothing,
    Budget,
    Deadline,
    Draining,
    Gate,
    Kept,
    LabelCap,
    Limit,
    MaxInFlight,
    MaxInFlightPerNamespace,
    MaxPending,
    MaxPerMinute,
    MaxPerMinutePerNamespace,
    MaxWaiting,
    MaxWaitingPerRun,
    Partition,
    Queue,
    WorkerSlots,
}

/// What was in the way of a request, with its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    bar: Bar,
    used: usize,
    bound: usize,
}

impl Cause {
    pub(super) const NOTHING: Self = Self::new(Bar::Nothing, 0, 0);

    const fn new(bar: Bar, used: usize, bound: usize) -> Self {
        Self { bar, used, bound }
    }
}

/// Whom a decision is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Party {
    pub(super) partition: u16,
    pub(super) label: LabelId,
    pub(super) run: u32,
    /// When its wait began, if it has waited.
    pub(super) since: Timestamp,
}

/// What changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Limit { from: u32, basis: LimitInputs },
    Mode { from: Mode, to: Mode },
    Reload { from: u32 },
    Drain,
    LawPanic,
    Store(StoreChange),
}

#[derive(Clone, Copy, Debug)]
struct Changed {
    at: Timestamp,
    sequence: u64,
    event: Event,
    limit: u32,
    in_flight: u32,
    waiting: u32,
}

const _: () = assert!(size_of::<Record>() <= 48, "an entry is at most 48 bytes");

/// Both rings, with one order.
#[derive(Debug)]
pub(super) struct Journal {
    /// The number of the newest entry.
    sequence: u64,
    decisions: Ring<Record>,
    changes: Ring<Changed>,
}

impl Journal {
    /// Room for so many decisions and as many changes.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MOST_ENTRIES);
        Self { sequence: 0, decisions: Ring::new(capacity, BLANK_RECORD), changes: Ring::new(capacity, BLANK_CHANGE) }
    }

    const fn is_off(&self) -> bool {
        self.decisions.entries.is_empty()
    }

    /// The number of the newest entry.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// No decision before this one is kept any more, nor will be once the next one was written.
    pub(super) fn forgotten_until(&self) -> u64 {
        match self.decisions.first_to_go() {
            Some(record) => self.whole(record.sequence),
            None if self.is_off() => u64::MAX,
            None => 0,
        }
    }

    /// The number that ends like this: one of the last four billion.
    const fn whole(&self, low: u32) -> u64 {
        self.sequence - (self.sequence as u32).wrapping_sub(low) as u64
    }

    /// Takes another capacity. The newest entries stay, as many as there is room for.
    pub(super) fn resize(&mut self, capacity: usize) {
        if capacity.min(MOST_ENTRIES) == self.decisions.entries.len() {
            return;
        }
        let old = std::mem::replace(self, Self::new(capacity));
        self.sequence = old.sequence;
        let surplus = |kept: usize| kept.saturating_sub(self.decisions.entries.len());
        let (decisions, changes) = (surplus(old.decisions.iter().count()), surplus(old.changes.iter().count()));
        old.decisions.iter().skip(decisions).for_each(|&record| self.decisions.push(record));
        old.changes.iter().skip(changes).for_each(|&change| self.changes.push(change));
    }
}

const BLANK_RECORD: Record = Record {
    at: Timestamp::ZERO,
    sequence: 0,
    waited: 0.0,
    label: LabelId::DEFAULT,
    run: 0,
    used: 0,
    bound: 0,
    in_flight: 0,
    limit: 0,
    waiting: 0,
    partition: 0,
    verdict: Verdict::ADMITTED,
    bar: Bar::Nothing,
};

const BLANK_CHANGE: Changed =
    Changed { at: Timestamp::ZERO, sequence: 0, event: Event::Drain, limit: 0, in_flight: 0, waiting: 0 };
