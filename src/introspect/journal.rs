//! What was decided lately, and what changed.

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::{answer::Answer, query::JournalQuery};
use crate::{engine::JournalEntry, runtime::Admission};

/// How long ago the handle was made, in seconds: entries say when they were written by the same measure. Not in the body, which
/// would be another one each time then.
const NOW: HeaderName = HeaderName::from_static("admission-now");

/// Some entries of the journal.
#[derive(Debug, Serialize)]
struct JournalPage {
    /// How many decisions are remembered, and as many changes.
    capacity: usize,
    /// The number of the newest entry that there is.
    newest: u64,
    /// After which entry the next page starts; there is none, if this is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_since: Option<u64>,
    entries: Vec<JournalEntry>,
}

pub(super) fn journal(admission: &Admission, query: &JournalQuery) -> Answer {
    let (now, capacity, newest_wanted) = admission
        .shared
        .look(|engine, now| (now, engine.journal_capacity(), engine.journal_before(query.limit, query.wanted)));
    let since = query.since.unwrap_or(newest_wanted);
    let (entries, newest) = admission.journal_page(since, query.limit, query.wanted);
    let is_full = entries.len() >= query.limit;
    let next_since = entries.last().map(|last| last.sequence).filter(|&last| is_full && last < newest);
    let answer = Answer::json(StatusCode::OK, &JournalPage { capacity, newest, next_since, entries });
    let seconds = format!("{:.3}", now.since(crate::Timestamp::ZERO).as_secs_f64());
    match HeaderValue::try_from(seconds) {
        Ok(seconds) => answer.with_header(NOW, seconds),
        Err(_) => answer,
    }
}
