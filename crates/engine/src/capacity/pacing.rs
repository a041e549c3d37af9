//! Pacing: requests that may wait start one after the other, although more slots are free.
//!
//! A limit bounds how many requests run, not how many start at once. Where most of an answer is delay, the server behind the delay
//! has few of those that run. A burst that fills the free slots floods it, and the first answer that tells comes a delay later.

use std::time::Duration;

use super::Capacity;
use crate::{Timestamp, nanos};

/// Starts that were due within this time happen together: timers wake no sooner than after a millisecond or two.
const CREDIT: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Least time from one start to the next, in nanoseconds.
    pub(super) gap: u64,
    /// When the next start is due.
    due: Timestamp,
    /// Time before which none happens; `NEVER` where one may.
    pub(super) held_until: Timestamp,
}

impl Pacing {
    pub(super) const NONE: Self = Self { gap: 0, due: Timestamp::ZERO, held_until: Timestamp::NEVER };

    /// Whether the next start is not due yet.
    pub(super) const fn is_held(self) -> bool {
        self.held_until.as_nanos() != Timestamp::NEVER.as_nanos()
    }

    /// Counts a start. One that was not due is of a request that may not wait, and doesn't hold back those that do.
    #[inline]
    pub(super) fn started(&mut self, now: Timestamp) {
        if self.gap > 0 && self.held_until == Timestamp::NEVER {
            self.hold_back(now);
        }
    }

    #[cold]
    fn hold_back(&mut self, now: Timestamp) {
        self.due = self.due.max(now.before(CREDIT)).after(Duration::from_nanos(self.gap));
        self.held_until = if self.due > now { self.due } else { Timestamp::NEVER };
    }
}

impl Capacity {
    /// Has requests that may wait start with at least this time in between, from the next start on; zero ends that. A start that is
    /// held back already stays so until it is due: its waiter is woken then.
    pub(crate) fn pace(&mut self, gap: Duration) {
        self.pacing.gap = nanos(gap);
    }
}
