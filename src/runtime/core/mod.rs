//! The engine under one lock, the clock, and the results of a turn: wakers, drivers, a capture. Knows nothing else of the runtime.

mod abandoned_slots;
#[cfg(feature = "capture")]
mod checkpoint;
mod drivers;
mod foreign;
mod lock;
mod partition_names;
mod quiet;
mod recorded;
#[cfg(feature = "capture")]
mod request;
mod slots;
mod standing_refusals;
mod state;
#[cfg(feature = "capture")]
mod tape;
mod turn;
mod wakers;

#[cfg(test)]
pub(in crate::runtime) use self::quiet::{be_thread, force_lanes_per_partition};
#[cfg(not(feature = "capture"))]
pub(in crate::runtime) use self::recorded::SettingsText;
pub(crate) use self::turn::Core;
pub(in crate::runtime) use self::{
    abandoned_slots::Along,
    drivers::{DriverSeat, make_way},
    foreign::{discard, shielded, wake},
    lock::lock,
    quiet::{Lanes, LentSlot, Next, lanes_per_partition_here},
    slots::{SlotNumber, SlotRef},
    state::State,
};
#[cfg(feature = "capture")]
pub(in crate::runtime) use self::{
    checkpoint::{Checkpoint, Present},
    request::{Arrive, Gets},
    tape::{Cut, End, PAUSE, Row, Step, Tape, deadline},
};
