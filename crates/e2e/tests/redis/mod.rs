//! Limits that are shared through a real Redis, which every test starts for itself, and what becomes of them when it
//! fails.
//!
//! `SOAK=1` repeats each fault twenty times and makes the counts those of the documentation.
mod clock;
mod cluster;
mod contract;
mod exclusive;
mod fair;
mod faults;
mod gone;
mod instances;
mod lock;
mod many;
mod oracle;
mod prefix;
mod processes;
mod refusals;
mod secrets;
mod shares;
mod slow;
mod stale;
mod stale_cluster;
pub(crate) mod support;
mod waiting;
