//! Who waits: the gate, the line, and how long.

pub(crate) mod burst_allowance;
pub(crate) mod discipline;
pub(crate) mod fair;
pub(crate) mod jobs;
pub(crate) mod slab;

use self::{burst_allowance::Credit, fair::FairQueue, jobs::Runs};
use crate::{
    engine::{
        deadlines::Deadlines,
        plan::{Bound, Discipline},
    },
    time::Timestamp,
};

/// The waiters.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// How many wait, in line and at the gate.
    pub(crate) in_line: usize,
    pub(crate) at_gate: usize,
    pub(crate) line: Bound,
    pub(crate) gate: Bound,
    pub(crate) queue: Option<usize>,
    pub(crate) discipline: Discipline,
    /// When the line was empty last.
    pub(crate) last_empty: Timestamp,
    pub(crate) credit: Credit,
    pub(crate) waiting: FairQueue,
    pub(crate) runs: Runs,
    pub(crate) deadlines: Deadlines,
    pub(crate) sequence: u64,
}
