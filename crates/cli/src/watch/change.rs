//! What happened between two looks.

use std::{collections::BTreeMap, time::Duration};

use tower_admission::introspection::{Overview, Partition};

/// What happened, per second.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) admitted: f64,
    /// By reason; reasons that did not occur are left out.
    pub(super) rejected: BTreeMap<String, f64>,
    /// What half of the round-trip times, nine in ten, and 99 in a hundred don't exceed, in seconds.
    pub(super) rtt: Option<[f64; 3]>,
    /// By partition: admitted and rejected.
    pub(super) partitions: BTreeMap<String, [f64; 2]>,
}

impl Change {
    /// A server that was restarted in between has counted nothing before, and so nothing shows.
    pub(super) fn between(before: &Overview, now: &Overview, time: Duration) -> Self {
        let mut change = Self::default();
        let mut times = BTreeMap::new();
        let per_second = |count: u64| count as f64 / time.as_secs_f64().max(0.001);
        for (counted, one) in now.partitions.iter().map(|it| (it, &it.snapshot)) {
            let Some(before) = before.partitions.iter().find(|it| it.snapshot.name == one.name) else { continue };
            let old = &before.snapshot;
            let admitted = per_second(one.admitted.saturating_sub(old.admitted));
            let mut rejected = 0.0;
            for (reason, count) in &one.rejected {
                let more = count.saturating_sub(old.rejected.get(reason).copied().unwrap_or(0));
                if more > 0 {
                    rejected += per_second(more);
                    *change.rejected.entry(reason.to_string()).or_default() += per_second(more);
                }
            }
            change.admitted += admitted;
            change.partitions.insert(one.name.clone(), [admitted, rejected]);
            add_times(&mut times, before, counted);
        }
        change.rtt = quantiles(&times);
        change
    }
}

/// Positive numbers are in the same order as their bits.
fn add_times(times: &mut BTreeMap<u64, u64>, before: &Partition, now: &Partition) {
    let old: BTreeMap<u64, u64> = before.rtt_counts.iter().map(|(time, count)| (time.to_bits(), *count)).collect();
    for (time, count) in &now.rtt_counts {
        let more = count.saturating_sub(old.get(&time.to_bits()).copied().unwrap_or(0));
        *times.entry(time.to_bits()).or_default() += more;
    }
}

fn quantiles(times: &BTreeMap<u64, u64>) -> Option<[f64; 3]> {
    let total: u64 = times.values().sum();
    let quantile = |per_cent: u64| {
        let rank = (total * per_cent).div_ceil(100);
        let mut seen = 0;
        let found = times.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(0.0, |(time, _)| f64::from_bits(*time))
    };
    (total > 0).then(|| [50, 90, 99].map(quantile))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn overview(admitted: u64, queue_full: u64, times: &[(f64, u64)]) -> Overview {
        let partition = json!({
            "name": "default", "share": 10, "in_flight": 0, "waiting": 0, "at_gate": 0, "admitted": admitted,
            "rejected": { "queue_full": queue_full }, "rtt_counts": times,
        });
        let labels = json!({ "total": 0, "matched": 0, "by_status": {}, "labels": [] });
        let whole = json!({
            "name": "a", "mode": "enforce", "draining": false, "limit": 10, "in_flight": 0, "waiting": 0, "at_gate": 0,
            "queue": 0, "partitions": [partition], "labels": labels,
        });
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn what_happened_is_the_difference() {
        let before = overview(100, 10, &[(0.1, 90), (0.2, 10)]);
        let now = overview(300, 14, &[(0.1, 90), (0.2, 110), (0.4, 100)]);
        let change = Change::between(&before, &now, Duration::from_secs(2));
        assert_eq!((change.admitted, change.rejected["queue_full"]), (100.0, 2.0));
        assert_eq!(change.rtt, Some([0.2, 0.4, 0.4]), "what was before is not counted");
        assert_eq!(change.partitions["default"], [100.0, 2.0]);
    }

    #[test]
    fn a_server_that_started_anew_did_nothing() {
        let change = Change::between(&overview(100, 10, &[(0.1, 5)]), &overview(3, 0, &[]), Duration::from_secs(1));
        assert_eq!((change.admitted, change.rejected.len(), change.rtt), (0.0, 0, None));
    }
}
