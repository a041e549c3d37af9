//! What is measured at one level of concurrency: requests that started one after the other.
//!
//! Judging each sample as it comes would favour the requests that finish first: right after a limit was raised, all samples are of quick
//! requests, and the new limit looks better than it is. So a cohort takes all requests that *started* within some time, and is judged when
//! four out of five of them have finished.
//!
//! # Requests that have not finished
//!
//! An arithmetic mean without them is too low: where one request in ten takes thirty times as long as the rest, most of the mean comes from
//! those. So unfinished requests count too, by what is known of their times. For how long they have run is known, all together: each sample
//! says how many members ran since the last one, and takes its own time with it. How long they go on is not known. Where all requests take
//! about the same time, they end when they have run for that long; where times are exponential, they go on for a mean time, however long
//! they have run. In between their relative variance says how much of it, and where some requests take much longer than most, it says more
//! than a mean. Where requests scatter much, that variance is the largest of late: the members that have finished are the short ones, and
//! scatter less than all. Where a tenth of all requests take ten times as long as the rest, they would say that no long ones exist. Two
//! exceptions: a cohort that is closed by an alarm keeps its own variance, because the server is changing, and no request takes longer
//! than callers wait.
//!
//! To guess when they started instead, from the time for which members started, feeds on itself: one request of two that run, taken for as
//! old as half of a cohort, is a slow one; for slow ones a cohort takes longer, and the next one looks older. On a pool that had its
//! workers back a limit of two slots stayed for half a minute, with 15 to 40 % of the requests answered where all could have been.
//!
//! # Requests that were cut short
//!
//! A request whose client gave up took its slot and brought nothing. So what counts is the time of a slot that one *answer* takes: where
//! all clients give up at the same deadline all round-trip times are equal, and only the answers show that a limit is too high. A client
//! that gave up sooner than an answer usually comes doesn't count at all: that is impatience, not load.
//!
//! The number of requests that ran when the cohort was opened tells its members from those requests. So requests that never end are in no
//! mean.

use std::time::Duration;

use super::{
    super::Sample,
    point::{ENOUGH_TO_DROWN, FEW_ANSWERS, PLAIN_ERRORS, Point},
    rules::{Rule, Rules},
};
use crate::{Outcome, Timestamp, nanos};

#[derive(Clone, Debug, Default)]
pub(super) struct Cohort {
    opened: Timestamp,
    /// Time from which on requests belong to a later cohort.
    closed: Option<Timestamp>,
    wanted: u32,
    /// Whether to be done as soon as possible.
    hurry: bool,
    /// Requests that ran already when the cohort was opened, and still do.
    older: u32,
    /// Requests that belong to the cohort; known once it is closed.
    members: u32,
    finished: u32,
    /// Finished requests that started after the cohort was closed.
    later: u32,
    /// For how many nanoseconds the members that run have run, all together, and how many these are, at the time of a sample.
    ages: f64,
    running: u32,
    heard: Timestamp,
    /// Finished requests with a round-trip time, and the sums of these times and of their squares.
    timed: u32,
    /// Requests of these that were answered, and the sum of their times.
    answered: u32,
    answers: f64,
    /// Requests that were not answered within this time.
    late: u32,
    /// Nanoseconds for which callers wait; infinite while that is not known.
    pub(super) patience: f64,
    /// How much requests scattered of late, where that was much.
    pub(super) known_scatter: f64,
    /// Mean round-trip time of the requests that were answered, in the cohorts before this one; 0 while there were none.
    usual: f64,
    rules: Rules,
    sum: f64,
    squares: f64,
    overloads: u32,
    /// Requests that met the limit.
    saturated: u32,
    /// Requests before whose end others were refused while slots were free.
    refused: u32,
    /// Sum of the concurrency that each request has seen.
    concurrency: f64,
    /// Sum of the requests of these that were sampled before.
    answering: f64,
}

