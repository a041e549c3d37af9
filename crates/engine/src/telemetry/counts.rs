//! What happened to the requests of a partition.

use crate::Histogram;
use crate::{Outcome, Reason};

/// What happened in a partition since the handle was made.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that ran, and requests among them that had to wait.
    pub admitted: u64,
    pub queued: u64,
    /// Requests that ran although they would have waited or been rejected, because decisions did not bind.
    pub would_queue: u64,
    pub would_reject: [u64; Reason::ALL.len()],
    pub cancelled_waiting: u64,
    pub rejected: [u64; Reason::ALL.len()],
    pub successes: u64,
    pub overloads: u64,
    /// Successes that told of an overload in their trailers.
    pub late_overloads: u64,
    pub cancelled: u64,
    /// Successes that came after the deadline of their requests.
    pub late: u64,
    pub ignored: u64,
    pub rtt: Histogram,
    pub wait: Histogram,
}

impl Counts {
    /// Returns how many requests had no answer in time: their callers left, or it came after the deadline.
    pub(super) const fn unanswered(&self) -> u64 {
        self.cancelled + self.cancelled_waiting + self.late
    }

    /// Returns the count of requests that ended so.
    #[inline]
    pub(super) const fn of(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Cancelled => &mut self.cancelled,
            Outcome::Ignore => &mut self.ignored,
            Outcome::Overload => &mut self.overloads,
            Outcome::Success => &mut self.successes,
        }
    }
}
