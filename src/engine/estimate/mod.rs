//! What is expected: how long slots are held, and how long work takes.

pub(crate) mod hold_time;
pub(crate) mod service_time;

use self::{hold_time::Drain, service_time::Work};

/// The estimates.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    pub(crate) drain: Drain,
    pub(crate) work: Work,
}