/// A mean this many times slower than usual is plain to see with few samples: the cohort doesn't wait for more.
const ALARM: f64 = 2.0;
const ENOUGH_FOR_ALARM: u32 = 12;
/// Where next to none stay, this many times the wanted requests are enough.
const NEXT_TO_NONE: u32 = 64;
/// A cohort is judged when this part of its members has finished.
const JUDGED_AT: f64 = 0.8;
/// A request that was not answered within this part of the time for which callers wait took it all, but for its wait in line.
const LATE_FROM: f64 = 0.75;

impl Cohort {
    /// Opens a cohort of the requests that start from now on, while `older` requests run.
    pub(super) fn open(now: Timestamp, older: u32, wanted: u32, hurry: bool, usual: f64, rules: Rules) -> Self {
        let patience = f64::INFINITY;
        Self { opened: now, heard: now, wanted, hurry, older, patience, usual, rules, ..Self::default() }
    }

    /// Takes a sample of the time when at most `limit` requests ran; returns a point once the cohort is complete.
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds are far below 2^52 here")]
    pub(super) fn add(&mut self, sample: &Sample, limit: usize) -> Option<Point> {
        let is_older = sample.start < self.opened;
        let is_later = self.closed.is_some_and(|closed| sample.start >= closed);
        // Requests that were not timed started before the cohort was opened.
        self.older = self.older.saturating_sub(sample.weight.saturating_sub(1) + u32::from(is_older));
        self.grow_older(sample, !is_older && !is_later);
        if is_older {
            return None;
        }
        if is_later {
            // As many of the next cohort are done: an unfinished request of this cohort may never end.
            self.later += 1;
            return if self.later >= self.members { self.judge(sample.end) } else { None };
        }
        self.finished += 1;
        self.saturated += u32::from(sample.in_flight.max(sample.running) >= limit);
        self.refused += u32::from(sample.refused && self.rules.has(Rule::Refused));
        // While a limit is rising or falling, requests leave into another crowd than they came into.
        self.concurrency += f64::midpoint(sample.in_flight as f64, sample.running as f64);
        self.answering += sample.answering as f64;
        match (sample.rtt, sample.outcome) {
            (_, Outcome::Overload) => self.overloads += 1,
            (Some(rtt), outcome) => {
                let rtt = nanos(rtt).max(1) as f64;
                let answered = outcome == Outcome::Success;
                if answered {
                    self.answered += 1;
                    self.answers += rtt;
                }
                self.late += u32::from(!answered && rtt >= LATE_FROM * self.patience);
                // A request that was cut short counts where an answer would have come by then. It says nothing where
                // the client was impatient.
                let is_impatient = self.usual <= 0.0 || rtt < self.usual;
                if answered || !is_impatient || !self.rules.has(Rule::Impatience) {
                    self.timed += 1;
                    self.sum += rtt;
                    self.squares += rtt * rtt;
                }
            }
            (None, _) => {}
        }
        if self.closed.is_none() {
            let members = self.finished.saturating_add(self.running);
            // In a hurry, the running requests are enough: the cohort takes one round-trip time. Otherwise it takes
            // two, and some of its members come after others, which tells more than as many at once.
            let enough = if self.hurry {
                u64::from(members) * 4 >= u64::from(self.wanted) * 5
            } else {
                let stayed = ((self.timed + self.overloads) * 4).max(self.finished / NEXT_TO_NONE);
                self.finished.min(stayed) >= self.wanted
            };
            let is_alarm = !enough && self.is_alarming();
            if is_alarm {
                self.known_scatter = 0.0;
            }
            if enough || is_alarm {
                self.closed = Some(sample.end);
                self.members = members;
            }
        }
        self.judge_if_complete(sample.end)
    }

    /// Counts the time since the last sample for each member that ran, and takes out the time of a member that ended.
    fn grow_older(&mut self, sample: &Sample, is_member: bool) {
        let ended = u32::from(is_member);
        let running = match self.closed {
            Some(_) => self.members.saturating_sub(self.finished).saturating_sub(ended),
            None => others_of(sample).saturating_sub(self.older),
        };
        // Some of them started in between.
        let about = f64::midpoint(f64::from(self.running), f64::from(running) + f64::from(ended));
        self.ages += nanos_f64(sample.end.since(self.heard)) * about;
        if is_member {
            self.ages -= nanos_f64(sample.end.since(sample.start));
        }
        if running == 0 || self.ages < 0.0 {
            self.ages = 0.0;
        }
        (self.running, self.heard) = (running, sample.end);
    }

