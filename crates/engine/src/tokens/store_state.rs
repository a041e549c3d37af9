//! Whether the store of shared rules answers.

use std::time::Duration;

use crate::codes;

/// Whether a store answers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
pub enum StoreState {
    /// The store answers.
    #[default]
    Up,
    /// The store answers, and may throw away what it counts.
    Evicting,
    /// The store failed lately, and is asked all the same.
    Failing,
    /// The store is back, and grants nothing yet.
    Quiet,
    /// The store is left alone until it answers a probe.
    Down,
}

impl StoreState {
    codes! {
        #[doc(hidden)]
        5:
            Up = "up", Evicting = "evicting", Failing = "failing", Quiet = "quiet", Down = "down",
    }
}

/// How the store changed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreChange {
    pub from: StoreState,
    pub to: StoreState,
    /// Time for which the store was down, if it was.
    pub down_for: Option<Duration>,
}
