//! Pages of the journal.

use serde::{Deserialize, Serialize};

use crate::engine::JournalEntry;

/// A page of the journal. `E` is the type of an entry: [`JournalEntry`](crate::journal::JournalEntry), or its JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(description = "A page of the journal."))]
#[non_exhaustive]
pub struct JournalPage<E = JournalEntry> {
    /// The number of decisions that the journal keeps, and of changes.
    pub capacity: usize,
    /// The number of the newest entry.
    pub newest: u64,
    /// The `since` of the next page; `None` on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_since: Option<u64>,
    /// The entries, the oldest first.
    pub entries: Vec<E>,
}
