//! What the engine is given and what it hands out: requests as it sees them, slots, places and rejections.

mod ask;
mod dry_run;
mod holder;
mod slot;

pub(crate) use self::{
    ask::{Ask, Subject},
    dry_run::Would,
    holder::Holder,
    slot::*,
};
