//! What was decided lately, and what changed.

use std::collections::VecDeque;

use crate::{
    Timestamp,
    engine::{JournalEntry, Wanted},
    introspect::{http::JournalQuery, wire::JournalPage},
    runtime::Admission,
};

/// Some entries, and how long ago the handle was made, in seconds: entries say when they were written by the same measure.
pub(in crate::introspect) fn journal(admission: &Admission, query: &JournalQuery) -> (JournalPage, f64) {
    let (now, capacity, newest_wanted) = admission
        .shared
        .look(|engine, now| (now, engine.journal_capacity(), engine.journal_before(query.limit, query.wanted)));
    let (entries, newest) = match query.since {
        None if query.filter.is_some() => newest_kept(admission, query.wanted, query.limit, |entry| query.keeps(entry)),
        since => {
            let since = since.unwrap_or(newest_wanted);
            admission.journal_page(since, query.limit, query.wanted, |entry| query.keeps(entry))
        }
    };
    let is_full = entries.len() >= query.limit;
    let next_since = entries.last().map(|last| last.sequence).filter(|&last| is_full && last < newest);
    let next_since = next_since.filter(|_| query.since.is_some() || query.filter.is_none());
    (JournalPage { capacity, newest, next_since, entries }, now.since(Timestamp::ZERO).as_secs_f64())
}

/// The newest of the entries that are to be kept, and the number of the newest of all: all are read, some hundred at a time.
pub(super) fn newest_kept(
    admission: &Admission,
    wanted: Wanted,
    most: usize,
    keeps: impl Fn(&JournalEntry) -> bool,
) -> (Vec<JournalEntry>, u64) {
    let mut kept = VecDeque::new();
    let (_, newest) = admission.journal_page(0, usize::MAX, wanted, |entry| {
        if keeps(entry) {
            if kept.len() == most {
                kept.pop_front();
            }
            kept.push_back(entry.clone());
        }
        false
    });
    (kept.into(), newest)
}
