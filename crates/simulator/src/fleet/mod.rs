//! A fleet: several instances with the handle that ships, their callers, the network and the store, in one process, on one
//! thread, in virtual time, from one seed.
//!
//! ```text
//! callers and handlers ──▶ Admission, engine, runtime, Leases, local shares ──▶ Link ──▶ Network ──▶ MemoryStore
//!          │                         one Tokio runtime each                      late, lost, repeated, cut
//!          ▼
//!       Ledger: what was seen from outside, compared with what is promised
//! ```
//!
//! Everything is drawn from the seed: the settings, the callers, the faults, and what the network does to each message.
//! [`run()`] says which promise was broken, if any was, and a hash of all that was seen: the same seed gives the same hash.
//! [`shrink`] looks for the shortest plan that breaks the same promise.
//!
//! # How time passes
//!
//! Each instance has a Tokio runtime of its own whose clock is paused, so that an instance can be stopped: its tasks don't run,
//! its clock goes on, and when it runs again all of that time has passed at once. All instances are stepped by one *round*,
//! from 1 to 4 ms, one after another. No message is faster than a round, so what an instance does in a round reaches no other
//! in the same round, and the order in which they are stepped means nothing. Inside of a round, timers end at their own
//! millisecond.
//!
//! # What ships and what does not
//!
//! All of the library is the shipped code, its background tasks included. The store is the shipped `MemoryStore`, in a time of
//! its own. The client between both (`link.rs`) stands for that of Redis: it waits for an answer for one time limit, leaves a
//! store alone that failed five times in a row, and gives a grant back that came too late. What only the Redis client and its
//! scripts do, such as the quiet time after a restart, is tested against real servers.
//!
//! # What is checked
//!
//! After each millisecond: the limit of each instance, hard caps of partitions, caps of labels, caps and rates of all
//! instances together, drains, and that reasons of rejections are true. Some ten times a second: that the handle counts what
//! callers and handlers know, that no request waits beside a free slot, and that each wait ends. Always: that nothing panics.
//! At rest: that each request has ended, each slot and each unit of a shared cap is back after one expiry, each drain is over,
//! and each instance admits. `ledger/allowed.rs` has what the documentation allows, with its sentences.

mod clock;
mod draw;
mod here;
mod instance;
mod law;
mod ledger;
mod link;
mod network;
pub mod plan;
mod request;
mod run;
mod shrink;

pub use self::{
    ledger::{Attempts, Broken},
    plan::Plan,
    run::{Report, run},
    shrink::shrink,
};

/// Draws the plan of a seed, with a number of instances from this range.
pub fn draw(seed: u64, instances: std::ops::RangeInclusive<usize>) -> Plan {
    draw::plan(seed, *instances.start(), *instances.end())
}