    fn judge_if_complete(&self, now: Timestamp) -> Option<Point> {
        // Where callers leave early, those that stay are waited for; not for ever, should next to none stay.
        let says_something = self.timed + self.overloads > 0;
        let complete =
            says_something && self.closed.is_some() && f64::from(self.finished) >= f64::from(self.members) * JUDGED_AT;
        if complete || self.is_drowning() { self.judge(now) } else { None }
    }

    /// Whether so few of the finished requests were answered that the others don't have to be waited for: each of them
    /// takes as long as its client has patience.
    fn is_drowning(&self) -> bool {
        self.timed >= ENOUGH_TO_DROWN && f64::from(self.answered) < FEW_ANSWERS * f64::from(self.timed)
    }

    /// Whether the cohort is so much slower than usual that it takes no more samples to see that: by two standard errors of a
    /// usual mean. By those of its own mean, which are larger, single pools of two workers lose two points.
    fn is_alarming(&self) -> bool {
        if self.usual <= 0.0 || self.timed < ENOUGH_FOR_ALARM || !self.rules.has(Rule::Alarm) {
            return false;
        }
        let timed = f64::from(self.timed);
        let excess = self.sum / timed / self.usual - ALARM;
        excess > 0.0 && excess * excess * timed > PLAIN_ERRORS * PLAIN_ERRORS * self.scatter()
    }

    /// Returns the relative variance of the requests with a round-trip time.
    fn scatter(&self) -> f64 {
        (self.squares * f64::from(self.timed) / (self.sum * self.sum).max(1.0) - 1.0).max(0.0)
    }

    /// Returns how long the unfinished requests take, about, at most for as long as callers wait; the `mean` is that of the finished ones.
    fn rest(&self, mean: f64, unfinished: f64) -> f64 {
        let goes_on = mean * self.scatter().max(self.known_scatter);
        ((self.ages / unfinished.max(1.0)).max(mean) + goes_on).min(self.patience.max(mean))
    }

    /// Returns the point as far as it is known.
    fn judge(&self, now: Timestamp) -> Option<Point> {
        if self.finished == 0 {
            return None;
        }
        let (all, timed) = (f64::from(self.finished), f64::from(self.timed.max(1)));
        let answered = f64::from(self.answered.max(1));
        let unfinished = f64::from(self.members.saturating_sub(self.finished));
        let unfinished = if self.rules.has(Rule::Guess) { unfinished } else { 0.0 };
        let time = self.rest(self.sum / timed, unfinished).max(1.0);
        let samples = timed + unfinished;
        let rtt = (self.sum + unfinished * time) / samples;
        let square = (self.squares + unfinished * time * time) / samples;
        Some(Point {
            concurrency: (self.concurrency - self.answering).max(all) / all,
            counted: self.concurrency / all,
            rtt: rtt.max(1.0) * timed / answered,
            pace: rtt.max(1.0),
            answer: self.answers / answered,
            answered: f64::from(self.answered) / timed,
            late: f64::from(self.late) / timed,
            finished: self.timed,
            at_least: self.sum / answered,
            scatter: (square / (rtt * rtt).max(1.0) - 1.0).max(0.0),
            samples,
            saturation: f64::from(self.saturated) / all,
            refused: f64::from(self.refused) / all,
            overloads: f64::from(self.overloads) / all,
            length: now.since(self.opened),
            at: now,
            cohorts: 1,
        })
    }
}

/// Returns how many other requests run that were not sampled yet.
pub(super) fn others_of(sample: &Sample) -> u32 {
    u32::try_from(sample.running.saturating_sub(sample.answering).saturating_sub(1)).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a rounded time is as good")]
pub(super) fn nanos_f64(time: Duration) -> f64 {
    nanos(time) as f64
}
