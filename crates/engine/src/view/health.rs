//! What is told of the state of the handle, and of which requests are refused.

use std::{borrow::Cow, collections::BTreeMap};

#[cfg(feature = "schema")]
use crate::{Reason, telemetry::Health};

/// The first thing to look at: the state of the handle, since when, which requests are refused, and what to do.
///
/// All rates are those of the last ten seconds, or of the time since the handle was made.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Health"))]
#[non_exhaustive]
pub struct HealthSnapshot {
    /// The [state](crate::Health) in a word.
    #[cfg_attr(feature = "schema", schemars(with = "Health"))]
    pub state: Cow<'static, str>,
    /// The state in a line, such as `overloaded: noisy refused 99 %, limit 80 at its maximum`. The name of a label in it comes
    /// from a caller.
    pub headline: String,
    /// What to do about it, in a line, such as `raise the maximum, if the service has room`. The name of a label in it comes from a
    /// caller.
    pub advice: String,
    /// Time when this state began, in seconds since the handle was made.
    pub at_seconds: f64,
    /// Time for which the handle has been in this state, in seconds.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub since_seconds: f64,
    /// URL of what the state means and what to do.
    pub runbook: String,
    /// Time that the rates are about, in seconds: always 10, and less for a handle that is younger.
    pub window_seconds: f64,
    /// Requests that were admitted per second.
    pub admitted_per_second: f64,
    /// Requests that were rejected per second.
    pub rejected_per_second: f64,
    /// Requests per second that ran and would have been rejected, had decisions been binding.
    pub would_reject_per_second: f64,
    /// The partitions with rejections, the one with most of them first.
    pub rejected: Vec<RejectedSnapshot>,
    /// The label that was rejected most often, if any was.
    pub label: Option<RejectedSnapshot>,
    /// Slots of the label or partition with most slots that do not come back: its requests do not end, as far as the last seconds tell.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "super::is_default"))]
    pub stuck_slots: usize,
    /// What is different from the hour before, in words; nothing where no history is kept.
    pub changed: Vec<String>,
    /// What rules that instances share do without their store, while it is gone: `refuse`, `local_share`, `admit`.
    #[cfg_attr(feature = "schema", schemars(extend("items" = {"enum": ["refuse", "local_share", "admit"]})))]
    pub without_store: Vec<Cow<'static, str>>,
}

/// Rejections of the last seconds, of a partition or of a label.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Refused"))]
#[non_exhaustive]
pub struct RejectedSnapshot {
    /// Name of the partition or of the label.
    pub name: String,
    /// Namespace of the label; empty if it has none, and for a partition.
    pub namespace: String,
    /// Part of the requests that were rejected, in percent.
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub percent: f64,
    /// Requests that were rejected per second.
    pub per_second: f64,
    /// The most frequent [reason](crate::Reason), for a partition.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Reason>"))]
    pub reason: Option<Cow<'static, str>>,
}

/// What became of the requests of a partition in the last ten seconds, or since the handle was made.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Recent"))]
#[non_exhaustive]
pub struct RecentSnapshot {
    /// Requests that were admitted per second.
    pub admitted_per_second: f64,
    /// Requests that were rejected per second.
    pub rejected_per_second: f64,
    /// Requests that were rejected per second, by reason; reasons that did not occur are left out.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = {"$ref": "#/components/schemas/Reason"})))]
    pub rejected: BTreeMap<Cow<'static, str>, f64>,
    /// Requests per second that ran and would have been rejected, had decisions been binding.
    pub would_reject_per_second: f64,
    /// Whether requests were rejected for want of capacity while the partition ran fewer than its share.
    pub rejected_below_share: bool,
    /// Requests per second without an answer in time: the callers left, or it came after the deadline.
    pub left_per_second: f64,
    /// Time for which each slot is held, in seconds, judged from how many came back.
    pub held_seconds: f64,
}
