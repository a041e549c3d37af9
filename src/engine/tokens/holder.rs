//! The holder of a slot.

use super::Ask;
use crate::engine::ids::LabelId;

/// The request that a slot belongs to: partition, label and level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) partition: u16,
    pub(crate) label: LabelId,
    pub(crate) level: u8,
    /// What the request exceeds, as marks of a slot.
    pub(crate) shadow: u8,
}

impl Holder {
    /// How many slots the request takes. All requests take one so far; the arithmetic of slots, caps and meters asks here.
    #[inline]
    pub(crate) const fn cost(&self) -> usize {
        Ask::COST
    }
}
