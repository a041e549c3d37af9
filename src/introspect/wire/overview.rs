//! The handle as a whole, and its partitions.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::LabelPage;
use crate::{
    engine::{Foremost, LabelStatus, PartitionSnapshot, Snapshot},
    runtime::CaptureStatus,
};

/// The handle, its partitions and a page of its labels.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Overview {
    /// The state of the handle; its partitions and labels are those below.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// What runs there, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Whether requests are admitted.
    #[serde(default)]
    pub ready: bool,
    /// The number of free slots.
    #[serde(default)]
    pub available: usize,
    /// The used part of the slots; above 1 after the limit shrank.
    #[serde(default)]
    pub utilisation: f64,
    /// The labels and partitions that suffer or hold most, alternately, at most five.
    #[serde(default)]
    pub foremost: Vec<Foremost>,
    /// The partitions, the default one first.
    pub partitions: Vec<Partition>,
    /// A page of the labels.
    pub labels: LabelPage,
    /// The capture of the last minutes, if there is one or was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureStatus>,
}

/// What runs there, and since when.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
#[serde(default)]
pub struct Identity {
    /// The version of tower-admission.
    pub library: String,
    /// What the program [says of itself](crate::introspection::Introspection::version), such as a version and a commit; empty if it
    /// says nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// When the introspection was made, in seconds since 1970.
    pub started_unix_seconds: u64,
}

impl Identity {
    /// The identity of a program that starts now.
    #[expect(clippy::disallowed_methods, reason = "a date for people, read once: nothing is measured by it")]
    pub(in crate::introspect) fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let library = env!("CARGO_PKG_VERSION").to_owned();
        Self { library, version: String::new(), started_unix_seconds: since_1970.as_secs() }
    }
}

/// All partitions.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Partitions {
    /// The partitions, the default one first.
    pub partitions: Vec<Partition>,
}

/// One partition.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Partition {
    /// The state of the partition.
    #[serde(flatten)]
    pub snapshot: PartitionSnapshot,
    /// The fields of labels that partitions have as well.
    #[serde(default)]
    pub admission: PartitionSection,
    /// The round-trip times since the handle was made, as pairs of seconds and counts. The difference of two answers is
    /// the time between them.
    pub rtt_counts: Vec<(f64, u64)>,
    /// The waits since the handle was made, as pairs of seconds and counts.
    #[serde(default)]
    pub wait_counts: Vec<(f64, u64)>,
}

/// The fields of labels that partitions have as well; the slots of a partition are its share.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PartitionSection {
    /// The worse of two statuses, that of the next request and that of most requests of the last five seconds: `unavailable` (the
    /// handle drains, or rules that instances share can't be checked), `throttled` (caps, rates and budgets of labels), `saturated`
    /// (no slots are left), or `accepting`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["accepting", "saturated", "throttled", "unavailable"])))]
    pub status: LabelStatus,
    /// The share of the partition, in slots.
    pub configured_slot_count: usize,
    /// Slots in use.
    pub leased_count: usize,
    /// Requests that wait, in line and at the gate.
    pub ready_count: usize,
    /// The share minus the slots in use.
    pub available_slot_count: usize,
    /// The setting of the share.
    pub budget_source: String,
}

impl PartitionSection {
    pub(in crate::introspect) fn of(one: &PartitionSnapshot, status: LabelStatus) -> Self {
        Self {
            status,
            configured_slot_count: one.share,
            leased_count: one.in_flight,
            ready_count: one.waiting + one.at_gate,
            available_slot_count: one.share.saturating_sub(one.in_flight),
            budget_source: format!("partitions.{}", one.name),
        }
    }
}

/// Whether requests are taken.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Readiness {
    /// Whether requests are admitted.
    pub ready: bool,
    /// Whether the handle drains.
    pub draining: bool,
}

impl Readiness {
    pub(in crate::introspect) const fn new(ready: bool) -> Self {
        Self { ready, draining: !ready }
    }
}
