//! The holder of a slot.

use super::{Ask, Borrower, Marks};
use crate::{
    Criticality,
    ids::{LabelId, Level, PartitionId},
};

/// The request that a slot belongs to: partition, label and level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) partition: PartitionId,
    pub(crate) label: LabelId,
    pub(crate) level: Level,
    /// What the request exceeds, as marks of a slot.
    pub(crate) marks: Marks,
}

impl Holder {
    /// The holder of a lent slot.
    pub(crate) fn of(Borrower { partition, label }: Borrower) -> Self {
        Self { partition, label, level: Level::of(Criticality::default()), marks: Marks::NONE }
    }

    /// How many slots the request takes. All requests take one so far; the arithmetic of slots, caps and meters asks here.
    #[inline]
    pub(crate) const fn cost(&self) -> usize {
        Ask::COST
    }
}
