//! Who runs: the limit, the shares of partitions, and what is held back of it.

pub(crate) mod partition;
pub(crate) mod reservation;
pub(crate) mod reservations;
pub(crate) mod shares;

use self::{partition::Partition, reservations::Reservations};
use crate::engine::plan::PartitionPlan;

/// The slots.
#[derive(Debug)]
pub(crate) struct Capacity {
    /// Changes when the law says so, or by hand.
    pub(crate) limit: usize,
    pub(crate) running: usize,
    /// How many run besides, in partitions whose decisions don't bind.
    pub(crate) outside: usize,
    pub(crate) partitions: Vec<Partition>,
    /// The part of each partition, and room to compute its share: a limit moves without an allocation.
    pub(crate) parts: Vec<u32>,
    pub(crate) shares: Vec<usize>,
    /// Slots and places that are held back for requests that were refused below their share.
    pub(crate) reserved: Reservations,
    /// Whether any partition may run beyond the limit.
    pub(crate) overcommits: bool,
    pub(crate) running_by_level: [usize; 4],
}

impl Capacity {
    pub(crate) fn new(plans: Vec<PartitionPlan>) -> Self {
        Self {
            limit: 0,
            running: 0,
            outside: 0,
            overcommits: plans.iter().any(PartitionPlan::passes_limit),
            parts: plans.iter().map(|it| it.part).collect(),
            shares: vec![0; plans.len()],
            partitions: plans.into_iter().map(Partition::new).collect(),
            reserved: Reservations::none(),
            running_by_level: [0; 4],
        }
    }
}
