//! The one lock, what it guards, and what is told to the engine under it.

mod foreign;
#[cfg(feature = "introspect")]
mod tape;
mod turn;

pub(in crate::runtime) use foreign::{discard, shielded, wake};
#[cfg(feature = "introspect")]
pub(in crate::runtime) use tape::{Arrive, Cut, End, Gets, PAUSE, Reload, Row, Step, Tape, Worker, deadline};
pub(crate) use turn::Shared;
pub(in crate::runtime) use turn::{State, lock};
