//! Whose a slot is.

use crate::engine::ids::LabelId;

/// Whom a slot belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) partition: u16,
    pub(crate) label: LabelId,
    pub(crate) level: u8,
    /// What it is beyond of, as marks of a slot.
    pub(crate) shadow: u8,
}
