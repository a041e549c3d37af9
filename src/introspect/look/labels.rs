//! Labels, of which there may be ten thousand: a page of them at a time.

use std::collections::BTreeMap;

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
    let mut by_status = BTreeMap::new();
    for classes in rows.chunk_by(same_label) {
        *by_status.entry(status(classes).as_str().to_owned()).or_default() += 1;
    }
    let has_status = |classes: &&[LabelRow]| query.status.is_none_or(|it| classes.iter().any(|row| row.status == it));
    let matching = rows.chunk_by(same_label).filter(has_status).enumerate();
    let mut found: Vec<_> = matching.map(|(place, it)| (sort_key(it, place, query.sort), it)).collect();
    // Stable, and the rows are sorted by name.
    found.sort_by(|(a, _), (b, _)| if query.descending { b.total_cmp(a) } else { a.total_cmp(b) });
    let matched = found.len();
    let shown = found.iter().skip(query.offset).take(query.limit);
    let labels = shown.filter_map(|(_, classes)| item(admission, classes)).collect();
    let end = query.offset.saturating_add(query.limit);
    let next_offset = (end < matched).then_some(end);
    LabelPage { total, matched, by_status, offset: query.offset, limit: query.limit, next_offset, labels }
}

/// The labels and partitions that suffer or hold most, alternately, the one with most harm first.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn foremost(rows: &[LabelRow], partitions: &[Partition]) -> Vec<Foremost> {
    /// Rows of the table.
    const MOST: usize = 5;
    let named = |classes: &&[LabelRow]| classes.first().is_some_and(|row| !row.name.is_empty());
    let labels = rows.chunk_by(same_label).filter(named);
    let partitions: Vec<_> = partitions.iter().map(|it| Foremost::of_partition(&it.snapshot)).collect();
    let of_partition = |it: &Foremost| [it.harm(), it.in_flight as f64];
    let mut all: Vec<_> = labels.map(|it| ([harm(it), in_flight(it)], Ok(it))).collect();
    // Labels say more, where they account for most of it.
    let are_few = |by: usize| {
        let labels: f64 = all.iter().map(|it| it.0[by]).sum();
        labels * 2.0 < partitions.iter().map(|it| of_partition(it)[by]).sum()
    };
    if are_few(0) || are_few(1) {
        all.extend(partitions.iter().map(|it| (of_partition(it), Err(it))));
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
        Ok(classes) => Foremost::of_label(classes),
        Err(partition) => partition.clone(),
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

fn status(classes: &[LabelRow]) -> LabelStatus {
    classes.iter().map(|row| row.status).max().unwrap_or(LabelStatus::Accepting)
}

fn sum(classes: &[LabelRow], of: fn(&LabelRow) -> f64) -> f64 {
    classes.iter().map(of).sum()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn in_flight(classes: &[LabelRow]) -> f64 {
    sum(classes, |row| row.in_flight as f64)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn waiting(classes: &[LabelRow]) -> f64 {
    sum(classes, |row| row.waiting as f64)
}

fn harm(classes: &[LabelRow]) -> f64 {
    sum(classes, |row| row.rejected_per_second) + sum(classes, |row| row.left_per_second) + waiting(classes)
}

/// What labels are sorted by, of the rows of one and of its place among all by name.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn sort_key(classes: &[LabelRow], place: usize, sort: LabelSort) -> f64 {
    match sort {
        LabelSort::Label => place as f64,
        LabelSort::Status => f64::from(status(classes) as u8),
        LabelSort::Leased => in_flight(classes),
        LabelSort::Ready => waiting(classes),
        LabelSort::OldestWait => classes.iter().map(|row| row.oldest_wait_seconds).fold(0.0, f64::max),
        LabelSort::Admitted => sum(classes, |row| row.admitted as f64),
        LabelSort::Rejected => sum(classes, |row| row.rejected as f64),
        LabelSort::RejectedPerSecond => sum(classes, |row| row.rejected_per_second),
        LabelSort::Harm => harm(classes),
    }
}
