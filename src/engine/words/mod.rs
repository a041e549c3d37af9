//! The words of requests and settings, which mean the same on all floors of the library.

pub(crate) mod criticality;
mod names;
pub(crate) mod outcome;
pub(crate) mod problem;
mod reason;
pub(crate) mod time;

pub(crate) use self::names::{NO_LABEL, hash_of, normal};
#[cfg(feature = "introspect")]
pub(crate) use self::reason::known;
pub use self::{
    criticality::Criticality,
    outcome::Outcome,
    problem::{BuildError, Problem},
    reason::Reason,
    time::Timestamp,
};
