//! What was decided lately, and what changed.

use crate::{
    introspect::{
        http::JournalQuery,
        wire::{JournalEntry, JournalPage},
    },
    runtime::Admission,
};

/// Some entries, and how long ago the handle was made, in seconds: entries say when they were written by the same measure.
pub(in crate::introspect) fn journal(admission: &Admission, query: &JournalQuery) -> (JournalPage, f64) {
    let (now, capacity, newest_wanted) = admission
        .shared
        .look(|engine, now| (now, engine.journal_capacity(), engine.journal_before(query.limit, query.wanted)));
    let since = query.since.unwrap_or(newest_wanted);
    let (entries, newest) = admission.journal_page(since, query.limit, query.wanted);
    let is_full = entries.len() >= query.limit;
    let next_since = entries.last().map(|last| last.sequence).filter(|&last| is_full && last < newest);
    let entries = entries.into_iter().map(JournalEntry::from).collect();
    (JournalPage { capacity, newest, next_since, entries }, now.since(crate::Timestamp::ZERO).as_secs_f64())
}
