//! The state of a handle, as it is seen from outside.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use super::{HealthSnapshot, LabelSnapshot, LimitSnapshot, RecentSnapshot};
use crate::{
    Engine, Histogram, Reason, capacity::PartitionView, control::ShadowSnapshot, ids::PartitionId, telemetry::Counts,
};

/// The state of a handle at one moment, all of it taken in the same turn.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the handle.
    pub name: String,
    /// The state in a line: whether all is well, which requests are refused, and what to do.
    pub health: HealthSnapshot,
    /// Whether decisions bind: `enforce`, `observe` or `off`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::plan::Mode"))]
    pub mode: Cow<'static, str>,
    /// Whether the handle drains: no request is admitted any more.
    pub draining: bool,
    /// Limit: requests that may run at once.
    pub limit: usize,
    /// Why the limit is what it is.
    pub limit_state: LimitSnapshot,
    /// Slots that are held back: those that partitions don't lend, and those for requests which were rejected below the share of
    /// their partition, their label or their importance.
    pub reserved: usize,
    /// Requests that run.
    pub in_flight: usize,
    /// Requests that wait in line for a slot.
    pub waiting: usize,
    /// Requests that wait at the full gate for room in the line.
    pub at_gate: usize,
    /// Places in line.
    pub queue: usize,
    /// Mean time that a slot is held, in seconds; 0 while nothing has finished.
    pub mean_hold_seconds: f64,
    /// Panics of the control law. The limit then stays what it was.
    pub law_panics: u64,
    /// Settings and uses that are allowed and are likely to be mistakes.
    pub warnings: Vec<String>,
    /// Reloads of the settings since the handle was made.
    pub reloads: u64,
    /// Which waiter goes first: `fifo`, `fair`, `adaptive_lifo` or `burst_credit`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["fifo", "fair", "adaptive_lifo", "burst_credit"])))]
    pub discipline: Cow<'static, str>,
    /// Requests that have ended while their work [goes on][Abandoned]. They count as in flight.
    ///
    /// [Abandoned]: https://docs.rs/tower-admission/latest/tower_admission/policy/enum.Abandoned.html
    pub abandoned: usize,
    /// Slots that expired and were taken back while their holders went on.
    pub expired_slots: u64,
    /// Labels that were forgotten because other labels needed their entries.
    pub labels_evicted: u64,
    /// Requests whose label found no entry, and shared one.
    pub labels_overflowed: u64,
    /// Labels that are known, counted once for each class of work.
    pub labels_known: usize,
    /// What a shadow law would have done, if there is one.
    pub shadow: Option<ShadowSnapshot>,
    /// The store that counts the rules which all instances share, if there is one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub store: Option<StoreSnapshot>,
    /// Each partition, the default one first.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub partitions: Vec<PartitionSnapshot>,
    /// Each label that is known, sorted by namespace and name. The entry that labels share for which there is no room
    /// has an empty name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub labels: Vec<LabelSnapshot>,
}

/// The state of the store that counts shared rules, and the results of asking it since the handle was made.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Store"))]
#[non_exhaustive]
pub struct StoreSnapshot {
    /// [Whether the store answers][Health]: `up`, `evicting`, `failing`, `quiet` or `down`.
    ///
    /// [Health]: https://docs.rs/tower-admission/latest/tower_admission/store/enum.Health.html
    #[cfg_attr(feature = "schema", schemars(with = "crate::tokens::StoreState"))]
    pub state: Cow<'static, str>,
    /// Time for which the store has been down, in seconds; else 0.
    pub down_seconds: f64,
    /// Failures of the store in a row while it is still asked.
    pub failures_in_a_row: u32,
    /// Probes in vain since the store went down.
    pub failed_probes: u32,
    /// Requests that the store granted.
    pub granted: u64,
    /// Requests for which the store had no room.
    pub full: u64,
    /// Requests that were rejected because the store gave no answer.
    pub failed: u64,
    /// Requests that were admitted from capacity that this process held.
    pub from_local_share: u64,
    /// Requests that this process admitted by itself because the store was gone and their rules said so.
    pub without_store: u64,
    /// Leases that were lost while their work went on.
    pub leases_lost: u64,
    /// Time until a store that is quiet grants again, in seconds; else 0.
    pub grants_after_seconds: f64,
}

impl StoreSnapshot {
    /// Returns the snapshot of a store in this state that was never asked.
    #[doc(hidden)]
    pub fn of(state: &'static str) -> Self {
        Self { state: state.into(), ..Self::default() }
    }
}

/// The state of one partition.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Name of the partition.
    pub name: String,
    /// Part of the limit, in percent.
    pub percent: f64,
    /// What the partition may do beyond its share: `burst`, `hard_cap` or `overcommit`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::plan::PartitionMode"))]
    pub mode: Cow<'static, str>,
    /// Whether the partition observes: it only counts what it would do, while the handle enforces.
    pub observes: bool,
    /// Guaranteed slots of the present limit.
    pub share: usize,
    /// Requests of the partition that run.
    pub in_flight: usize,
    /// Requests of the partition that run besides, which would not run, had its decisions been binding.
    pub in_flight_over_limit: usize,
    /// Requests that wait in line.
    pub waiting: usize,
    /// Requests among these that wait in the room for guarantees: a slot of the share was lent, or is their own partition's next.
    pub in_room: usize,
    /// Requests that wait at the full gate.
    pub at_gate: usize,
    /// Requests that were admitted since the handle was made.
    pub admitted: u64,
    /// Requests among those admitted that had to wait first.
    pub queued: u64,
    /// Requests that ran and would have waited, had decisions been binding.
    pub would_queue: u64,
    /// Requests that ran and would have been rejected, had decisions been binding, by reason.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = {"$ref": "#/components/schemas/Reason"})))]
    pub would_reject: BTreeMap<Cow<'static, str>, u64>,
    /// Requests that left while they waited.
    pub cancelled_waiting: u64,
    /// Requests that were rejected, by reason; reasons that never occurred are left out.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = {"$ref": "#/components/schemas/Reason"})))]
    pub rejected: BTreeMap<Cow<'static, str>, u64>,
    /// Requests that succeeded.
    pub successes: u64,
    /// Requests that reported an overload.
    pub overloads: u64,
    /// Requests that seemed successes and told of an overload in their trailers.
    pub late_overloads: u64,
    /// Requests that were cancelled while they ran.
    pub cancelled: u64,
    /// Requests whose outcome was ignored.
    pub ignored: u64,
    /// Round-trip times of requests that succeeded.
    pub rtt: Quantiles,
    /// Waits of requests that were admitted after a wait.
    pub wait: Quantiles,
    /// What became of its requests in the last seconds.
    pub recent: RecentSnapshot,
}

