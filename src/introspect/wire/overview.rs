//! The handle as a whole, and its partitions.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{CaptureStatus, LabelPage, LimitState, Recent, Verdict};
use crate::engine::{LabelStatus, PartitionSnapshot, ShadowSnapshot, Snapshot, StoreSnapshot};

/// The handle, its partitions and a page of its labels; see [`Snapshot`](crate::snapshot::Snapshot).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Overview {
    pub name: String,
    /// What runs there, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The state in a line: the first thing to look at.
    #[serde(default)]
    pub verdict: Verdict,
    pub mode: String,
    pub draining: bool,
    pub limit: usize,
    /// Why the limit is what it is.
    #[serde(default)]
    pub limit_state: LimitState,
    #[serde(default)]
    pub kept: usize,
    pub in_flight: usize,
    pub waiting: usize,
    pub at_gate: usize,
    pub queue: usize,
    #[serde(default)]
    pub mean_hold_seconds: f64,
    #[serde(default)]
    pub law_panics: u64,
    #[serde(default)]
    pub warnings: Vec<String>,
    #[serde(default)]
    pub reloads: u64,
    #[serde(default)]
    pub discipline: String,
    #[serde(default)]
    pub abandoned: usize,
    #[serde(default)]
    pub overdue: u64,
    #[serde(default)]
    pub labels_evicted: u64,
    #[serde(default)]
    pub labels_overflowed: u64,
    #[serde(default)]
    pub labels_known: usize,
    #[serde(default)]
    pub shadow: Option<Shadow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// Whether requests are admitted.
    #[serde(default)]
    pub ready: bool,
    /// The number of free slots.
    #[serde(default)]
    pub available: usize,
    /// The used part of the slots.
    #[serde(default)]
    pub utilisation: f64,
    pub partitions: Vec<Partition>,
    pub labels: LabelPage,
    /// The capture of the last minutes, if there is one or was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureStatus>,
}

/// What runs there, and since when.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
#[serde(default)]
pub struct Identity {
    /// The version of tower-admission.
    pub library: String,
    /// What [`Introspection::version`](crate::introspection::Introspection::version) was told; empty unless it was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// When the introspection was made, in seconds since 1970.
    pub started_unix_seconds: u64,
}

impl Identity {
    /// The identity of a program that starts now.
    #[expect(clippy::disallowed_methods, reason = "a date for people, read once: nothing is measured by it")]
    pub(in crate::introspect) fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let library = env!("CARGO_PKG_VERSION").to_owned();
        Self { library, version: String::new(), started_unix_seconds: since_1970.as_secs() }
    }
}

/// All partitions.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Partitions {
    /// The partitions, the default one first.
    pub partitions: Vec<Partition>,
}

/// One partition; see [`PartitionSnapshot`](crate::snapshot::PartitionSnapshot).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Partition {
    pub name: String,
    #[serde(default)]
    pub percent: f64,
    #[serde(default)]
    pub mode: String,
    #[serde(default)]
    pub observes: bool,
    pub share: usize,
    pub in_flight: usize,
    #[serde(default)]
    pub in_flight_beyond: usize,
    pub waiting: usize,
    #[serde(default)]
    pub in_room: usize,
    pub at_gate: usize,
    pub admitted: u64,
    #[serde(default)]
    pub queued: u64,
    #[serde(default)]
    pub would_queue: u64,
    #[serde(default)]
    pub would_reject: BTreeMap<String, u64>,
    #[serde(default)]
    pub cancelled_waiting: u64,
    pub rejected: BTreeMap<String, u64>,
    #[serde(default)]
    pub successes: u64,
    #[serde(default)]
    pub overloads: u64,
    #[serde(default)]
    pub late_overloads: u64,
    #[serde(default)]
    pub cancelled: u64,
    #[serde(default)]
    pub ignored: u64,
    #[serde(default)]
    pub rtt: Quantiles,
    #[serde(default)]
    pub wait: Quantiles,
    /// What became of its requests in the last seconds.
    #[serde(default)]
    pub recent: Recent,
    /// The fields of labels that partitions have as well.
    #[serde(default)]
    pub admission: PartitionSection,
    /// The round-trip times since the handle was made, as pairs of seconds and counts. The difference of two answers is
    /// the time between them.
    pub rtt_counts: Vec<(f64, u64)>,
    /// The same for waits.
    #[serde(default)]
    pub wait_counts: Vec<(f64, u64)>,
}

