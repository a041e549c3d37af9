//! What is counted for one label.

use crate::{Histogram, Outcome, Reason, codes};

/// What became of a request.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum LabelOutcome {
    /// The caller left, while the request waited or while it ran.
    Cancelled,
    /// The request was rejected, and not because of time.
    Denied,
    Ignored,
    Overload,
    Success,
    /// The request waited in vain, or would have.
    Timeout,
}

impl LabelOutcome {
    codes! {
        #[doc(hidden)]
        6:
            Cancelled = "cancelled", Denied = "denied", Ignored = "ignored", Overload = "overload",
            Success = "success", Timeout = "timeout",
    }

    pub(in crate::telemetry) const fn of_ended(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Ignore => Self::Ignored,
            Outcome::Overload => Self::Overload,
            Outcome::Success => Self::Success,
        }
    }

    pub(crate) const fn of_rejected(reason: Reason) -> Self {
        match reason {
            Reason::Deadline | Reason::GateTimeout | Reason::QueueTimeout => Self::Timeout,
            _ => Self::Denied,
        }
    }
}

/// What happened to the requests of one label.
#[derive(Clone, Debug, Default)]
pub struct LabelCounts {
    pub requests: u64,
    /// Counts in the order of [`LabelOutcome::ALL`].
    pub outcomes: [u64; LabelOutcome::ALL.len()],
    pub times: Box<Times>,
}

/// Times of requests, stored apart because a histogram takes a kilobyte.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Round-trip times of requests that succeeded.
    pub rtt: Histogram,
    /// Waits of requests that were admitted after a wait.
    pub wait: Histogram,
}

impl LabelCounts {
    pub(crate) const fn ended(&mut self, outcome: LabelOutcome, count: u64) {
        self.outcomes[outcome as usize] += count;
    }
}
