#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use super::{
    super::{LimitAlgorithm, Sample},
    TwoPoint,
    cohort::{Cohort, Habit},
    point::Point,
    rules::Rules,
};
use crate::{outcome::Outcome, time::Timestamp};

const RTT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(1);

/// A law, and a server that runs as many requests as it allows, one round after the other.
struct Server {
    law: TwoPoint,
    now: Timestamp,
}

impl Server {
    fn new(law: TwoPoint) -> Self {
        Self { law, now: Timestamp::ZERO }
    }

    /// Runs a round of requests that all take this long and end like this; returns the limit.
    fn round(&mut self, rtt: Duration, outcome: Outcome) -> usize {
        let limit = self.law.limit();
        for left in (1..=limit).rev() {
            let mut sample = Sample::new(self.now, rtt, limit, outcome);
            sample.running = left;
            self.law.on_sample(&sample);
        }
        self.now = self.now.after(rtt);
        self.law.limit()
    }

    fn rounds(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.round(RTT, Outcome::Success)).collect()
    }
}

#[test]
fn it_doubles_while_latency_stays() {
    let limits = Server::new(TwoPoint::new()).rounds(20);
    assert!(*limits.last().unwrap() >= 640, "{limits:?}");
}

#[test]
fn it_goes_on_from_what_it_adopts_and_asks_before_it_grows() {
    let mut server = Server::new(TwoPoint::new().max(100));
    server.law.adopt(60);
    assert_eq!(server.law.limit(), 60);
    let limits = server.rounds(20);
    let changed = limits.iter().find(|&&limit| limit != 60).unwrap();
    assert!(*changed <= 30, "a probe comes first: {limits:?}");
    server.law.adopt(500);
    assert_eq!(server.law.limit(), 100, "within its own range");
}

#[test]
fn a_limit_that_brings_nothing_is_left_at_once_and_found_again() {
    let mut server = Server::new(TwoPoint::new().max(160));
    assert_eq!(server.rounds(10).last(), Some(&160));
    // All clients give up, at the limit and at half of it.
    let limits: Vec<_> = (0..3).map(|_| server.round(PATIENCE, Outcome::Cancelled)).collect();
    assert!(limits[1] <= 20 && limits[2] <= 3, "{limits:?}");
    let limits = server.rounds(80);
    assert!(*limits.last().unwrap() >= 80, "{limits:?}");
}

#[test]
fn a_server_that_became_faster_during_a_probe_is_not_cut_to_nothing() {
    let mut server = Server::new(TwoPoint::new());
    server.law.adopt(40);
    let probes = (0..10).any(|_| server.round(PATIENCE, Outcome::Success) < 40);
    assert!(probes, "it compares with half as many");
    let limits = server.rounds(3);
    // Three eighths of it, or half of that in the next probe.
    assert!(limits.iter().all(|&limit| limit >= 7), "no crowd makes it fifty times as slow: {limits:?}");
}

/// Requests one after the other for ten seconds, and then a burst.
#[test]
fn requests_of_a_burst_are_not_taken_for_older_than_the_burst() {
    let at = |millis| Timestamp::ZERO.after(Duration::from_millis(millis));
    let mut cohort = Cohort::open(at(0), 0, 200, false, Habit { answer: 2e7, scatter: 1.0 }, Rules::ALL);
    for number in 0..199 {
        let mut sample = Sample::new(at(number * 50), RTT, 1, Outcome::Success);
        sample.running = 1;
        assert!(cohort.add(&sample, 100).is_none());
    }
    let of_the_burst = |left| {
        let mut sample = Sample::new(at(10_000), RTT * 2, 20, Outcome::Success);
        sample.running = left;
        sample
    };
    let point = (1..=20).rev().find_map(|left| cohort.add(&of_the_burst(left), 100)).expect("it is complete");
    assert!(point.rtt < 50e6, "{} ms, and nobody took longer than 40", point.rtt / 1e6);
}

#[test]
fn an_alarm_ends_a_cohort_that_is_in_a_hurry() {
    let habit = Habit { answer: 2e7, scatter: 0.1 };
    let mut cohort = Cohort::open(Timestamp::ZERO, 0, 1_000, true, habit, Rules::ALL);
    let slow = |left| {
        let mut sample = Sample::new(Timestamp::ZERO, RTT * 10, 40, Outcome::Success);
        sample.running = left;
        sample
    };
    let point = (1..=40).rev().find_map(|left| cohort.add(&slow(left), 40));
    assert!(point.is_some(), "ten times slower than usual, in all of 40 requests");
}

/// Where so many run and take so long.
fn point(concurrency: f64, seconds: f64) -> Point {
    let mut cohort = Cohort::open(Timestamp::ZERO, 0, 1, false, Habit::default(), Rules::ALL);
    let mut sample = Sample::new(Timestamp::ZERO, Duration::from_secs_f64(seconds), 1, Outcome::Success);
    sample.running = 1;
    Point { concurrency, ..cohort.add(&sample, 1).unwrap() }
}

#[test]
fn a_shift_is_what_concurrency_does_not_explain() {
    let before = point(20.0, 0.1);
    let shift = |concurrency, seconds| before.shift(&point(concurrency, seconds));
    assert!(shift(20.0, 0.1) < 1e-9 && shift(40.0, 0.1) < 1e-9 && shift(40.0, 0.4) < 1e-9 && shift(10.0, 0.025) < 1e-9);
    assert!((shift(20.0, 0.2) - 2f64.ln()).abs() < 1e-9, "slower at the same concurrency");
    assert!((shift(40.0, 0.05) - 2f64.ln()).abs() < 1e-9, "faster with more");
    assert!((shift(10.0, 0.2) - 2f64.ln()).abs() < 1e-9, "slower with less");
    assert!((shift(40.0, 0.8) - 2f64.ln()).abs() < 1e-9, "by more than any crowd makes it");
}
