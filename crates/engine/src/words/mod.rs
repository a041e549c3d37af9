//! The words of requests and settings, which mean the same on all floors of the library.

mod criticality;
mod histogram;
mod names;
mod on_store_failure;
mod outcome;
mod problem;
mod reason;
mod time;

pub(crate) use self::names::NO_LABEL;
#[cfg(feature = "serde")]
pub(crate) use self::reason::known;
pub use self::{
    criticality::Criticality,
    histogram::Histogram,
    names::{hash_of, normal},
    on_store_failure::OnStoreFailure,
    outcome::Outcome,
    problem::{BuildError, Problem, short},
    reason::Reason,
    time::{Timestamp, nanos},
};
