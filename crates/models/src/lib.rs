//! The quiet path under loom: all interleavings of a few threads. See the README.
//!
//! The files of `src/runtime/core/quiet` are explored as they ship; the build script puts loom's atomics into their place
//! in a copy. What these files name of the rest of the library is here: the two smallest modules as they ship too, and an
//! engine that only counts.

#![allow(clippy::duplicate_mod, reason = "each copy of the quiet path gets the same models")]
#![allow(dead_code, reason = "a model doesn't need everything, and most copies are for a single model")]

mod engine;
#[path = "../../../crates/engine/src/words/outcome.rs"]
mod outcome;
pub mod runtime;
#[path = "../../../crates/engine/src/words/time.rs"]
mod time;

pub use crate::{outcome::Outcome, time::Timestamp};

/// A deliberate mistake of what is not in the shipped files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mistake {
    None,
    /// A waiter looks for its slot in one turn and leaves its waker in another one.
    WaitsInTwoTurns,
    /// A waiter that cancels after it was granted a slot leaves the line, and keeps the slot.
    KeepsWhatItDidNotFetch,
}
