//! How a rolling capture stands, for the program that records it and for clients of the introspection.

use serde::{Deserialize, Serialize};

/// How a [rolling capture](crate::docs::introspection#rolling-captures) of the server stands.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct CaptureStatus {
    /// Whether it records.
    pub running: bool,
    /// Time for which it remembers, in seconds.
    pub last_seconds: f64,
    /// Time between the oldest and the newest row, in seconds. Less than it remembers where the capture began later, or where that
    /// would take more memory than there may be.
    pub span_seconds: f64,
    /// Memory that its rows take, in bytes.
    pub bytes: usize,
    /// Memory that its rows may take, in bytes.
    pub max_bytes: usize,
    /// Rows that were recorded since it was started, those included that are forgotten.
    pub rows: u64,
    /// Turns that were not recorded, since rows came faster than they were taken.
    pub missed: u64,
}
