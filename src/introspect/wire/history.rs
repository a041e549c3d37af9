//! The last hour, in seconds and tens of seconds.

use serde::{Deserialize, Serialize};

use crate::engine::JournalEntry;

/// What happened in the last hour, or in a part of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct HistoryPage {
    /// Time from which on anything is known, in seconds since the handle was made.
    pub began_seconds: f64,
    /// Time of the answer, in seconds since the handle was made, to the second: it stays the same until there is a new frame, and
    /// is the `since` of the next request.
    pub until_seconds: f64,
    /// Time that is kept, in seconds.
    pub kept_seconds: f64,
    /// Time that a frame of the last minutes is about, in seconds.
    pub step_seconds: f64,
    /// Time that an older frame is about, in seconds.
    pub older_step_seconds: f64,
    /// What happened, the oldest first. No two frames are about the same time.
    pub frames: Vec<HistoryFrame>,
    /// Changes of the limit, the settings, the mode and the store in this time, the oldest first, as far as the journal has them.
    pub marks: Vec<JournalEntry>,
}

/// What happened in a second, or in several. Gauges are means of what was seen once a second.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct HistoryFrame {
    /// Begin, in seconds since the handle was made.
    pub from_seconds: f64,
    /// End, in seconds since the handle was made.
    pub to_seconds: f64,
    /// Whether the process was not seen in between: what happened when is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub gap: bool,
    /// The headline of the health at the end. Names of labels in it come from callers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Mean of the limit.
    pub limit: f64,
    /// Least limit that was seen.
    pub limit_min: usize,
    /// Greatest limit that was seen.
    pub limit_max: usize,
    /// The handle as a whole.
    pub whole: HistoryRow,
    /// The partitions in which anything happened.
    pub partitions: Vec<HistoryRow>,
    /// The labels with the most requests, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<HistoryRow>,
    /// All other labels, and requests without a label, where labels are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<HistoryRow>,
}

/// Requests of the handle, of a partition or of a label.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct HistoryRow {
    /// Name of the partition or of the label; empty for the handle.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace of the label; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Class of work of the label; empty for all classes that have no rules of their own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Whether this is the entry that further labels share while the table is full.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = true)))]
    pub overflow: bool,
    /// Mean of the guaranteed slots, of a partition.
    pub share: f64,
    /// Mean of the requests in flight.
    pub in_flight: f64,
    /// Mean of the requests that waited, in line and at the gate.
    pub waiting: f64,
    /// Requests that were admitted.
    pub admitted: u32,
    /// Requests that were rejected.
    pub rejected: u64,
    /// Requests without an answer in time: the callers left, or it came after the deadline.
    pub left: u32,
    /// Requests that ran and would have been rejected, had decisions been binding.
    pub would_reject: u32,
    /// Rejections by reason and by what was in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_by: Vec<HistoryRejection>,
    /// Median of the round-trip times of requests that ended, in seconds; `None` where none ended, and for all other labels together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_seconds: Option<f64>,
    /// 99th percentile of these round-trip times, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p99_seconds: Option<f64>,
    /// Median of the waits of requests that were admitted after a wait, in seconds; `None` as for
    /// round-trip times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p50_seconds: Option<f64>,
    /// 99th percentile of these waits, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_p99_seconds: Option<f64>,
}

/// Rejections with the same reason and the same obstacle.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct HistoryRejection {
    /// The [reason](crate::Reason).
    #[cfg_attr(feature = "schema", schemars(with = "crate::Reason"))]
    pub reason: String,
    /// What was in the way, as in the journal; `None` where that is not known, as without a journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Number of rejections.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u32,
}
