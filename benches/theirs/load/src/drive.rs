//! Calls that arrive by a clock, whatever became of those before them.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered before its caller gave up, by so many units of work.
    InTime(u64),
    /// The server said that it does not want it.
    Refused,
    /// Its caller gave up.
    Late,
    /// It ended in another way, such as by a connection that was closed.
    Failed,
}

/// What is the same for all runs of a table.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Units of work that the server can do in a second.
    pub capacity: f64,
    /// Units of work of a call, on average.
    pub work: f64,
    /// How long a caller waits.
    pub deadline: Duration,
    /// Calls that arrive before it are sent, but do not count, except as work.
    pub warm_up: Duration,
    /// How long calls arrive after that.
    pub length: Duration,
}

impl Plan {
    /// 2 s and 10 s, or 0.5 s and 1.5 s where it is to be quick; 12 s and 10 s with `--settled`.
    #[must_use]
    pub fn new(capacity: f64, deadline: Duration, quick: bool) -> Self {
        let settled = std::env::args().any(|word| word == crate::SETTLED);
        let [warm_up, length] = match (quick, settled) {
            (true, _) => [500, 1_500],
            (false, false) => [2_000, 10_000],
            (false, true) => [12_000, 10_000],
        };
        let [warm_up, length] = [warm_up, length].map(Duration::from_millis);
        Self { capacity, work: 1.0, deadline, warm_up, length }
    }
}

/// What became of the calls of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls that were sent after the warm-up.
    pub offered: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those whose caller gave up, or that failed.
    pub late: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The times in microseconds of those in time, in ascending order.
    pub in_time: Vec<u64>,
    /// The work of those in time.
    pub work: u64,
    /// The same, with calls of the warm-up.
    pub all_work: u64,
    /// How long calls were sent after the warm-up: longer than was planned where the callers did not keep up.
    pub seconds: f64,
}

impl Tally {
    /// The time that so many percent of the calls in time did not exceed.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let place = (self.in_time.len() * percent).div_ceil(100).saturating_sub(1);
        self.in_time.get(place).copied().map(Duration::from_micros)
    }

    fn count(&mut self, counts: bool, outcome: Outcome, took: Duration) {
        if let Outcome::InTime(work) = outcome {
            self.all_work += work;
        }
        if !counts {
            return;
        }
        self.offered += 1;
        match outcome {
            Outcome::InTime(work) => {
                self.work += work;
                self.in_time.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            }
            Outcome::Refused => self.refused += 1,
            Outcome::Late => self.late += 1,
            Outcome::Failed => {
                self.late += 1;
                self.failed += 1;
            }
        }
    }
}

/// Sends calls at `load` times the capacity, with exponential gaps, and waits for the end of the last.
///
/// The time of a call runs from when it should have been sent. A caller that gives up drops the future of its call.
pub async fn drive<F, FF>(plan: &Plan, load: f64, call: F) -> Tally
where
    F: Fn(u64) -> FF,
    FF: Future<Output = Outcome> + Send + 'static,
{
    let mut chance = fastrand::Rng::with_seed(43);
    let mean = plan.work / (load * plan.capacity);
    let (mut tally, mut calls) = (Tally::default(), JoinSet::new());
    let begin = Instant::now() + Duration::from_millis(20);
    let mut at = Duration::ZERO;
    for number in 0.. {
        at += Duration::from_secs_f64(-(1.0 - chance.f64()).ln() * mean);
        if at >= plan.warm_up + plan.length {
            break;
        }
        let (scheduled, counts, deadline) = (begin + at, at >= plan.warm_up, plan.deadline);
        sleep_until(scheduled).await;
        let call = call(number);
        calls.spawn(async move {
            let outcome = timeout_at(scheduled + deadline, call).await.unwrap_or(Outcome::Late);
            let took = scheduled.elapsed();
            // Of an answer and an alarm that were both missed, the answer is seen first.
            (counts, if took > deadline && outcome != Outcome::Failed { Outcome::Late } else { outcome }, took)
        });
        while let Some(ended) = calls.try_join_next() {
            let (counts, outcome, took) = ended.expect("a call does not panic");
            tally.count(counts, outcome, took);
        }
    }
    tally.seconds = (begin.elapsed().max(plan.warm_up + plan.length) - plan.warm_up).as_secs_f64();
    while let Some(ended) = calls.join_next().await {
        let (counts, outcome, took) = ended.expect("a call does not panic");
        tally.count(counts, outcome, took);
    }
    tally.in_time.sort_unstable();
    tally
}

/// Work per second of so many callers, each of which calls again once it was answered: what a server can do.
pub async fn closed<F, FF>(callers: u64, length: Duration, call: F) -> f64
where
    F: Fn(u64) -> FF + Clone + Send + 'static,
    FF: Future<Output = Outcome> + Send + 'static,
{
    let begin = Instant::now();
    let loops = (0..callers).map(|caller| {
        let call = call.clone();
        async move {
            let (mut work, mut number) = (0, caller);
            while begin.elapsed() < length {
                if let Outcome::InTime(done) = call(number).await {
                    work += done;
                }
                number += callers;
            }
            work
        }
    });
    let work: u64 = loops.collect::<JoinSet<_>>().join_all().await.into_iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "counts of some millions")]
    let work = work as f64;
    work / begin.elapsed().as_secs_f64()
}

/// The same for several times in a row: the most of them, since what else the machine does can only take from it.
pub async fn most_closed<F, FF>(callers: u64, times: u64, length: Duration, call: F) -> f64
where
    F: Fn(u64) -> FF + Clone + Send + 'static,
    FF: Future<Output = Outcome> + Send + 'static,
{
    let mut most = 0.0_f64;
    for _ in 0..times {
        most = most.max(closed(callers, length, call.clone()).await);
    }
    most
}
