//! What an operator does with a handle: builds it, changes its settings, looks at it and shuts it down.

mod builder;
mod drain;
#[cfg(feature = "config")]
mod file_watch;
mod journal;
mod reload;
mod unmet;
mod workers;

pub use builder::AdmissionBuilder;
pub use drain::DrainMode;
#[cfg(feature = "config")]
pub use file_watch::Watch;
pub use workers::WorkerReport;
