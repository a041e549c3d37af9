//! Limits that are shared through a real Redis, which every test starts for itself, and what becomes of them when it
//! fails.
//!
//! `SOAK=1` repeats each fault twenty times and makes the counts those of the documentation.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic just as the tests may")]

#[cfg(feature = "redis-cluster")]
mod cluster;
mod contract;
mod exclusive;
mod faults;
mod gone;
mod instances;
mod lock;
mod oracle;
mod processes;
mod secrets;
mod shares;
mod support;
mod waiting;
