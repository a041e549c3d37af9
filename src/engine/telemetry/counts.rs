//! What happened to the requests of a partition.

use super::Histogram;
use crate::{outcome::Outcome, rejection::Reason};

/// What happened in a partition since the handle was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Requests that came.
    pub(crate) arrived: u64,
    /// Requests that ran, and requests among them that had to wait.
    pub(crate) admitted: u64,
    pub(crate) queued: u64,
    /// Requests that ran although they would have waited or been rejected, because decisions did not bind.
    pub(crate) would_queue: u64,
    pub(crate) would_reject: [u64; Reason::ALL.len()],
    pub(crate) cancelled_waiting: u64,
    pub(crate) rejected: [u64; Reason::ALL.len()],
    pub(crate) successes: u64,
    pub(crate) overloads: u64,
    /// Successes that told of an overload in their trailers.
    pub(crate) late_overloads: u64,
    pub(crate) cancelled: u64,
    pub(crate) ignored: u64,
    pub(crate) rtt: Histogram,
    pub(crate) wait: Histogram,
}

impl Counts {
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