/// Quantiles in seconds, each within a quarter of the true value; 0 where nothing was recorded.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize), serde(default))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Snapshot {
    /// Returns the partition of this name.
    pub fn partition(&self, name: &str) -> Option<&PartitionSnapshot> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// Returns how many slots are free.
    pub const fn available(&self) -> usize {
        self.limit.saturating_sub(self.in_flight)
    }

    /// Returns how much of the limit is used: 1 where all of it is, and more after it shrank.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn utilisation(&self) -> f64 {
        if self.limit == 0 { 0.0 } else { self.in_flight as f64 / self.limit as f64 }
    }

    /// Returns how many requests were rejected in all partitions.
    pub fn rejected(&self) -> u64 {
        self.partitions.iter().flat_map(|partition| partition.rejected.values()).sum()
    }

    /// Returns how many requests were admitted in all partitions.
    pub fn admitted(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.admitted).sum()
    }
}

impl Engine {
    /// Returns the number, name and counts of each partition that is shown.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &str, &Counts)> {
        self.shown_partitions().map(|(number, it)| (number, &*it.plan.name, self.telemetry.counts(number)))
    }

    pub(super) fn shown_partitions(&self) -> impl Iterator<Item = (PartitionId, PartitionView<'_>)> {
        self.capacity.partitions().filter(|(_, it)| it.is_shown())
    }

    /// Returns the present state, without the labels, of which there may be many, and without the name and the
    /// warnings, which the engine doesn't know.
    pub fn snapshot(&self) -> Snapshot {
        let partitions = self.shown_partitions().map(|(number, it)| self.partition_snapshot(number, it));
        let mut snapshot = Snapshot {
            limit_state: self.limit_snapshot(),
            reserved: self.capacity.reserved(),
            mode: self.lifecycle.standing().mode.as_str().into(),
            draining: self.lifecycle.is_draining(),
            limit: self.capacity.limit(),
            in_flight: self.capacity.running(),
            waiting: self.queue.lengths().in_line,
            at_gate: self.queue.lengths().at_gate,
            queue: self.room().places,
            mean_hold_seconds: self.estimates.hold().mean().as_secs_f64(),
            law_panics: self.controller.panics(),
            reloads: self.telemetry.reloads(),
            discipline: self.queue.plan().discipline.as_str().into(),
            expired_slots: self.slot_ttl.expired(),
            labels_evicted: self.quotas.table().evicted,
            labels_overflowed: self.quotas.table().overflowed,
            labels_known: self.quotas.table().known,
            shadow: self.controller.shadow_snapshot(),
            partitions: partitions.collect(),
            ..Snapshot::default()
        };
        snapshot.health = self.health_snapshot(&snapshot);
        snapshot
    }

    fn partition_snapshot(&self, number: PartitionId, it: PartitionView<'_>) -> PartitionSnapshot {
        let (counts, waiters) = (self.telemetry.counts(number), self.queue.lengths_of(number));
        PartitionSnapshot {
            name: it.plan.name.to_string(),
            percent: f64::from(it.plan.part) / 10_000.0,
            mode: it.plan.mode.as_str().into(),
            observes: it.plan.observes,
            share: it.share,
            in_flight: it.running,
            in_flight_over_limit: it.over_limit,
            waiting: waiters.in_line,
            in_room: waiters.in_room,
            at_gate: waiters.at_gate,
            admitted: counts.admitted,
            queued: counts.queued,
            would_queue: counts.would_queue,
            would_reject: by_reason(&counts.would_reject),
            cancelled_waiting: counts.cancelled_waiting,
            rejected: by_reason(&counts.rejected),
            successes: counts.successes,
            overloads: counts.overloads,
            late_overloads: counts.late_overloads,
            cancelled: counts.cancelled,
            ignored: counts.ignored,
            rtt: Quantiles::of(&counts.rtt),
            wait: Quantiles::of(&counts.wait),
            recent: RecentSnapshot::from(&self.recent(number)),
        }
    }
}

fn by_reason(counts: &[u64; Reason::ALL.len()]) -> BTreeMap<Cow<'static, str>, u64> {
    let occurred = Reason::ALL.into_iter().zip(counts).filter(|&(_, &count)| count > 0);
    occurred.map(|(reason, &count)| (reason.as_str().into(), count)).collect()
}

impl Quantiles {
    fn of(histogram: &Histogram) -> Self {
        let seconds = |per_mille| Duration::as_secs_f64(&histogram.quantile(per_mille));
        Self { p50: seconds(500), p90: seconds(900), p99: seconds(990) }
    }
}
