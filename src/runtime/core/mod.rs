//! The engine under one lock, the clock, and the results of a turn: wakers, drivers, a capture. Knows nothing else of
//! the runtime.

mod abandoned_slots;
#[cfg(feature = "capture")]
mod checkpoint;
mod drivers;
mod foreign;
mod lock;
mod partition_names;
mod quiet;
mod recorded;
mod slots;
mod standing_refusals;
mod state;
#[cfg(feature = "capture")]
mod tape;
mod turn;
mod wakers;

#[cfg(feature = "capture")]
pub(in crate::runtime) use self::checkpoint::{Checkpoint, Present};
#[cfg(test)]
pub(in crate::runtime) use self::quiet::{be_thread, force_lanes_per_partition};
#[cfg(not(feature = "capture"))]
pub(in crate::runtime) use self::recorded::SettingsText;
#[cfg(feature = "capture")]
pub(in crate::runtime) use self::tape::{Arrive, Cut, End, Gets, PAUSE, Row, Step, Tape, Worker, deadline};
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
