//! What suffers or holds most.

use std::borrow::Cow;

use super::{LabelRow, PartitionSnapshot};

/// What the requests of a label suffer, and what they hold; or of a partition, where labels account for less than half.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Foremost {
    /// `label` or `partition`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["label", "partition"])))]
    pub kind: Cow<'static, str>,
    /// The namespace of a label; empty if it has none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "String::is_empty"))]
    pub namespace: String,
    /// The name of the label or of the partition.
    pub name: String,
    /// Slots that its requests hold.
    pub in_flight: usize,
    /// Time for which each of these slots is held, in seconds, judged from how many came back in the last seconds.
    pub held_seconds: f64,
    /// Requests that wait, in line and at the gate.
    pub waiting: usize,
    /// Time for which its oldest waiter has waited, in seconds; of a label only.
    pub oldest_wait_seconds: f64,
    /// Requests that were rejected per second, over the last seconds.
    pub rejected_per_second: f64,
    /// Requests whose callers left before the answer per second, over the last seconds.
    pub left_per_second: f64,
}

impl Foremost {
    /// Sums up a label: a row for each of its classes of work.
    #[doc(hidden)]
    pub fn of_label(rows: &[LabelRow]) -> Self {
        let sum = |of: fn(&LabelRow) -> f64| rows.iter().map(of).sum();
        let most = |of: fn(&LabelRow) -> f64| rows.iter().map(of).fold(0.0, f64::max);
        let [namespace, name] =
            rows.first().map(|it| [&it.namespace, &it.name].map(|it| it.to_string())).unwrap_or_default();
        Self {
            kind: "label".into(),
            namespace,
            name,
            in_flight: rows.iter().map(|it| it.in_flight).sum(),
            held_seconds: most(|it| it.held_seconds),
            waiting: rows.iter().map(|it| it.waiting).sum(),
            oldest_wait_seconds: most(|it| it.oldest_wait_seconds),
            rejected_per_second: sum(|it| it.rejected_per_second),
            left_per_second: sum(|it| it.left_per_second),
        }
    }

    /// Returns how many requests get no answer in a second, and how many wait for it now.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn harm(&self) -> f64 {
        self.rejected_per_second + self.left_per_second + self.waiting as f64
    }

    /// Sums up a partition.
    #[doc(hidden)]
    pub fn of_partition(it: &PartitionSnapshot) -> Self {
        Self {
            kind: "partition".into(),
            name: it.name.clone(),
            in_flight: it.in_flight,
            held_seconds: it.recent.held_seconds,
            waiting: it.waiting + it.at_gate,
            rejected_per_second: it.recent.rejected_per_second,
            left_per_second: it.recent.left_per_second,
            ..Self::default()
        }
    }
}
