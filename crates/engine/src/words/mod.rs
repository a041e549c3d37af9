//! The words of requests and settings, which mean the same on all floors of the library.

mod criticality;
mod from_str;
mod histogram;
mod names;
mod on_store_failure;
mod outcome;
mod problem;
mod reason;
mod time;

#[cfg(feature = "serde")]
pub(crate) use self::reason::known;
pub use self::{
    criticality::Criticality,
    from_str::UnknownWord,
    histogram::Histogram,
    names::{hash_of, normal},
    on_store_failure::OnStoreFailure,
    outcome::Outcome,
    problem::{BuildError, Problem, short, short_words},
    reason::Reason,
    time::{Timestamp, nanos},
};
pub(crate) use self::{from_str::from_str, names::NO_LABEL};

from_str!(Criticality, Reason);
