//! The slots that the engine lent to a lane, in one atomic number.
//!
//! ```text
//! bits    0..20  requests that run on lent slots
//! bits   20..40  lent slots that are free, plus a bias; far below it while the lane is closed
//! bits   40..64  requests that have left, modulo 2^24
//! ```
//!
//! A request enters with one `fetch_add` and leaves with another. What runs and what is free add up to what was lent, in any order: so no
//! more requests run than slots were lent, without a look at any other number. A closed lane looks as if it had far too few free slots. So
//! closing needs no second test, and a request that enters while the lane closes sees that in the value that its own `fetch_add` returns.
//!
//! The split of a count into a part for everyday use and an authority that calls it back is that of `percpu_ref` in Linux
//! (`lib/percpu-refcount.c`).

use super::atomics::{AtomicU64, Ordering};

/// One running request.
const USED: u64 = 1;
/// One free slot.
const FREE: u64 = 1 << 20;
/// One request that has left.
const LEFT: u64 = 1 << 40;
const MASK: u64 = (1 << 20) - 1;
/// The count of free slots that stands for none. Requests that find none count below it until they are gone again.
const BIAS: u64 = 1 << 19;
/// What a closed lane has less free slots.
const CLOSED: u64 = 1 << 18;

/// Most slots that are lent to a lane: an open lane never looks closed, and a closed one never open.
pub(in crate::runtime) const MOST_LENT: u32 = (1 << 17) - 1;

/// What runs in a lane, what is free there and what has left.
#[derive(Debug)]
pub(in crate::runtime) struct LaneState(AtomicU64);

/// A request that has entered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) struct Entered {
    /// Requests that run on slots of this lane, this one included.
    pub(in crate::runtime) used: u32,
    /// Requests that entered before, modulo 2^24.
    pub(in crate::runtime) number: u32,
}

/// A look at the lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) struct Seen {
    /// Requests that run on slots of this lane; before it left, for a request that leaves.
    pub(in crate::runtime) used: u32,
    /// Requests that have left before, modulo 2^24.
    pub(in crate::runtime) left: u32,
    pub(in crate::runtime) is_closed: bool,
}

impl Seen {
    const fn of(state: u64) -> Self {
        Self {
            used: (state & MASK) as u32,
            left: (state >> 40) as u32,
            is_closed: (state >> 20) & MASK < BIAS - CLOSED / 2,
        }
    }
}

/// Whether a request that meets this value may enter: a slot is free, and the lane is open.
#[inline]
const fn has_free(state: u64) -> bool {
    state << 24 >= (BIAS + 1) << 44
}

impl LaneState {
    /// A closed lane without slots.
    pub(in crate::runtime) fn closed() -> Self {
        Self(AtomicU64::new((BIAS - CLOSED) * FREE))
    }

    /// Enters, if the lane is open and a slot is free.
    ///
    /// A request that gets `None` must take the lock of the engine next: for a moment it may have counted as running.
    #[inline]
    pub(in crate::runtime) fn enter(&self) -> Option<Entered> {
        // While the lane is closed, requests that look don't write.
        if !has_free(self.0.load(Ordering::Relaxed)) {
            return None;
        }
        let state = self.0.fetch_add(USED.wrapping_sub(FREE), Ordering::AcqRel);
        if !has_free(state) {
            self.give_up();
            return None;
        }
        let seen = Seen::of(state);
        Some(Entered { used: seen.used + 1, number: (seen.left + seen.used) & 0xff_ffff })
    }

    /// Undoes what entering did. The request must take the lock of the engine next.
    #[inline]
    pub(in crate::runtime) fn give_up(&self) {
        self.0.fetch_add(FREE - USED, Ordering::AcqRel);
    }

    /// Whether no further request may enter: the lane is closed, or no slot is free.
    #[inline]
    pub(in crate::runtime) fn is_tight(&self) -> bool {
        !has_free(self.0.load(Ordering::Relaxed))
    }

    /// Leaves. The slot is free again; if the lane is closed, the request must take the lock of the engine next, so that
    /// the engine gets the slot.
    #[inline]
    pub(in crate::runtime) fn leave(&self) -> Seen {
        Seen::of(self.0.fetch_add(LEFT + FREE - USED, Ordering::AcqRel))
    }

