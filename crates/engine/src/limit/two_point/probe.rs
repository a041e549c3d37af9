//! Probes: for one cohort the limit is half of what ran.
//!
//! A probe lasts for a few round-trip times and costs throughput, up to half of it. So the next probe comes only when this one has paid
//! off: after fifteen times as long as the time that it cost, all throughput taken together. The next probe comes no sooner than after 5 s,
//! and after twice as long, 40 s at most, each time that a probe finds the limit right. A cut starts anew.
//!
//! A probe halves *what ran*, which may be less than the limit, and rounds up, to less than the limit: at small limits a whole slot less is
//! a point much further away, which costs more and tells less.
//!
//! Where answers take long, so do probes. One that is due for that reason makes do with as many requests as run.

use std::time::Duration;

use super::point::Point;
use crate::Timestamp;

/// A probe has to pay off for this many times the time that it cost, all throughput taken together.
const PAYS_OFF: f64 = 15.0;
/// Longest pause, however much the probe cost.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Returns for how long no other probe pays off, after one that began at this time and found this lower point.
pub(super) fn pause(since: Timestamp, low: &Point, high: &Point) -> Duration {
    // What the probe cost: throughput is concurrency by latency.
    let throughput = (low.concurrency / low.rtt) / (high.concurrency / high.rtt);
    let lost = low.at.since(since).as_secs_f64() * (1.0 - throughput).max(0.0);
    Duration::try_from_secs_f64(lost * PAYS_OFF).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)
}

/// Returns the limit under which half of what ran runs, which may be less than half of the limit.
pub(super) fn limit(limit: f64, high: Option<&Point>) -> f64 {
    // Behind caps, half of the limit is half of what runs.
    let high = high.filter(|high| !high.is_by_shares());
    let (running, waits) = high.map_or((limit, 1.0), |high| (high.counted, high.concurrency / high.counted));
    (running.min(limit) * (1.0 - waits / 2.0)).ceil().min(limit.floor() - 1.0)
}
