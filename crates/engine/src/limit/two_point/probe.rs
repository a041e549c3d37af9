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

use super::{Phase, TwoPoint, point::Point, rules::Rule, steer::LATE_CUT};
use crate::Timestamp;

/// A probe has to pay off for this many times the time that it cost, all throughput taken together.
const PAYS_OFF: f64 = 15.0;
/// Longest pause, however much the probe cost.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The gap between probes where they find nothing new.
const LONGEST_GAP: Duration = Duration::from_secs(40);

impl TwoPoint {
    /// Returns the limit under which half of what ran runs, which may be less than half of the limit.
    pub(super) fn probed_limit(&self) -> f64 {
        // Behind caps, half of the limit is half of what runs.
        let high = self.high.filter(|high| !high.is_by_shares());
        let (running, waits) = high.map_or((self.limit, 1.0), |high| (high.counted, high.concurrency / high.counted));
        (running.min(self.limit) * (1.0 - waits / 2.0)).ceil().min(self.limit.floor() - 1.0)
    }

    /// Asks for a lower point. A probe that brought none that can be compared is not repeated at once.
    pub(super) fn probe(&mut self, now: Timestamp) {
        let is_paid_off = now >= self.next_probe || !self.rules.has(Rule::PayOff);
        if self.low.is_some_and(|low| low.at == now) || !is_paid_off {
            return self.set(self.limit, now);
        }
        self.phase = Phase::Probe;
        self.probed_at = now;
        self.slow_start = false;
        self.cohort = Some(self.open(now, self.shown.is_slow(self.usual)));
    }

    pub(super) fn probed(&mut self, point: Point) {
        self.phase = Phase::Watch;
        self.learn_scatter(&point);
        if point.drowns() && self.rules.has(Rule::Drowned) {
            return self.drowned(point.at);
        }
        if self.comes_late(&point) {
            return self.cut(LATE_CUT, point.at);
        }
        self.low = Some(point);
        if let Some(high) = self.high {
            // What the probe cost: throughput is concurrency by latency.
            let throughput = (point.concurrency / point.rtt) / (high.concurrency / high.rtt);
            let lost = point.at.since(self.probed_at).as_secs_f64() * (1.0 - throughput).max(0.0);
            let pause = Duration::try_from_secs_f64(lost * PAYS_OFF).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
            self.next_probe = point.at.after(pause);
        }
        let before = self.limit;
        self.steer(point.at, None);
        // The limit was right: there is no hurry to ask again.
        #[expect(clippy::float_cmp, reason = "unchanged")]
        if self.limit == before && self.rules.has(Rule::Gap) {
            self.gap = (self.gap * 2).min(LONGEST_GAP);
        }
    }
}