    /// Opens a closed lane, with more slots than before, or fewer. Where that is fewer than run, no request enters until
    /// enough have left. Under the lock of the engine.
    pub(in crate::runtime) fn open(&self, more: i64) {
        self.0.fetch_add((more.cast_unsigned() << 20).wrapping_add(CLOSED * FREE), Ordering::AcqRel);
    }

    /// Closes an open lane. Under the lock of the engine.
    pub(in crate::runtime) fn close(&self) -> Seen {
        Seen::of(self.0.fetch_sub(CLOSED * FREE, Ordering::AcqRel))
    }

    /// Takes a running request out, with its slot: the engine counts it from now on. Under the lock of the engine.
    pub(in crate::runtime) fn take_out(&self) {
        self.0.fetch_sub(USED, Ordering::AcqRel);
    }

    /// Returns how many slots a closed lane takes for lent, free ones and used ones.
    pub(in crate::runtime) fn lent(&self) -> i64 {
        let closed = self.0.load(Ordering::Acquire);
        let free = (closed >> 20 & MASK).wrapping_add(CLOSED).wrapping_sub(BIAS);
        free.wrapping_add(closed & MASK).cast_signed()
    }

    /// Looks. A request that gives up entering may be counted as running, until it takes the lock.
    #[inline]
    pub(in crate::runtime) fn look(&self) -> Seen {
        Seen::of(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_and_what_is_free_add_up_to_what_was_lent() {
        let state = LaneState::closed();
        assert_eq!(state.enter(), None, "closed");
        state.open(2);
        assert_eq!(state.enter(), Some(Entered { used: 1, number: 0 }));
        assert_eq!(state.enter(), Some(Entered { used: 2, number: 1 }));
        assert_eq!(state.enter(), None, "no slot is free");
        assert_eq!(state.leave(), Seen { used: 2, left: 0, is_closed: false });
        assert_eq!(state.enter(), Some(Entered { used: 2, number: 2 }));
        assert!(!state.close().is_closed && state.look().is_closed);
        assert_eq!(state.leave(), Seen { used: 2, left: 1, is_closed: true });
        assert_eq!(state.enter(), None, "a slot is free, and the lane is closed");
        state.take_out();
        // One slot went with the request that was taken out.
        state.open(0);
        assert_eq!(state.enter(), Some(Entered { used: 1, number: 2 }));
        assert_eq!(state.enter(), None);
    }

    #[test]
    fn a_loan_that_shrinks_below_what_runs_lets_no_request_in_until_enough_have_left() {
        let state = LaneState::closed();
        state.open(3);
        for _ in 0..3 {
            assert!(state.enter().is_some());
        }
        state.close();
        assert_eq!(state.lent(), 3);
        state.open(-2);
        for left in 0..3 {
            assert_eq!((state.enter(), state.leave().left), (None, left));
        }
        assert!(state.enter().is_some());
        assert_eq!(state.enter(), None);
        state.close();
        assert_eq!(state.lent(), 1);
    }

    #[test]
    fn the_largest_loan_neither_looks_closed_nor_spills() {
        let state = LaneState::closed();
        state.open(i64::from(MOST_LENT));
        for number in 0..3 * MOST_LENT - 2 {
            let entered = state.enter().expect("slots are free");
            assert_eq!(entered.number, number & 0xff_ffff);
            if number % 3 > 0 {
                assert!(!state.leave().is_closed);
            }
        }
        assert_eq!(state.enter(), None, "all slots are taken");
        let seen = state.close();
        assert_eq!((seen.used, seen.left), (MOST_LENT, 2 * (MOST_LENT - 1)));
        assert!(state.look().is_closed);
        assert_eq!(state.lent(), i64::from(MOST_LENT));
        for _ in 0..MOST_LENT {
            assert!(state.leave().is_closed);
            assert_eq!(state.enter(), None);
        }
        state.open(-i64::from(MOST_LENT));
        assert_eq!(state.look(), Seen { used: 0, left: 3 * MOST_LENT - 2, is_closed: false });
        assert_eq!(state.enter(), None, "nothing is lent");
    }
}
