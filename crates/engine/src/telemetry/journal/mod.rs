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
pub use self::view::{ChangeEntry, DecisionEntry, DecisionKind, JournalEntry, JournalEvent, Wanted};
use super::event::{Blocker, BlockingBound, ChangeEvent, Gauges};
use crate::{
    Reason, Timestamp,
    ids::{LabelId, PartitionId, RunId},
    tokens::RequestRef,
};

/// Most entries of a ring.
pub const MOST_ENTRIES: usize = 1 << 20;

/// An entry, in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted<T> {
    at: Timestamp,
    /// Its number in the order of all entries.
    pub(crate) sequence: u64,
    gauges: Gauges,
    pub(crate) what: T,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    /// Time for which the request had waited, in seconds.
    waited: f32,
    pub(crate) label: LabelId,
    /// The run that the request is a part of.
    pub(crate) run: RunId,
    pub(crate) partition: PartitionId,
    kind: DecisionKind,
    reason: Option<Reason>,
    blocker: Blocker,
}

const _: () = assert!(size_of::<Noted<Decision>>() <= 56, "an entry and its neighbours are a cache line");

/// Both rings, with one order of entries.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Number of the newest entry.
    pub(super) sequence: u64,
    decisions: FairRing<Noted<Decision>>,
    changes: FairRing<Noted<ChangeEvent>>,
    /// Changes that were ever noted.
    changed: u64,
}

/// Groups of decisions of one partition: by what was in the way and, where nothing was, by what was decided.
const GROUPS: usize = 24;

impl Grouped for Noted<Decision> {
    #[inline]
    fn group(&self) -> usize {
        let Decision { partition, kind, blocker, .. } = self.what;
        let kind = match blocker.by {
            BlockingBound::Nothing => OTHERS.min(kind as usize),
            by => OTHERS + by as usize,
        };
        partition.index() * GROUPS + kind
    }
}

/// The group of what was neither admitted nor queued nor granted, with nothing in the way.
const OTHERS: usize = DecisionKind::Granted as usize + 1;

const _: () = assert!(OTHERS + (BlockingBound::WorkerSlots as usize) < GROUPS, "each kind of decision has a group");

impl Grouped for Noted<ChangeEvent> {
    fn group(&self) -> usize {
        match self.what {
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
            decisions: FairRing::new(capacity, BLANK_DECISION),
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
        (kind, reason): (DecisionKind, Option<Reason>),
        request: RequestRef,
        blocker: Blocker,
        gauges: Gauges,
    ) {
        if self.is_off() {
            return;
        }
        self.sequence += 1;
        let RequestRef { partition, label, run, since } = request;
        let waited = if since < now { now.since(since).as_secs_f32() } else { 0.0 };
        let what = Decision { waited, label, run, partition, kind, reason, blocker };
        self.decisions.push(Noted { at: now, sequence: self.sequence, gauges, what });
    }

    /// Notes that something changed.
    #[cold]
    pub(super) fn changed(&mut self, now: Timestamp, event: ChangeEvent, gauges: Gauges) {
        if self.is_off() {
            return;
        }
        self.sequence += 1;
        self.changed += 1;
        self.changes.push(Noted { at: now, sequence: self.sequence, gauges, what: event });
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
                Ok(&decision) => self.decisions.push(decision),
                Err(&change) => self.changes.push(change),
            }
        }
    }
}

const BLANK_DECISION: Noted<Decision> = blank(Decision {
    waited: 0.0,
    label: LabelId::DEFAULT,
    run: RunId::NONE,
    partition: PartitionId::DEFAULT,
    kind: DecisionKind::Unknown,
    reason: None,
    blocker: Blocker::NOTHING,
});

const BLANK_CHANGE: Noted<ChangeEvent> = blank(ChangeEvent::Drain);

const fn blank<T>(what: T) -> Noted<T> {
    Noted { at: Timestamp::ZERO, sequence: 0, gauges: Gauges { limit: 0, in_flight: 0, waiting: 0 }, what }
}
