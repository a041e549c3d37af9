//! Labels, of which there may be ten thousand: a page of them at a time.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{
    engine::{Foremost, LabelRow, LabelSnapshot, LabelStatus, Subject, normal},
    introspect::{
        http::{LabelQuery, LabelSort},
        wire::{Label, LabelPage, Partition, Section, class_name},
    },
    runtime::Admission,
};

/// Entries that are read in one turn: a request that wants a slot waits for no more than that.
const AT_ONCE: usize = 256;

/// The rows of one label, one for each class, and what they are together.
struct Group<'a> {
    rows: &'a [LabelRow],
    status: LabelStatus,
    in_flight: usize,
    waiting: usize,
    oldest_wait: f64,
    admitted: u64,
    rejected: u64,
    rejected_per_second: f64,
    left_per_second: f64,
}

/// A page of the labels that are known.
pub(in crate::introspect) fn label_page(admission: &Admission, query: &LabelQuery) -> LabelPage {
    page_of(admission, query, rows(admission))
}

/// A page of the labels that are known, and which labels and partitions suffer or hold most.
pub(super) fn label_page_and_foremost(
    admission: &Admission,
    query: &LabelQuery,
    partitions: &[Partition],
) -> (LabelPage, Vec<Foremost>) {
    let rows = rows(admission);
    let foremost = foremost(&rows, partitions);
    (page_of(admission, query, rows), foremost)
}

fn page_of(admission: &Admission, query: &LabelQuery, mut rows: Vec<LabelRow>) -> LabelPage {
    let total = rows.chunk_by(same_label).count();
    rows.retain(|row| query.wants(&row.namespace, &row.name));
    let mut groups: Vec<_> = rows.chunk_by(same_label).map(Group::of).collect();
    let mut by_status = BTreeMap::new();
    for group in &groups {
        *by_status.entry(group.status.as_str().to_owned()).or_default() += 1;
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
    LabelPage { total, matched, by_status, offset: query.offset, limit: query.limit, next_offset, labels }
}

/// The labels and partitions that suffer or hold most, alternately, the one with most harm first.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn foremost(rows: &[LabelRow], partitions: &[Partition]) -> Vec<Foremost> {
    /// Rows of the table.
    const MOST: usize = 5;
    let groups: Vec<_> = rows.chunk_by(same_label).map(Group::of).filter(|it| it.is_named()).collect();
    let partitions: Vec<_> = partitions.iter().map(|it| Foremost::of_partition(&it.snapshot)).collect();
    let of_partition = |it: &Foremost| [it.harm(), it.in_flight as f64];
    let mut all: Vec<_> = groups.iter().map(|it| ([it.harm(), it.in_flight as f64], Some(it))).collect();
    // Labels say more, where they account for most of it.
    let are_few = |by: usize| {
        let labels: f64 = all.iter().map(|it| it.0[by]).sum();
        labels * 2.0 < partitions.iter().map(|it| of_partition(it)[by]).sum()
    };
    if are_few(0) || are_few(1) {
        all.extend(partitions.iter().map(|it| (of_partition(it), None)));
    }
    let orders = [0, 1].map(|by| {
        let mut order: Vec<_> = (0..all.len()).filter(|&it| all[it].0[by] > 0.0).collect();
        order.sort_by(|&a, &b| all[b].0[by].total_cmp(&all[a].0[by]));
        order
    });
    let mut found = Vec::new();
    for place in 0..MOST {
        for it in orders.iter().filter_map(|order| order.get(place)) {
            if !found.contains(it) {
                found.push(*it);
            }
        }
    }
    let told = found.into_iter().take(MOST).map(|it| match all[it].1 {
        Some(group) => Foremost::of_label(group.rows),
        None => partitions[it - groups.len()].clone(),
    });
    told.collect()
}

/// A label by its name, if it is known.
pub(in crate::introspect) fn find_label(admission: &Admission, namespace: &str, label: &str) -> Option<Label> {
    let subject = Subject::new(normal(namespace).unwrap_or_default(), normal(label)?, None);
    let classes = admission.shared.look(|engine, _| engine.label_in_all_classes(&subject));
    of_classes(classes)
}

fn of_classes(classes: Vec<LabelSnapshot>) -> Option<Label> {
    let first = classes.first()?;
    let status = classes.iter().map(|class| class.status).max().unwrap_or(first.status);
    Some(Label {
        namespace: first.namespace.clone(),
        label: first.name.clone(),
        overflow: first.overflow,
        status,
        admission: classes.into_iter().map(|class| (class_name(&class).to_owned(), Section::from(class))).collect(),
    })
}

/// The rows of all labels, sorted by name.
///
/// They are not all of the same moment: looking at ten thousand in one turn would make others wait.
fn rows(admission: &Admission) -> Vec<LabelRow> {
    let mut rows = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        from = admission.shared.look(|engine, _| engine.label_rows(at, AT_ONCE, &mut rows));
    }
    rows.sort_unstable_by(|a, b| identity(a).cmp(&identity(b)));
    // One that was forgotten and came back meanwhile may have been met twice.
    rows.dedup_by(|a, b| identity(a) == identity(b));
    rows
}

fn identity(row: &LabelRow) -> impl Ord {
    (&row.namespace, &row.name, row.overflow, row.class)
}

fn same_label(a: &LabelRow, b: &LabelRow) -> bool {
    (&a.namespace, &a.name, a.overflow) == (&b.namespace, &b.name, b.overflow)
}

/// All that is told about a label; nothing, if it was forgotten meanwhile.
fn item(admission: &Admission, rows: &[LabelRow]) -> Option<Label> {
    let classes: Vec<_> =
        admission.shared.look(|engine, _| rows.iter().filter_map(|row| engine.label_of_row(row)).collect());
    of_classes(classes)
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
            rejected_per_second: rows.iter().map(|row| row.rejected_per_second).sum(),
            left_per_second: rows.iter().map(|row| row.left_per_second).sum(),
        }
    }

    fn is_named(&self) -> bool {
        self.rows.first().is_some_and(|row| !row.name.is_empty())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn harm(&self) -> f64 {
        self.rejected_per_second + self.left_per_second + self.waiting as f64
    }

    fn compare(&self, other: &Self, sort: LabelSort) -> Ordering {
        match sort {
            LabelSort::Label => self.rows.first().map(identity).cmp(&other.rows.first().map(identity)),
            LabelSort::Status => self.status.cmp(&other.status),
            LabelSort::Leased => self.in_flight.cmp(&other.in_flight),
            LabelSort::Ready => self.waiting.cmp(&other.waiting),
            LabelSort::OldestWait => self.oldest_wait.total_cmp(&other.oldest_wait),
            LabelSort::Admitted => self.admitted.cmp(&other.admitted),
            LabelSort::Rejected => self.rejected.cmp(&other.rejected),
            LabelSort::RejectedPerSecond => self.rejected_per_second.total_cmp(&other.rejected_per_second),
            LabelSort::Harm => self.harm().total_cmp(&other.harm()),
        }
    }
}
