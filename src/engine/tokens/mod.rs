//! What the engine is given and what it hands out: requests as it sees them, slots, places and refusals.

mod ask;
mod dry_run;
mod slot;

pub(crate) use self::{
    ask::{Ask, Subject},
    dry_run::Would,
    slot::*,
};
