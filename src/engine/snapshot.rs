//! What can be seen from outside.

use std::{collections::BTreeMap, time::Duration};

use super::{Counts, Engine, Histogram};
use crate::rejection::Reason;

/// The state of a handle at one moment, all of it taken in the same turn.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The name of the handle.
    pub name: String,
    /// Whether decisions bind: `enforce`, `observe` or `off`.
    pub mode: &'static str,
    /// How many requests may run at once.
    pub limit: usize,
    /// How many run.
    pub in_flight: usize,
    /// How many wait in line for a slot.
    pub waiting: usize,
    /// How many wait at the full gate for room in the line.
    pub at_gate: usize,
    /// How many may wait in line for a slot.
    pub queue: usize,
    /// For how long a slot is held on average, in seconds; 0 while nothing has finished.
    pub mean_hold_seconds: f64,
    /// How often the control law panicked. The limit then stays what it was.
    pub law_panics: u64,
    /// Settings and uses that are allowed and are likely to be mistakes.
    pub warnings: Vec<String>,
    /// Each partition, the default one first.
    pub partitions: Vec<PartitionSnapshot>,
}

/// The state of one partition.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Its name.
    pub name: String,
    /// Its part of the limit, in percent.
    pub percent: f64,
    /// What it may do beyond its share: `burst`, `hard_cap` or `overcommit`.
    pub mode: &'static str,
    /// What it is guaranteed of the present limit.
    pub share: usize,
    /// How many of its requests run.
    pub in_flight: usize,
    /// How many wait in line.
    pub waiting: usize,
    /// How many wait at the full gate.
    pub at_gate: usize,
    /// How many were admitted since the handle was made.
    pub admitted: u64,
    /// How many of those had to wait first.
    pub queued: u64,
    /// How many ran that would have waited, had decisions been binding.
    pub would_queue: u64,
    /// How many ran that would have been rejected, by reason.
    pub would_reject: BTreeMap<&'static str, u64>,
    /// How many left while they waited.
    pub cancelled_waiting: u64,
    /// How many were rejected, by reason; reasons that never occurred are left out.
    pub rejected: BTreeMap<&'static str, u64>,
    /// How many succeeded, reported an overload, were cancelled while they ran, or were ignored.
    pub successes: u64,
    /// See `successes`.
    pub overloads: u64,
    /// How many of those that seemed successes told of an overload in their trailers.
    pub late_overloads: u64,
    /// See `successes`.
    pub cancelled: u64,
    /// See `successes`.
    pub ignored: u64,
    /// Round-trip times of those that succeeded.
    pub rtt: Quantiles,
    /// How long those waited that were admitted after a wait.
    pub wait: Quantiles,
}

/// Quantiles in seconds, each within a quarter of the true value; 0 where nothing was recorded.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "introspect", derive(serde::Serialize))]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

impl Snapshot {
    /// The partition of this name.
    pub fn partition(&self, name: &str) -> Option<&PartitionSnapshot> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// How many were rejected in all partitions.
    pub fn rejected(&self) -> u64 {
        self.partitions.iter().flat_map(|partition| partition.rejected.values()).sum()
    }

    /// How many were admitted in all partitions.
    pub fn admitted(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.admitted).sum()
    }
}

impl Engine {
    /// The present state, without the name and the warnings, which the engine doesn't know.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            name: String::new(),
            mode: self.mode.as_str(),
            limit: self.limit,
            in_flight: self.running,
            waiting: self.in_line,
            at_gate: self.at_gate,
            queue: self.line.places.count(self.limit),
            mean_hold_seconds: self.drain.mean().as_secs_f64(),
            law_panics: self.law_panics,
            warnings: Vec::new(),
            partitions: self.partitions.iter().map(super::Partition::snapshot).collect(),
        }
    }
}

impl super::Partition {
    fn snapshot(&self) -> PartitionSnapshot {
        let Counts {
            admitted,
            queued,
            would_queue,
            cancelled_waiting,
            successes,
            overloads,
            late_overloads,
            cancelled,
            ignored,
            ..
        } = self.counts;
        PartitionSnapshot {
            name: self.plan.name.to_string(),
            percent: f64::from(self.plan.part) / 10_000.0,
            mode: self.plan.mode.as_str(),
            share: self.share,
            in_flight: self.running,
            waiting: self.line.len(),
            at_gate: self.gate.len(),
            admitted,
            queued,
            would_queue,
            would_reject: by_reason(&self.counts.would_reject),
            cancelled_waiting,
            rejected: by_reason(&self.counts.rejected),
            successes,
            overloads,
            late_overloads,
            cancelled,
            ignored,
            rtt: Quantiles::of(&self.counts.rtt),
            wait: Quantiles::of(&self.counts.wait),
        }
    }
}

fn by_reason(counts: &[u64; Reason::ALL.len()]) -> BTreeMap<&'static str, u64> {
    let occurred = Reason::ALL.into_iter().zip(counts).filter(|&(_, &count)| count > 0);
    occurred.map(|(reason, &count)| (reason.as_str(), count)).collect()
}

impl Quantiles {
    fn of(histogram: &Histogram) -> Self {
        let seconds = |per_mille| Duration::as_secs_f64(&histogram.quantile(per_mille));
        Self { p50: seconds(500), p90: seconds(900), p99: seconds(990) }
    }
}