/// The fields of labels that partitions have as well; the slots of a partition are its share.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names are those of operators' tools")]
pub struct PartitionSection {
    pub status: String,
    pub configured_slot_count: usize,
    pub leased_count: usize,
    pub ready_count: usize,
    pub available_slot_count: usize,
    pub budget_source: String,
}

/// Quantiles in seconds; see [`Quantiles`](crate::snapshot::Quantiles).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

/// What a shadow law would have done; see [`ShadowSnapshot`](crate::snapshot::ShadowSnapshot).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Shadow {
    pub limit: usize,
    pub in_flight: usize,
    pub would_queue: u64,
    pub would_reject: u64,
    pub would_admit: u64,
    pub counterfactual: bool,
    pub law_panics: u64,
}

/// The state of the store that counts shared rules; see [`StoreSnapshot`](crate::snapshot::StoreSnapshot).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the snapshot")]
pub struct Store {
    pub state: String,
    pub down_seconds: f64,
    pub failures_in_a_row: u32,
    pub failed_probes: u32,
    pub granted: u64,
    pub full: u64,
    pub failed: u64,
    pub from_local_share: u64,
    pub without_store: u64,
    pub leases_lost: u64,
    #[serde(default)]
    pub grants_after_seconds: f64,
}

/// Whether requests are taken.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Readiness {
    /// Whether requests are admitted.
    pub ready: bool,
    /// Whether the handle drains.
    pub draining: bool,
}

impl Readiness {
    pub(in crate::introspect) const fn new(ready: bool) -> Self {
        Self { ready, draining: !ready }
    }
}

impl Overview {
    /// The snapshot's own partitions and labels are not told: they have types of their own here.
    pub(in crate::introspect) fn new(snapshot: Snapshot, partitions: Vec<Partition>, labels: LabelPage) -> Self {
        Self {
            ready: !snapshot.draining,
            available: snapshot.available(),
            utilisation: snapshot.utilisation(),
            name: snapshot.name,
            identity: None,
            verdict: snapshot.verdict.into(),
            mode: snapshot.mode.to_owned(),
            draining: snapshot.draining,
            limit: snapshot.limit,
            limit_state: snapshot.limit_state.into(),
            kept: snapshot.kept,
            in_flight: snapshot.in_flight,
            waiting: snapshot.waiting,
            at_gate: snapshot.at_gate,
            queue: snapshot.queue,
            mean_hold_seconds: snapshot.mean_hold_seconds,
            law_panics: snapshot.law_panics,
            warnings: snapshot.warnings,
            reloads: snapshot.reloads,
            discipline: snapshot.discipline.to_owned(),
            abandoned: snapshot.abandoned,
            overdue: snapshot.overdue,
            labels_evicted: snapshot.labels_evicted,
            labels_overflowed: snapshot.labels_overflowed,
            labels_known: snapshot.labels_known,
            shadow: snapshot.shadow.as_ref().map(Shadow::from),
            store: snapshot.store.as_ref().map(Store::from),
            partitions,
            labels,
            capture: None,
        }
    }
}

/// How often which time was met.
type Counted = Vec<(f64, u64)>;

impl Partition {
    pub(in crate::introspect) fn new(
        partition: PartitionSnapshot,
        status: LabelStatus,
        [rtt_counts, wait_counts]: [Counted; 2],
    ) -> Self {
        let by_reason = |counts: BTreeMap<&str, u64>| counts.into_iter().map(|(it, n)| (it.to_owned(), n)).collect();
        Self {
            admission: PartitionSection::of(&partition, status),
            name: partition.name,
            percent: partition.percent,
            mode: partition.mode.to_owned(),
            observes: partition.observes,
            share: partition.share,
            in_flight: partition.in_flight,
            in_flight_beyond: partition.in_flight_beyond,
            waiting: partition.waiting,
            in_room: partition.in_room,
            at_gate: partition.at_gate,
            admitted: partition.admitted,
            queued: partition.queued,
            would_queue: partition.would_queue,
            would_reject: by_reason(partition.would_reject),
            cancelled_waiting: partition.cancelled_waiting,
            rejected: by_reason(partition.rejected),
            successes: partition.successes,
            overloads: partition.overloads,
            late_overloads: partition.late_overloads,
            cancelled: partition.cancelled,
            ignored: partition.ignored,
            rtt: partition.rtt.into(),
            wait: partition.wait.into(),
            recent: partition.recent.into(),
            rtt_counts,
            wait_counts,
        }
    }
}

