//! Refusals that stand: the answer to each further request of a partition, until the next turn of the engine.
//!
//! Where many requests are rejected, the engine would find the same for each of them: no slot, no place, and nothing that
//! changes but counts. So it lets its refusal stand, and requests take that without the lock. The refusal is withdrawn at the
//! beginning of each other turn, and is too old after a moment.
//!
//! The number that says whether a refusal stands counts the requests that took it too: a request takes the refusal and is counted by the
//! same atomic instruction. So a request that comes after the refusal was withdrawn never takes it, and each request that took it
//! is counted once.

use super::atomics::{AtomicU64, Ordering};
use crate::Timestamp;

/// Bits of the count, below those of the code.
const COUNT: u32 = 48;

/// The refusal to each further request of a partition, if one stands.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::runtime) struct StandingRefusal {
    /// Requests that took a refusal, and the code of the refusal that stands: 0 while none does.
    state: AtomicU64,
    /// When the refusal is too old, in nanoseconds.
    until: AtomicU64,
    retry_after: AtomicU64,
    bound: AtomicU64,
}

/// A refusal that stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::runtime) struct RefusalParts {
    /// The code of the reason; not 0.
    pub(in crate::runtime) code: u16,
    /// When to come back, in nanoseconds from now.
    pub(in crate::runtime) retry_after: u64,
    /// Requests that the bound allows.
    pub(in crate::runtime) bound: u64,
}

impl StandingRefusal {
    /// No refusal.
    pub(in crate::runtime) fn nothing() -> Self {
        let zero = || AtomicU64::new(0);
        Self { state: zero(), until: zero(), retry_after: zero(), bound: zero() }
    }

    /// Takes the refusal that stands. A request that gets `None` must ask the engine.
    ///
    /// When to come back may be that of a refusal with the same code a moment earlier or later.
    #[inline]
    pub(in crate::runtime) fn take(&self, now: impl FnOnce() -> Timestamp) -> Option<RefusalParts> {
        let mut state = self.state.load(Ordering::Acquire);
        let code = state >> COUNT;
        if code == 0 || now().as_nanos() >= self.until.load(Ordering::Relaxed) {
            return None;
        }
        let (retry_after, bound) = (self.retry_after.load(Ordering::Relaxed), self.bound.load(Ordering::Relaxed));
        // Not a `fetch_add`: where the refusal was withdrawn meanwhile, the count must not even move for a moment.
        while let Err(seen) = self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Relaxed) {
            if seen >> COUNT != code {
                return None;
            }
            state = seen;
        }
        Some(RefusalParts { code: u16::try_from(code).unwrap_or(u16::MAX), retry_after, bound })
    }

    /// Returns how many requests ever took a refusal.
    #[cfg(test)]
    pub(in crate::runtime) fn taken(&self) -> u64 {
        self.state.load(Ordering::Relaxed) & ((1 << COUNT) - 1)
    }

    /// Lets a refusal stand where none does. Under the lock of the engine.
    pub(in crate::runtime) fn let_stand(&self, parts: &RefusalParts, until: Timestamp) {
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        self.retry_after.store(parts.retry_after, Ordering::Relaxed);
        self.bound.store(parts.bound, Ordering::Relaxed);
        self.state.fetch_add(u64::from(parts.code) << COUNT, Ordering::AcqRel);
    }

    /// Withdraws the refusal that stands. Returns how many requests ever took one. Under the lock of the engine.
    pub(in crate::runtime) fn withdraw(&self) -> u64 {
        let code = self.state.load(Ordering::Relaxed) >> COUNT << COUNT;
        self.state.fetch_sub(code, Ordering::AcqRel) - code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_nanos(5);

    #[test]
    fn a_refusal_is_taken_while_it_stands_and_each_time_counted() {
        let standing = StandingRefusal::nothing();
        let take = |at| standing.take(|| Timestamp::from_nanos(at));
        assert_eq!(take(0), None, "none stands");
        for (code, counted) in [(1, 3), (u16::MAX, 6)] {
            let parts = RefusalParts { code, retry_after: 7, bound: 8 };
            standing.let_stand(&parts, AT);
            assert_eq!([0, 1, 4].map(take), [Some(parts); 3]);
            assert_eq!(take(5), None, "it is too old");
            assert_eq!(standing.withdraw(), counted);
            assert_eq!(take(0), None, "it was withdrawn");
        }
        assert_eq!(standing.withdraw(), 6, "nothing stands");
    }
}
