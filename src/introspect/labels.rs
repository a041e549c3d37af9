//! Labels, of which there may be ten thousand: a page of them at a time.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Serialize;

use super::{
    query::{LabelQuery, Sort},
    section::{Fields, class_name, section},
};
use crate::{
    engine::{LabelRow, LabelSnapshot, LabelStatus, Subject},
    runtime::Admission,
    ticket::normal,
};

/// So many entries are looked at in one turn: nobody who wants a slot waits for longer than that takes.
const AT_ONCE: usize = 256;

/// Some of the labels that are known.
#[derive(Debug, Serialize)]
pub(super) struct LabelPage {
    /// How many are known, and how many of them are wanted.
    total: usize,
    matched: usize,
    /// How many of those whose names are wanted have which status, whatever status is wanted.
    by_status: BTreeMap<&'static str, usize>,
    offset: usize,
    limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    labels: Vec<LabelItem>,
}

/// One label, with a section for each class of work that it has.
#[derive(Debug, Serialize)]
pub(super) struct LabelItem {
    namespace: String,
    label: String,
    /// Whether labels share it for which there is no room.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overflow: bool,
    /// The worst of its classes.
    status: LabelStatus,
    admission: BTreeMap<String, Fields>,
}

/// The rows of one label, one for each class, and what they are together.
struct Group<'a> {
    rows: &'a [LabelRow],
    status: LabelStatus,
    in_flight: usize,
    waiting: usize,
    oldest_wait: f64,
    admitted: u64,
    rejected: u64,
}

impl LabelPage {
    pub(super) fn of(admission: &Admission, query: &LabelQuery) -> Self {
        let (rows, total) = rows(admission, query);
        let mut groups: Vec<_> = rows.chunk_by(same_label).map(Group::of).collect();
        let mut by_status = BTreeMap::new();
        for group in &groups {
            *by_status.entry(group.status.as_str()).or_default() += 1;
        }
        if let Some(status) = query.status {
            groups.retain(|group| group.rows.iter().any(|row| row.status == status));
        }
        // Stable, and the rows are sorted by name.
        groups.sort_by(|a, b| if query.descending { b.compare(a, query.sort) } else { a.compare(b, query.sort) });
        let matched = groups.len();
        let shown = groups.iter().skip(query.offset).take(query.limit);
        let labels = shown.filter_map(|group| item(admission, group.rows)).collect();
        let end = query.offset.saturating_add(query.limit);
        let next_offset = (end < matched).then_some(end);
        Self { total, matched, by_status, offset: query.offset, limit: query.limit, next_offset, labels }
    }
}

impl LabelItem {
    /// A label by its name, if it is known.
    pub(super) fn find(admission: &Admission, namespace: &str, label: &str) -> Option<Self> {
        let subject = Subject { namespace: normal(namespace).unwrap_or_default(), label: normal(label)?, run: None };
        let classes = admission.shared.look(|engine, _| engine.label_in_all_classes(&subject));
        Self::of(&classes)
    }

    fn of(classes: &[LabelSnapshot]) -> Option<Self> {
        let first = classes.first()?;
        Some(Self {
            namespace: first.namespace.clone(),
            label: first.name.clone(),
            overflow: first.overflow,
            status: classes.iter().map(|class| class.status).max().unwrap_or(first.status),
            admission: classes.iter().map(|class| (class_name(class).to_owned(), section(class))).collect(),
        })
    }
}

/// The rows of all labels whose names are wanted, sorted by name, and how many labels there are in all.
///
/// They are not all of the same moment: looking at ten thousand in one turn would make others wait.
fn rows(admission: &Admission, query: &LabelQuery) -> (Vec<LabelRow>, usize) {
    let mut rows = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        from = admission.shared.look(|engine, _| engine.label_rows(at, AT_ONCE, &mut rows));
    }
    rows.sort_unstable_by(|a, b| identity(a).cmp(&identity(b)));
    // One that was forgotten and came back meanwhile may have been met twice.
    rows.dedup_by(|a, b| identity(a) == identity(b));
    let total = rows.chunk_by(same_label).count();
    rows.retain(|row| query.wants(&row.namespace, &row.name));
    (rows, total)
}

fn identity(row: &LabelRow) -> (&str, &str, bool, u8) {
    (&row.namespace, &row.name, row.overflow, row.class)
}

fn same_label(a: &LabelRow, b: &LabelRow) -> bool {
    (&a.namespace, &a.name, a.overflow) == (&b.namespace, &b.name, b.overflow)
}

/// All that is told about a label; nothing, if it was forgotten meanwhile.
fn item(admission: &Admission, rows: &[LabelRow]) -> Option<LabelItem> {
    let classes: Vec<_> =
        admission.shared.look(|engine, _| rows.iter().filter_map(|row| engine.label_of_row(row)).collect());
    LabelItem::of(&classes)
}

impl<'a> Group<'a> {
    fn of(rows: &'a [LabelRow]) -> Self {
        Self {
            rows,
            status: rows.iter().map(|row| row.status).max().unwrap_or(LabelStatus::Accepting),
            in_flight: rows.iter().map(|row| row.in_flight).sum(),
            waiting: rows.iter().map(|row| row.waiting).sum(),
            oldest_wait: rows.iter().map(|row| row.oldest_wait_seconds).fold(0.0, f64::max),
            admitted: rows.iter().map(|row| row.admitted).sum(),
            rejected: rows.iter().map(|row| row.rejected).sum(),
        }
    }

    fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        match sort {
            Sort::Label => self.rows.first().map(identity).cmp(&other.rows.first().map(identity)),
            Sort::Status => self.status.cmp(&other.status),
            Sort::Leased => self.in_flight.cmp(&other.in_flight),
            Sort::Ready => self.waiting.cmp(&other.waiting),
            Sort::OldestWait => self.oldest_wait.total_cmp(&other.oldest_wait),
            Sort::Admitted => self.admitted.cmp(&other.admitted),
            Sort::Rejected => self.rejected.cmp(&other.rejected),
        }
    }
}
