//! The last decisions and changes: two bounded rings of numbers.
//!
//! One ring is for decisions, of which there are thousands in a second. The other ring is for changes (of the limit,
//! the settings, the mode, the store), so that decisions never push changes out. Entries are as large as three quarters
//! of a cache line and have their place from the beginning: writing one allocates nothing.
//!
//! Entries hold numbers; the reader looks up names, see [`view`]. A number that has been given to another label since
//! then finds no name: a label notes with which entry its name begins to hold, and the queue's `Jobs` keep the names of
//! runs for as long as an entry may ask for them.

#[cfg(test)]
mod tests;
mod view;

pub use self::view::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent};
pub(crate) use self::view::{Names, Wanted};
use super::event::{Blocker, BlockingBound, ChangeEvent, Gauges};
use crate::{
    engine::{
        ids::{JobId, LabelId, PartitionId},
        tokens::RequestRef,
    },
    rejection::Reason,
    time::Timestamp,
};

/// Most entries of a ring, so that the low half of a sequence number identifies an entry.
pub(crate) const MOST_ENTRIES: usize = 1 << 20;

/// A ring that forgets the oldest.
#[derive(Debug)]
struct Ring<T> {
    entries: Box<[T]>,
    /// Index of the next entry.
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

    /// Returns the entry that is forgotten next, if the next entry needs its place.
    fn first_to_go(&self) -> Option<&T> {
        if self.is_full { self.entries.get(self.next) } else { None }
    }

    /// Returns all entries, the oldest first.
    fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let (newer, older) = self.entries.split_at(self.next);
        let older = if self.is_full { older } else { &[] };
        older.iter().chain(newer)
    }
}

/// What became of a request, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    at: Timestamp,
    /// Lower half of its number in the order of all entries.
    sequence: u32,
    /// Time for which the request had waited, in seconds.
    waited: f32,
    label: LabelId,
    /// Job that the request is a part of.
    job: JobId,
    /// Use of the bound that was in the way.
    used: u32,
    bound: u32,
    in_flight: u32,
    limit: u32,
    waiting: u32,
    partition: PartitionId,
    code: DecisionCode,
    by: BlockingBound,
}

/// What became of a request, in one byte: a reason, of which there may be 32, is a part of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DecisionCode(u8);

impl DecisionCode {
    pub(super) const ADMITTED: Self = Self(0);
    pub(super) const QUEUED: Self = Self(1);
    pub(super) const GRANTED: Self = Self(2);
    pub(super) const CANCELLED: Self = Self(3);
    /// Admitted because decisions don't bind; the request would have waited.
    pub(super) const WOULD_QUEUE: Self = Self(4);
    const REJECTED: u8 = 0x40;
    const TIMED_OUT: u8 = 0x60;
    const WOULD_REJECT: u8 = 0x80;

    pub(super) const fn rejected(reason: Reason) -> Self {
        Self(Self::REJECTED + reason.index() as u8)
    }

    /// Rejected because the wait was over, and what was in the way.
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

#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed {
    at: Timestamp,
    sequence: u64,
    event: ChangeEvent,
    limit: u32,
    in_flight: u32,
    waiting: u32,
}

const _: () = assert!(size_of::<Record>() <= 48, "an entry is at most 48 bytes");

/// Both rings, with one order of entries.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Number of the newest entry.
    sequence: u64,
    decisions: Ring<Record>,
    changes: Ring<Changed>,
}

impl Journal {
    /// Returns a journal with room for so many decisions and as many changes.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MOST_ENTRIES);
        Self { sequence: 0, decisions: Ring::new(capacity, BLANK_RECORD), changes: Ring::new(capacity, BLANK_CHANGE) }
    }

    pub(super) const fn is_off(&self) -> bool {
        self.decisions.entries.is_empty()
    }

    /// Returns the number of the newest entry.
    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the entry before which the journal holds no decision any more, once the next decision was written.
    pub(super) fn forgotten_until(&self) -> u64 {
        match self.decisions.first_to_go() {
            Some(record) => self.whole(record.sequence),
            None if self.is_off() => u64::MAX,
            None => 0,
        }
    }

    /// Returns the whole number that ends like this: one of the last four billion.
    const fn whole(&self, low: u32) -> u64 {
        self.sequence - (self.sequence as u32).wrapping_sub(low) as u64
    }

    /// Notes what became of a request.
    #[inline]
    pub(super) fn decided(
        &mut self,
        now: Timestamp,
        code: DecisionCode,
        request: RequestRef,
        blocker: Blocker,
        gauges: Gauges,
    ) {
        if self.is_off() {
            return;
        }
        self.sequence += 1;
        let RequestRef { partition, label, job, since } = request;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower half is wanted; and 24 bits are enough for a wait"
        )]
        let record = Record {
            at: now,
            sequence: self.sequence as u32,
            waited: if since < now { now.since(since).as_secs_f32() } else { 0.0 },
            label,
            job,
            used: short(blocker.used),
            bound: short(blocker.bound),
            in_flight: short(gauges.in_flight),
            limit: short(gauges.limit),
            waiting: short(gauges.waiting),
            partition,
            code,
            by: blocker.by,
        };
        self.decisions.push(record);
    }

    /// Notes that something changed.
    #[cold]
    pub(super) fn changed(&mut self, now: Timestamp, event: ChangeEvent, gauges: Gauges) {
        if self.is_off() {
            return;
        }
        self.sequence += 1;
        let (limit, in_flight, waiting) = (short(gauges.limit), short(gauges.in_flight), short(gauges.waiting));
        self.changes.push(Changed { at: now, sequence: self.sequence, event, limit, in_flight, waiting });
    }

    /// Sets the capacity. The newest entries stay, as many as there is room for.
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

/// Returns a number as entries hold it: counts are far below four billion.
#[expect(clippy::cast_possible_truncation, reason = "see above; bounds may be the largest number there is")]
pub(crate) const fn short(count: usize) -> u32 {
    if count > u32::MAX as usize { u32::MAX } else { count as u32 }
}

const BLANK_RECORD: Record = Record {
    at: Timestamp::ZERO,
    sequence: 0,
    waited: 0.0,
    label: LabelId::DEFAULT,
    job: JobId::NONE,
    used: 0,
    bound: 0,
    in_flight: 0,
    limit: 0,
    waiting: 0,
    partition: PartitionId::DEFAULT,
    code: DecisionCode::ADMITTED,
    by: BlockingBound::Nothing,
};

const BLANK_CHANGE: Changed =
    Changed { at: Timestamp::ZERO, sequence: 0, event: ChangeEvent::Drain, limit: 0, in_flight: 0, waiting: 0 };
