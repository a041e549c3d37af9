//! Words that a request for introspection may say.

use crate::engine::codes;

/// The order of labels. Labels that are equal in it are sorted by name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum LabelSort {
    Label,
    Status,
    Leased,
    Ready,
    OldestWait,
    Admitted,
    Rejected,
    /// By rejections per second over the last five to ten seconds.
    RejectedPerSecond,
    /// By requests that are refused or whose callers leave, per second, and those that wait.
    Harm,
}

impl LabelSort {
    codes! {
        /// All words.
        9:
            Label = "label", Status = "status", Leased = "leased", Ready = "ready", OldestWait = "oldest_wait",
            Admitted = "admitted", Rejected = "rejected", RejectedPerSecond = "rejected_per_second", Harm = "harm",
    }
}

/// What an entry of the journal is about.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A request.
    Decision,
    /// The handle.
    Change,
}

impl EntryKind {
    codes! {
        /// All words.
        2:
            Decision = "decision", Change = "change",
    }
}
