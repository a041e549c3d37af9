//! Overload in virtual time: the handle of `tower-admission`, between invented clients and an invented server.
//!
//! A [`scenario`](scenario::Scenario) says which requests come, how long the work takes and how the server is protected; a
//! [`report`](metrics::Report) says what became of it. The same seed gives the same report. [`command::run`] is all of that
//! from a command line, `admission simulate` and the example `simulate`.

#![allow(missing_docs, reason = "most fields are those of scenarios and reports, which FORMAT.md explains")]
#![allow(clippy::exhaustive_enums, clippy::exhaustive_structs, reason = "for this repository's command line and tests")]
#![allow(clippy::len_without_is_empty, reason = "nothing asks whether a simulated server is empty")]

pub mod arrivals;
mod attempt;
pub mod candidate;
pub mod captured;
pub mod check;
pub mod clients;
pub mod command;
pub mod compare;
pub mod expect;
pub mod fleet;
pub mod law;
mod lines;
pub mod metrics;
pub mod node;
pub mod oracle;
pub mod policy;
mod queue;
pub mod random;
pub mod record;
pub mod replay;
pub mod scenario;
pub mod server;
pub mod suggest;
pub mod tenants;
pub mod timeline;
pub mod what_if;
pub mod windows;
pub mod world;
