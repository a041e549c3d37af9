//! Entries of the journal.

use serde::{Deserialize, Serialize};

use super::EntryKind;
use crate::engine::{self, ChangeEntry, JournalEvent};

/// A page of the journal. `E` is the type of an entry: [`JournalEntry`], or its JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct JournalPage<E = JournalEntry> {
    /// The number of decisions that the journal keeps, and of changes.
    pub capacity: usize,
    /// The number of the newest entry.
    pub newest: u64,
    /// The `since` of the next page; `None` on the last page.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub next_since: Option<u64>,
    /// The entries, the oldest first.
    pub entries: Vec<E>,
}

/// An entry, of whichever kind; see [`JournalEntry`](crate::journal::JournalEntry). A server of a later version may
/// know more kinds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the journal")]
pub struct JournalEntry {
    #[serde(default)]
    pub sequence: u64,
    /// The time of the entry, in seconds since the handle was made.
    pub at_seconds: f64,
    /// `decision` or `change`; see [`EntryKind`].
    #[serde(default)]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Before>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_seconds: Option<f64>,
    pub in_flight: usize,
    pub limit: usize,
    pub waiting: usize,
}

/// The value before a change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Before {
    /// A limit.
    Limit(usize),
    /// A mode, or a state of the store.
    Word(String),
    /// A value of a later version of the server.
    Other(serde_json::Value),
}

impl From<engine::JournalEntry> for JournalEntry {
    fn from(entry: engine::JournalEntry) -> Self {
        let engine::JournalEntry { sequence, at_seconds, event, in_flight, limit, waiting } = entry;
        let entry = match event {
            JournalEvent::Decision(it) => Self {
                kind: EntryKind::Decision.as_str().to_owned(),
                decision: Some(it.decision.as_str().to_owned()),
                reason: it.reason.map(|reason| reason.as_str().to_owned()),
                rule: it.rule.map(str::to_owned),
                used: it.used,
                bound: it.bound,
                partition: Some(it.partition),
                namespace: Some(it.namespace),
                label: Some(it.label),
                forgotten: it.forgotten,
                class: Some(it.class),
                run: it.run,
                waited_seconds: Some(it.waited_seconds),
                ..Self::default()
            },
            JournalEvent::Change(change) => Self::of(change),
        };
        Self { sequence, at_seconds, in_flight, limit, waiting, ..entry }
    }
}

impl JournalEntry {
    fn of(change: ChangeEntry) -> Self {
        let changed = |word: &str| Self {
            kind: EntryKind::Change.as_str().to_owned(),
            change: Some(word.to_owned()),
            ..Self::default()
        };
        let word = |word: &str| Some(Before::Word(word.to_owned()));
        match change {
            ChangeEntry::Limit { from, rtt_seconds, reference_seconds, ratio } => {
                Self { from: Some(Before::Limit(from)), rtt_seconds, reference_seconds, ratio, ..changed("limit") }
            }
            ChangeEntry::Mode { from, to } => Self { from: word(from), to: Some(to.to_owned()), ..changed("mode") },
            ChangeEntry::Reload { from } => Self { from: Some(Before::Limit(from)), ..changed("reload") },
            ChangeEntry::Leave => changed("leave"),
            ChangeEntry::Drain => changed("drain"),
            ChangeEntry::LawPanic => changed("law_panic"),
            ChangeEntry::CallersLeave => changed("callers_leave"),
            ChangeEntry::Store { from, to, down_seconds } => {
                Self { from: word(from), to: Some(to.to_owned()), down_seconds, ..changed("store") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Admission, Mode, Ticket, limit::Fixed};

    #[test]
    fn entries_are_told_as_the_journal_has_them() {
        let admission = Admission::builder().limit(Fixed::new(1)).queue(1).max_wait(Duration::ZERO).build().unwrap();
        let permit = admission.try_admit(Ticket::new().label("a").namespace("n").run("r")).unwrap();
        assert!(admission.try_admit(Ticket::new().label("b")).is_err());
        admission.set_mode(Mode::Observe);
        admission.reload(Admission::builder().limit(Fixed::new(2))).unwrap();
        admission.drain(crate::DrainMode::RejectWaiting);
        drop(permit);
        let entries = admission.journal();
        assert!(entries.len() >= 5, "{entries:?}");
        for entry in entries {
            let told = serde_json::to_string(&entry).unwrap();
            let wire = JournalEntry::from(entry);
            assert_eq!(serde_json::to_string(&wire).unwrap(), told);
            assert_eq!(serde_json::from_str::<JournalEntry>(&told).unwrap(), wire);
        }
        let changes = [
            ChangeEntry::Limit { from: 3, rtt_seconds: Some(0.5), reference_seconds: None, ratio: Some(2.0) },
            ChangeEntry::Leave,
            ChangeEntry::LawPanic,
            ChangeEntry::CallersLeave,
            ChangeEntry::Store { from: "down", to: "up", down_seconds: Some(1.5) },
        ];
        for change in changes {
            let event = JournalEvent::Change(change);
            let entry =
                engine::JournalEntry { sequence: 1, at_seconds: 0.25, event, in_flight: 1, limit: 2, waiting: 3 };
            let told = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::to_string(&JournalEntry::from(entry)).unwrap(), told);
        }
    }
}
