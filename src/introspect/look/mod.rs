//! Looks at the engine, and what they find as it is told.

mod history;
mod journal;
mod labels;
mod overview;
mod waiters;

pub(super) use self::{
    history::history,
    journal::journal,
    labels::{find_label, label_page},
    overview::{overview, partitions},
    waiters::waiter_page,
};
