//! How long callers waited for a lock, by class and endpoint.

use std::{
    collections::BTreeMap,
    sync::{Mutex, atomic::AtomicU64},
    time::Duration,
};

use super::LockFailure;
use tower_admission_engine::Histogram;

use crate::task::lock;

/// Upper ends of the buckets, in milliseconds; one more for what is longer.
const BOUNDS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// Most series: further ones are counted together.
const SERIES: usize = 64;

/// Names are cut to this many bytes.
const LONGEST_NAME: usize = 256;

/// Name of the series for all others.
const OTHER: &str = "other";

/// Waits of one kind of caller.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct WaitCounts {
    /// Waits at most as long as the bound of the same index in [`WaitCounts::bounds`], and longer than the bound
    /// before. The last bucket counts the waits that were longer than all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// Sum of all waits.
    pub total: Duration,
    /// Callers that got the lock.
    pub taken: u64,
    /// Callers that gave up.
    pub busy: u64,
    /// Callers that failed because of the store.
    pub failed: u64,
}

impl WaitCounts {
    /// Returns the upper ends of the buckets.
    pub fn bounds() -> impl Iterator<Item = Duration> {
        BOUNDS.into_iter().map(Duration::from_millis)
    }
}

/// Waits of one class of tenants at one endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WaitSeries {
    /// The class.
    pub class: String,
    /// The endpoint.
    pub endpoint: String,
    /// What was counted.
    pub counts: WaitCounts,
}

#[derive(Debug, Default)]
pub(crate) struct Waits {
    series: Mutex<BTreeMap<(String, String), (WaitCounts, Histogram)>>,
    /// Requests for locks that were sent to the store.
    pub(crate) requests: AtomicU64,
}

impl Waits {
    pub(crate) fn record(&self, class: &str, endpoint: &str, waited: Duration, failure: Option<&LockFailure>) {
        let mut series = lock(&self.series);
        let own = |name: &str| {
            let name = name.trim();
            (0..=LONGEST_NAME).rev().find_map(|end| name.get(..end)).unwrap_or_default().to_owned()
        };
        let mut name = (own(class), own(endpoint));
        if !series.contains_key(&name) && series.len() >= SERIES - 1 {
            name = (OTHER.to_owned(), OTHER.to_owned());
        }
        let (counts, times) = series.entry(name).or_default();
        times.record(waited);
        let bucket = BOUNDS.iter().position(|&bound| waited <= Duration::from_millis(bound)).unwrap_or(BOUNDS.len());
        counts.buckets[bucket] += 1;
        counts.total = counts.total.saturating_add(waited);
        match failure {
            None => counts.taken += 1,
            Some(LockFailure::Busy) => counts.busy += 1,
            Some(LockFailure::Store(_)) => counts.failed += 1,
        }
    }

    /// Returns all series with all times in finer buckets.
    pub(crate) fn times(&self) -> Vec<(WaitSeries, Histogram)> {
        let series = lock(&self.series);
        let all = series.iter().map(|((class, endpoint), (counts, times))| {
            let (class, endpoint) = (class.clone(), endpoint.clone());
            (WaitSeries { class, endpoint, counts: counts.clone() }, times.clone())
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_in_their_bucket_and_series_are_bounded() {
        let waits = Waits::default();
        waits.record("gold", "start", Duration::from_millis(2), None);
        waits.record("gold", "start", Duration::from_secs(60), Some(&LockFailure::Busy));
        let counts = waits.times()[0].0.counts.clone();
        assert_eq!((counts.buckets[1], counts.buckets[12]), (1, 1));
        assert_eq!((counts.taken, counts.busy, counts.failed), (1, 1, 0));
        for class in 0..1_000 {
            waits.record(&class.to_string(), "start", Duration::ZERO, None);
        }
        let series = waits.times();
        assert_eq!(series.len(), SERIES);
        let all: u64 = series.iter().map(|(one, _)| one.counts.taken).sum();
        assert_eq!(all, 1_001, "none is left out");
    }
}
