//! Units of a rate that were charged in advance.

use std::time::Duration;

use tokio::time::Instant;

/// Units of a rate that were charged in advance.
#[derive(Debug)]
pub(super) struct Purse {
    pub(super) units: u32,
    pub(super) until: Instant,
    pub(super) step: u32,
    pub(super) answers: u64,
    pub(super) retry_after: Duration,
}

impl Purse {
    pub(super) const fn new(now: Instant) -> Self {
        Self { units: 0, until: now, step: 1, answers: 0, retry_after: Duration::ZERO }
    }
}
