//! Words that a request for introspection may say.

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
    /// All words.
    pub const ALL: [Self; 9] = [
        Self::Label,
        Self::Status,
        Self::Leased,
        Self::Ready,
        Self::OldestWait,
        Self::Admitted,
        Self::Rejected,
        Self::RejectedPerSecond,
        Self::Harm,
    ];

    /// The code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Status => "status",
            Self::Leased => "leased",
            Self::Ready => "ready",
            Self::OldestWait => "oldest_wait",
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::RejectedPerSecond => "rejected_per_second",
            Self::Harm => "harm",
        }
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
    /// All words.
    pub const ALL: [Self; 2] = [Self::Decision, Self::Change];

    /// The code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Change => "change",
        }
    }
}
