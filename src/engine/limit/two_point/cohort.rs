//! What is measured at one level of concurrency: requests that started one after the other.
//!
//! Judging each sample as it comes would favour whatever finishes first: right after a limit was raised, all samples are
//! of quick requests, and the new limit looks better than it is. So a cohort takes everybody who *started* within some
//! time, and is judged when four out of five of them have finished.
//!
//! # Those who have not
//!
//! The others are the slowest, and an arithmetic mean without them is too low: where one request in ten takes thirty times
//! as long as the rest, most of the mean is theirs. So they count too, each as if it had started halfway through the time
//! when members started. For services with a long tail that is about right; for others most of the unfinished started
//! later, and the difference stands for the time that they still need. Counting from when they really started takes the
//! rest of their time for nothing, and measured worse on mixtures of quick and slow.
//!
//! Members are told from those who ran already by how many ran when the cohort was opened. So requests that never end are
//! in nobody's mean.

use std::time::Duration;

use super::{super::Sample, point::Point};
use crate::{
    outcome::Outcome,
    time::{Timestamp, nanos},
};

#[derive(Clone, Debug)]
pub(super) struct Cohort {
    opened: Timestamp,
    /// Who starts from here on belongs to a later cohort.
    closed: Option<Timestamp>,
    wanted: u32,
    /// Whether to be done as soon as possible.
    hurry: bool,
    /// How many ran already when it was opened, and still do.
    older: u32,
    /// How many belong to it; known once it is closed.
    members: u32,
    finished: u32,
    /// How many have finished that started after it was closed.
    later: u32,
    /// How many of the finished have a round-trip time, and the sums of these times and of their squares.
    timed: u32,
    sum: f64,
    squares: f64,
    overloads: u32,
    /// How many met the limit.
    saturated: u32,
    /// Sum of the concurrency that each has seen.
    concurrency: f64,
}

/// A cohort is judged when this part of its members has finished.
const JUDGED_AT: f64 = 0.8;

impl Cohort {
    /// A cohort of who starts from now on, while `older` requests run.
    pub(super) const fn open(now: Timestamp, older: u32, wanted: u32, hurry: bool) -> Self {
        Self {
            opened: now,
            closed: None,
            wanted,
            hurry,
            older,
            members: 0,
            finished: 0,
            later: 0,
            timed: 0,
            sum: 0.0,
            squares: 0.0,
            overloads: 0,
            saturated: 0,
            concurrency: 0.0,
        }
    }

    pub(super) fn age(&self, now: Timestamp) -> Duration {
        now.since(self.opened)
    }

    /// Takes a sample of the time when at most `limit` requests ran; answers a point once it is complete.
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds are far below 2^52 here")]
    pub(super) fn add(&mut self, sample: &Sample, limit: usize) -> Option<Point> {
        if sample.start < self.opened {
            self.older = self.older.saturating_sub(1);
            return None;
        }
        if self.closed.is_some_and(|closed| sample.start >= closed) {
            // As many of the next cohort are done: whoever of this one isn't may never be.
            self.later += 1;
            return if self.later >= self.members { self.judge(sample.end) } else { None };
        }
        self.finished += 1;
        self.saturated += u32::from(sample.in_flight.max(sample.running) >= limit);
        // While a limit is rising or falling, requests leave into another crowd than they came into.
        self.concurrency += f64::midpoint(sample.in_flight as f64, sample.running as f64);
        match (sample.rtt, sample.outcome) {
            (_, Outcome::Overload) => self.overloads += 1,
            (Some(rtt), outcome) => {
                let rtt = nanos(rtt).max(1) as f64;
                // Cut short: a lower bound, which counts where it says "slower than the others".
                if outcome == Outcome::Success || rtt > self.sum / f64::from(self.timed.max(1)) {
                    self.timed += 1;
                    self.sum += rtt;
                    self.squares += rtt * rtt;
                }
            }
            (None, _) => {}
        }
        if self.closed.is_none() {
            let others = u32::try_from(sample.running.saturating_sub(1)).unwrap_or(u32::MAX);
            let members = self.finished.saturating_add(others.saturating_sub(self.older));
            // In a hurry, those who run are enough: the cohort takes one round-trip time. Otherwise it takes two, and
            // some of its members come after others, which tells more than as many at once.
            let enough = if self.hurry {
                u64::from(members) * 4 >= u64::from(self.wanted) * 5
            } else {
                self.finished >= self.wanted
            };
            if enough {
                self.closed = Some(sample.end);
                self.members = members;
            }
        }
        self.judge_if_complete(sample.end)
    }

    fn judge_if_complete(&self, now: Timestamp) -> Option<Point> {
        let complete = self.closed.is_some() && f64::from(self.finished) >= f64::from(self.members) * JUDGED_AT;
        if complete { self.judge(now) } else { None }
    }

    /// The point as far as it is known.
    #[expect(clippy::cast_precision_loss, reason = "a rounded age is as good")]
    fn judge(&self, now: Timestamp) -> Option<Point> {
        if self.finished == 0 {
            return None;
        }
        let (all, timed) = (f64::from(self.finished), f64::from(self.timed.max(1)));
        let halfway = self.opened.after(self.closed.unwrap_or(now).since(self.opened) / 2);
        let age = (nanos(now.since(halfway)) as f64).max(self.sum / timed).max(1.0);
        let unfinished = f64::from(self.members.saturating_sub(self.finished));
        let samples = timed + unfinished;
        let rtt = (self.sum + unfinished * age) / samples;
        let square = (self.squares + unfinished * age * age) / samples;
        Some(Point {
            concurrency: self.concurrency / all,
            rtt: rtt.max(1.0),
            scatter: (square / (rtt * rtt).max(1.0) - 1.0).max(0.0),
            samples,
            saturation: f64::from(self.saturated) / all,
            overloads: f64::from(self.overloads) / all,
            length: self.age(now),
            at: now,
            cohorts: 1,
        })
    }
}
