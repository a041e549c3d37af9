//! The capture of the last minutes, as it stands.

use serde::{Deserialize, Serialize};

#[cfg(feature = "capture")]
use crate::runtime::CaptureState;

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
    /// Time between the oldest and the newest row, in seconds.
    pub span_seconds: f64,
    /// Memory that its rows take, in bytes.
    pub bytes: usize,
    /// Memory that its rows may take, in bytes.
    pub max_bytes: usize,
    /// Rows that were recorded since it was started.
    pub rows: u64,
    /// Turns that were not recorded.
    pub missed: u64,
}

#[cfg(feature = "capture")]
impl From<CaptureState> for CaptureStatus {
    fn from(it: CaptureState) -> Self {
        Self {
            running: it.is_running,
            last_seconds: it.last.as_secs_f64(),
            span_seconds: it.span.as_secs_f64(),
            bytes: it.bytes,
            max_bytes: it.max_bytes,
            rows: it.rows,
            missed: it.missed,
        }
    }
}
