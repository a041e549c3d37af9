//! The memory that lent slots are in.
//!
//! A request on a lent slot has to find its lane when it leaves, and a count of references to the handle would cost it two atomic
//! instructions more: as much as the slot itself. So lanes are never freed. When the last clone of a handle is dropped, its lanes wait for
//! the next handle that is built with as many partitions and lanes. There are as many arenas as there ever were handles at a time.

use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicU64, Ordering},
};

use super::Shared;
use crate::{
    Outcome, Timestamp,
    clock::{Origin, TimeSource},
    runtime::core::{Lanes, LentSlot, Next, lanes_per_partition_here, lock},
};

/// The lanes of a handle, and the way back to the handle.
#[derive(Debug)]
pub(in crate::runtime) struct LaneArena {
    lanes: Lanes,
    /// When the handle was made; [`FOREIGN`] where it has a clock of the user's.
    origin: AtomicU64,
    owner: Mutex<Weak<Shared>>,
}

/// No [`Origin`].
const FOREIGN: u64 = u64::MAX;

/// Arenas without a handle. Requests may still be on their way out of them.
static VACANT: Mutex<Vec<&'static LaneArena>> = Mutex::new(Vec::new());

impl LaneArena {
    /// Returns an arena for a handle with this number of partitions, and a limit of at most this.
    pub(in crate::runtime) fn find(partitions: usize, max_limit: usize, time: &TimeSource) -> &'static Self {
        let origin = time.origin().map_or(FOREIGN, Origin::as_nanos);
        // A clock of the user's is read under a lock, so more lanes would not help. And a simulation is the same on all
        // machines.
        let max_limit = if origin == FOREIGN { 0 } else { max_limit };
        let per_partition = lanes_per_partition_here(partitions, max_limit);
        let mut vacant = lock(&VACANT);
        let fits = |arena: &&Self| arena.lanes.are_for(partitions, per_partition) && arena.lanes.are_idle();
        let arena = match vacant.iter().position(fits) {
            Some(position) => vacant.swap_remove(position),
            None => Box::leak(Box::new(Self {
                lanes: Lanes::new(partitions, per_partition),
                origin: AtomicU64::new(FOREIGN),
                owner: Mutex::new(Weak::new()),
            })),
        };
        arena.lanes.begin();
        arena.origin.store(origin, Ordering::Relaxed);
        arena
    }

    /// Notes the handle that lives here.
    pub(in crate::runtime) fn belongs_to(&self, owner: &Arc<Shared>) {
        *lock(&self.owner) = Arc::downgrade(owner);
    }

    /// Gives the arena free, whose lanes are closed.
    pub(in crate::runtime) fn leave_to_others(&'static self) {
        lock(&VACANT).push(self);
    }

    /// Returns what tells the handle that lives here from others.
    #[inline]
    pub(in crate::runtime) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(in crate::runtime) const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Returns the handle that lives here, if it still does.
    #[cold]
    pub(in crate::runtime) fn owner(&self) -> Option<Arc<Shared>> {
        lock(&self.owner).upgrade()
    }

    /// Returns the time of the handle; the start of the request where the handle is gone with its clock.
    #[inline]
    pub(in crate::runtime) fn now(&self, slot: &LentSlot) -> Timestamp {
        match self.origin.load(Ordering::Relaxed) {
            FOREIGN => self.owner().map_or(slot.start, |owner| owner.time.now()),
            origin => Origin::from_nanos(origin).elapsed(),
        }
    }

    /// Takes the sample of a request that goes on.
    #[inline]
    pub(in crate::runtime) fn observe(&self, slot: &mut LentSlot, outcome: Outcome) {
        let end = if slot.is_timed() { self.now(slot) } else { Timestamp::NEVER };
        let next = self.lanes.observe(slot, end, outcome);
        self.go_on(next);
    }

    /// Gives a lent slot back, with a sample unless that was taken before.
    #[inline]
    pub(in crate::runtime) fn leave(&self, slot: &LentSlot, end: Option<Timestamp>, outcome: Outcome) {
        let end = match end {
            Some(end) => end,
            None if slot.is_timed() && (!slot.is_observed || self.lanes.are_tight(slot)) => self.now(slot),
            None => Timestamp::NEVER,
        };
        let next = self.lanes.leave(slot, end, outcome);
        self.go_on(next);
    }

    #[inline]
    fn go_on(&self, next: Next) {
        if next != Next::Nothing {
            self.tell(next);
        }
    }

    /// Has the engine look at its lanes.
    #[cold]
    fn tell(&self, next: Next) {
        if let Some(owner) = self.owner()
            && owner.look_at_lanes(next)
        {
            owner.drive_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, Outcome, Ticket, limit::Fixed, runtime::core::force_lanes_per_partition};

    #[test]
    fn arenas_are_used_again_and_not_before_the_last_request_has_left() {
        // No other test builds a handle with this many partitions.
        const PARTITIONS: usize = 37;
        let build = || {
            let admission = Admission::builder().limit(Fixed::new(200)).shed();
            let named = (1..PARTITIONS).map(|number| (number.to_string(), crate::percent(1)));
            named.fold(admission, |it, (name, share)| it.partition(name, share)).build().unwrap()
        };
        let arena = |admission: &Admission| admission.shared.id();
        let first = build();
        let at_first = arena(&first);
        drop(first.try_admit(Ticket::new()).unwrap());
        let permit = first.try_admit(Ticket::new()).unwrap();
        drop(first);
        let second = build();
        assert_ne!(arena(&second), at_first, "a request is still in the first arena");
        permit.finish(Outcome::Success);
        let third = build();
        assert_eq!(arena(&third), at_first);
        assert_eq!(third.snapshot().in_flight, 0);
        for _ in 0..100 {
            third.try_admit(Ticket::new()).unwrap().finish(Outcome::Success);
        }
        let counted = &third.snapshot().partitions[0];
        assert_eq!((counted.admitted, counted.successes), (100, 100), "nothing of the first handle is counted");
    }

    #[test]
    fn an_arena_with_another_number_of_lanes_is_not_taken() {
        // No other test builds a handle with this many partitions.
        const PARTITIONS: usize = 11;
        let find = |per_partition| {
            force_lanes_per_partition(per_partition, || LaneArena::find(PARTITIONS, 1_000, &TimeSource::tokio()))
        };
        let arenas = [1, 4, 1, 4].map(|per_partition| {
            let arena = find(per_partition);
            arena.leave_to_others();
            arena.id()
        });
        assert!(arenas[0] != arenas[1] && arenas[..2] == arenas[2..], "{arenas:?}");
    }

    #[test]
    fn a_thousand_handles_one_after_the_other_share_an_arena() {
        const PARTITIONS: usize = 41;
        let mut arenas = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let arena = LaneArena::find(PARTITIONS, 1_000, &TimeSource::tokio());
            arenas.insert(arena.id());
            arena.leave_to_others();
        }
        assert_eq!(arenas.len(), 1);
    }
}
