//! The handle as a whole, and its partitions.

use super::labels::label_page_and_foremost;
use crate::{
    Timestamp,
    engine::{Histogram, Snapshot},
    introspect::{
        http::LabelQuery,
        wire::{Overview, Partition, PartitionSection, Partitions},
    },
    runtime::Admission,
};

/// All there is to see, of the labels one page; and how long ago the handle was made, in seconds.
pub(in crate::introspect) fn overview(admission: &Admission, query: &LabelQuery) -> (Overview, f64) {
    let (snapshot, partitions, now) = look(admission);
    let (labels, foremost) = label_page_and_foremost(admission, query, &partitions);
    (
        Overview {
            identity: None,
            ready: admission.is_ready(),
            available: snapshot.available(),
            utilisation: snapshot.utilisation(),
            foremost,
            partitions,
            labels,
            #[cfg(feature = "capture")]
            capture: admission.rolling_capture(),
            #[cfg(not(feature = "capture"))]
            capture: None,
            snapshot,
        },
        now,
    )
}

/// All partitions.
pub(in crate::introspect) fn partitions(admission: &Admission) -> Partitions {
    Partitions { partitions: look(admission).1 }
}

/// The state without labels, and its partitions on their own; both from one turn.
fn look(admission: &Admission) -> (Snapshot, Vec<Partition>, f64) {
    let (mut snapshot, statuses, counts, now) = admission.shared.look(|engine, now| {
        let statuses = engine.partition_statuses(now);
        let counts = engine.partitions().map(|(.., counts)| (counts.rtt.clone(), counts.wait.clone()));
        let counts: Vec<_> = counts.collect();
        (engine.snapshot(), statuses, counts, engine.now())
    });
    admission.complete(&mut snapshot);
    let partitions = std::mem::take(&mut snapshot.partitions);
    let items = partitions.into_iter().zip(statuses).zip(counts);
    let items = items.map(|((snapshot, status), (rtt, wait))| Partition {
        admission: PartitionSection::of(&snapshot, status),
        rtt_counts: counted(&rtt),
        wait_counts: counted(&wait),
        snapshot,
    });
    let items = items.collect();
    (snapshot, items, now.since(Timestamp::ZERO).as_secs_f64())
}

fn counted(histogram: &Histogram) -> Vec<(f64, u64)> {
    let never = Histogram::default();
    let counts = histogram.since(&never).map(|(value, count)| (value.as_secs_f64(), count));
    counts.collect()
}
