//! The last decisions and changes: two bounded rings of numbers.
//!
//! One ring is for decisions, of which there are thousands in a second. The other ring is for changes (of the limit,
//! the settings, the mode, the store), so that decisions never push changes out. Each ring is [shared fairly](ring): decisions by
//! partition and by what was in the way, so that a flood leaves those of a quiet tenant alone; changes by kind, so that a limit
//! that moves each second leaves reloads and modes alone. Entries have their place from the beginning: writing one allocates
//! nothing.
//!
//! Entries hold numbers; the reader looks up names, see [`view`]. A number that has been given to another label since
//! then finds no name: a label notes with which entry its name begins to hold, and the queue's `Runs` keep the names of
//! runs for as long as an entry may ask for them.

mod ring;
#[cfg(test)]
mod tests;
mod view;

use self::ring::{FairRing, Grouped};
pub(crate) use self::view::Names;
pub use self::view::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent, Wanted};
use super::event::{Blocker, BlockingBound, ChangeEvent, Gauges};
use crate::{
    Reason, Timestamp,
    ids::{LabelId, PartitionId, RunId},
    tokens::RequestRef,
};

/// Most entries of a ring.
pub const MOST_ENTRIES: usize = 1 << 20;

/// What became of a request, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    at: Timestamp,
    /// Its number in the order of all entries.
    sequence: u64,
    /// Time for which the request had waited, in seconds.
    waited: f32,
    label: LabelId,
    /// The run that the request is a part of.
    run: RunId,
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

const _: () = assert!(size_of::<Record>() <= 56, "an entry and its neighbours are a cache line");

/// Both rings, with one order of entries.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Number of the newest entry.
    pub(super) sequence: u64,
    decisions: FairRing<Record>,
    changes: FairRing<Changed>,
    /// Changes that were ever noted.
    changed: u64,
}

/// Groups of decisions of one partition: by what was in the way and, where nothing was, by what was decided.
const GROUPS: usize = 24;

impl Grouped for Record {
    #[inline]
    fn group(&self) -> usize {
        let kind = match self.by {
            BlockingBound::Nothing => usize::from(self.code.0.min(DecisionCode::CANCELLED.0)),
            by => usize::from(DecisionCode::CANCELLED.0) + by as usize,
        };
        self.partition.index() * GROUPS + kind
    }
}

const _: () = assert!(
    DecisionCode::CANCELLED.0 as usize + (BlockingBound::WorkerSlots as usize) < GROUPS,
    "each kind of decision has a group"
);

impl Grouped for Changed {
    fn group(&self) -> usize {
        match self.event {
            ChangeEvent::Limit { .. } => 0,
            ChangeEvent::Store(_) => 1,
            ChangeEvent::LawPanic | ChangeEvent::CallersLeave | ChangeEvent::Stall(_) => 2,
            ChangeEvent::Mode { .. } | ChangeEvent::Reload { .. } | ChangeEvent::Leave | ChangeEvent::Drain => 3,
        }
    }
}

impl Journal {
    /// Returns a journal with room for this number of decisions, and as many changes.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(MOST_ENTRIES);
        Self {
            sequence: 0,
            decisions: FairRing::new(capacity, BLANK_RECORD),
            changes: FairRing::new(capacity, BLANK_CHANGE),
            changed: 0,
        }
    }

    pub(super) const fn is_off(&self) -> bool {
        self.decisions.capacity() == 0
    }

    /// Returns the entry before which the journal names no run any more: an entry that is older than as many decisions as there
    /// is room for stays if its group is quiet, and names of runs don't stay with it. For decisions that close together, changes
    /// between them are left out as far as they are known, so that a name is rather kept for too long.
    pub(super) const fn forgotten_until(&self) -> u64 {
        if self.is_off() {
            return u64::MAX;
        }
        let capacity = self.decisions.capacity() as u64;
        let changes = if self.changed < capacity { self.changed } else { capacity };
        self.sequence.saturating_sub(capacity + changes)
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
        let RequestRef { partition, label, run, since } = request;
        let record = Record {
            at: now,
            sequence: self.sequence,
            waited: if since < now { now.since(since).as_secs_f32() } else { 0.0 },
            label,
            run,
            used: blocker.used,
            bound: blocker.bound,
            in_flight: gauges.in_flight,
            limit: gauges.limit,
            waiting: gauges.waiting,
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
        let Gauges { limit, in_flight, waiting } = gauges;
        let change = Changed { at: now, sequence: self.sequence, event, limit, in_flight, waiting };
        self.changed += 1;
        self.changes.push(change);
    }

    /// Sets the capacity. The newest entries stay, as many as there is room for.
    pub(super) fn resize(&mut self, capacity: usize) {
        if capacity.min(MOST_ENTRIES) == self.decisions.capacity() {
            return;
        }
        let old = std::mem::replace(self, Self::new(capacity));
        (self.sequence, self.changed) = (old.sequence, old.changed);
        for (_, entry) in old.after(0, Wanted::All) {
            match entry {
                Ok(&record) => self.decisions.push(record),
                Err(&change) => self.changes.push(change),
            }
        }
    }
}

const BLANK_RECORD: Record = Record {
    at: Timestamp::ZERO,
    sequence: 0,
    waited: 0.0,
    label: LabelId::DEFAULT,
    run: RunId::NONE,
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
