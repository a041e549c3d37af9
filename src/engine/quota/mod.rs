//! What each key may: labels, caps, rates, budgets and workers.

pub(crate) mod labels;
pub(crate) mod rules;
mod throttled;
pub(crate) mod workers;

use self::{labels::Labels, rules::Rules};
use crate::{engine::deadlines::Deadlines, time::Timestamp};

/// The keys.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub(crate) labels: Labels,
    pub(crate) rules: Rules,
    /// When the rates have room again for which labels wait.
    pub(crate) rates_due: Deadlines,
    /// When a worker of a label falls silent.
    pub(crate) workers_due: Timestamp,
}
