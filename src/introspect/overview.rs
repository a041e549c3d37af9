//! The handle as a whole, and its partitions.

use serde::Serialize;

use super::{labels::LabelPage, query::LabelQuery, section::Fields};
use crate::{
    engine::{Histogram, LabelStatus, PartitionSnapshot, Snapshot},
    runtime::Admission,
};

/// All there is to see, of the labels one page.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    #[serde(flatten)]
    snapshot: Snapshot,
    ready: bool,
    /// How many slots are free, and which part of them isn't.
    available: usize,
    utilisation: f64,
    partitions: Vec<PartitionItem>,
    labels: LabelPage,
}

/// All partitions.
#[derive(Debug, Serialize)]
pub(super) struct Partitions {
    partitions: Vec<PartitionItem>,
}

/// One partition.
#[derive(Debug, Serialize)]
pub(super) struct PartitionItem {
    #[serde(flatten)]
    snapshot: PartitionSnapshot,
    admission: Fields,
    /// How often which time was met since the handle was made, in seconds: the difference between two answers is what
    /// happened in between.
    rtt_counts: Vec<(f64, u64)>,
    wait_counts: Vec<(f64, u64)>,
}

/// Whether requests are taken.
#[derive(Debug, Serialize)]
pub(super) struct Readiness {
    pub(super) ready: bool,
    pub(super) draining: bool,
}

impl Overview {
    pub(super) fn of(admission: &Admission, query: &LabelQuery) -> Self {
        let (snapshot, partitions) = look(admission);
        Self {
            ready: !snapshot.draining,
            available: snapshot.available(),
            utilisation: snapshot.utilisation(),
            snapshot,
            partitions,
            labels: LabelPage::of(admission, query),
        }
    }
}

impl Partitions {
    pub(super) fn of(admission: &Admission) -> Self {
        Self { partitions: look(admission).1 }
    }

    pub(super) fn into_one(self, name: &str) -> Option<PartitionItem> {
        self.partitions.into_iter().find(|partition| partition.snapshot.name == name)
    }
}

/// The state without labels, and its partitions on their own; both from one turn.
fn look(admission: &Admission) -> (Snapshot, Vec<PartitionItem>) {
    let (mut snapshot, statuses, counts) = admission.shared.look(|engine, now| {
        let statuses = engine.partition_statuses(now);
        let counts = engine.partitions().map(|(.., counts)| (counts.rtt.clone(), counts.wait.clone()));
        let counts: Vec<_> = counts.collect();
        (engine.snapshot(), statuses, counts)
    });
    snapshot.name = admission.shared.name().to_owned();
    snapshot.warnings = admission.warnings();
    snapshot.store = admission.shared.store_snapshot();
    let partitions = std::mem::take(&mut snapshot.partitions);
    let items = partitions.into_iter().zip(statuses).zip(counts);
    let items = items.map(|((partition, status), (rtt, wait))| PartitionItem {
        admission: section(&partition, status),
        rtt_counts: counted(&rtt),
        wait_counts: counted(&wait),
        snapshot: partition,
    });
    let items = items.collect();
    (snapshot, items)
}

fn counted(histogram: &Histogram) -> Vec<(f64, u64)> {
    let never = Histogram::default();
    let counts = histogram.since(&never).map(|(value, count)| (value.as_secs_f64(), count));
    counts.collect()
}

/// What is told about labels, as far as partitions have it: their share is their slots.
fn section(one: &PartitionSnapshot, status: LabelStatus) -> Fields {
    let mut fields = Fields::default();
    fields.put("status", status.as_str());
    fields.put("configured_slot_count", one.share);
    fields.put("leased_count", one.in_flight);
    fields.put("ready_count", one.waiting + one.at_gate);
    fields.put("available_slot_count", one.share.saturating_sub(one.in_flight));
    fields.put("budget_source", format!("partitions.{}", one.name));
    fields
}
