//! Admission of a request: at once, after a wait or not at all; and the permit that it gets.

mod entry;
mod expired_slots;
mod give_up;
mod guard;
mod kept;
mod lease_lost;
mod permit;
mod waiting;

pub use entry::Admit;
pub(crate) use entry::Entry;
pub use expired_slots::PermitExpiry;
pub(crate) use guard::{AsShared, SlotGuard};
pub use kept::{KeptSlot, SlotKeeper};
pub use lease_lost::LeaseLost;
pub use permit::Permit;
pub(crate) use waiting::Waiting;