impl PartitionSection {
    fn of(one: &PartitionSnapshot, status: LabelStatus) -> Self {
        Self {
            status: status.as_str().to_owned(),
            configured_slot_count: one.share,
            leased_count: one.in_flight,
            ready_count: one.waiting + one.at_gate,
            available_slot_count: one.share.saturating_sub(one.in_flight),
            budget_source: format!("partitions.{}", one.name),
        }
    }
}

impl From<crate::engine::Quantiles> for Quantiles {
    fn from(it: crate::engine::Quantiles) -> Self {
        Self { p50: it.p50, p90: it.p90, p99: it.p99 }
    }
}

impl From<&ShadowSnapshot> for Shadow {
    fn from(it: &ShadowSnapshot) -> Self {
        Self {
            limit: it.limit,
            in_flight: it.in_flight,
            would_queue: it.would_queue,
            would_reject: it.would_reject,
            would_admit: it.would_admit,
            counterfactual: it.counterfactual,
            law_panics: it.law_panics,
        }
    }
}

impl From<&StoreSnapshot> for Store {
    fn from(it: &StoreSnapshot) -> Self {
        Self {
            state: it.state.to_owned(),
            down_seconds: it.down_seconds,
            failures_in_a_row: it.failures_in_a_row,
            failed_probes: it.failed_probes,
            granted: it.granted,
            full: it.full,
            failed: it.failed,
            from_local_share: it.from_local_share,
            without_store: it.without_store,
            leases_lost: it.leases_lost,
            grants_after_seconds: it.grants_after_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, Ticket, introspect::wire::Waiter, limit::Fixed, percent};

    /// Written, both begin alike.
    fn assert_begins(whole: &impl Serialize, part: &impl Serialize) {
        let (whole, part) = (serde_json::to_string(whole).unwrap(), serde_json::to_string(part).unwrap());
        assert!(whole.starts_with(part.trim_end_matches('}')), "{whole}\n{part}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_is_what_snapshots_say() {
        let admission = Admission::builder().name("a").limit(Fixed::new(2)).queue(8).partition("b", percent(40));
        let admission = admission.shadow_limit(Fixed::new(1)).build().unwrap();
        let ticket = || Ticket::new().partition("b").label("l").run("r");
        let _permits = [admission.try_admit(ticket()).unwrap(), admission.try_admit(Ticket::new()).unwrap()];
        let (mut first, mut second) = (admission.admit(ticket()), admission.admit(ticket()));
        for waiter in [&mut first, &mut second] {
            assert!(admission_testkit::poll_once(waiter).await.is_pending());
        }
        for waiter in admission.waiters("", "l") {
            let told = serde_json::to_string(&waiter).unwrap();
            let wire = Waiter::from(waiter);
            assert_eq!(serde_json::to_string(&wire).unwrap(), told);
        }
        let mut snapshot = admission.snapshot();
        snapshot.labels.clear();
        let store = StoreSnapshot { state: "up", ..StoreSnapshot::default() };
        snapshot.store = Some(store.clone());
        assert_begins(&Store::from(&store), &store);
        let partitions = std::mem::take(&mut snapshot.partitions);
        for partition in &partitions {
            let counts = [vec![(0.5, 1)], Vec::new()];
            assert_begins(&Partition::new(partition.clone(), LabelStatus::Accepting, counts), partition);
        }
        let labels = LabelPage {
            total: 0,
            matched: 0,
            by_status: BTreeMap::new(),
            offset: 0,
            limit: 0,
            next_offset: None,
            labels: Vec::new(),
        };
        let whole = Overview::new(snapshot.clone(), Vec::new(), labels);
        assert_begins(&whole, &snapshot);
        let read: Overview = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), serde_json::to_string(&whole).unwrap());
    }
}
