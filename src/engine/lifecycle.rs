//! Whether decisions bind, and whether the handle is open.

use crate::engine::{plan::Mode, verbs::Outage};

/// The state of the handle as a whole.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    pub(crate) mode: Mode,
    /// Nobody is let in any more, and whether those who wait are served.
    pub(crate) closed: bool,
    pub(crate) serves_waiting: bool,
    /// Whether the store that counts shared rules can be asked.
    pub(crate) store: Outage,
}
