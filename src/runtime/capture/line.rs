//! One line of a capture. The page [introspection](crate::docs::introspection) describes them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// The version of captures that begin with a handle at work.
pub(super) const ROLLING: u32 = 2;

/// The first line: the start of the capture.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Header {
    pub(super) capture: u32,
    pub(super) name: String,
    pub(super) mode: String,
    /// Settings as in a scenario of the simulator; `None`, where there are no words for them.
    pub(super) policy: Option<Value>,
    /// Setting that there were no words for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_policy: Option<String>,
    pub(super) limit: usize,
    /// Times of the first row and of the last, of a capture that began with a handle at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<u64>,
}

/// A line in between, or the last one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct CaptureRow {
    /// Time, in nanoseconds since the handle was made.
    pub(super) t: u64,
    #[serde(rename = "do")]
    pub(super) verb: Verb,
    /// Request that the line is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) criticality: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) serves_waiting: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worker: Option<String>,
    /// Requests that the worker takes at once, and for how many nanoseconds that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slots: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) valid_for: Option<u64>,
    /// Settings of a reload, as those of the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_policy: Option<String>,
    /// Answer to the request: `slot`, `place`, or the reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gets: Option<String>,
    /// Waiters whose waits ended, in that order: `slot`, or the reason of a rejection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ended: Vec<(u64, String)>,
    /// Limit, where it differs from that of the line before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows: Option<u64>,
    /// When a request came that is there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// Requests without a name of their own that are there already, or turns that are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl CaptureRow {
    /// Returns the names of a request.
    pub(super) const fn names_mut(&mut self) -> [&mut Option<String>; 6] {
        let Self { partition, class, namespace, label, run, criticality, .. } = self;
        [partition, class, namespace, label, run, criticality]
    }
}

/// The verb that the engine is told.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verb {
    Arrive,
    Claim,
    Leave,
    Observe,
    Overload,
    Finish,
    #[default]
    Tick,
    Mode,
    Drain,
    /// A worker reports its slots.
    Worker,
    /// A worker said goodbye.
    WorkerGone,
    Reload,
    /// A request that is there when the capture begins: it runs or waits.
    Present,
    /// Turns are missing before this one: what is there now follows.
    Gap,
    End,
    /// A request is given up whose work may go on.
    Abandon,
    /// The answer to a request has begun before its deadline.
    Answer,
}
