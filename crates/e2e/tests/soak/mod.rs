//! An axum and a tonic server in a process of their own, under changing load and faults, for as long as `SOAK` says:
//!
//! ```sh
//! SOAK=1h cargo test --workspace --all-features --test e2e memory_does_not_grow -- --ignored --nocapture
//! ```
//!
//! Without it the run takes a few seconds. The load comes in rounds. After each round the clients are gone, and what the
//! server then still has is compared with what it had at first: slots, waiters, tasks, descriptors, keys in Redis. Over
//! all rounds its memory may not grow.
mod clients;
mod figures;
mod grpc;
mod process;
mod server;

use std::time::Duration;

pub(crate) use admission_testkit::{bounded, eventually, ms};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tower_admission::store::Keys;

use self::{
    clients::{Clients, Tally},
    figures::{AtRest, Figures},
    process::Server,
};
use crate::redis::support::{server as redis, server::Server as Redis};

pub(crate) fn keys() -> Keys {
    Keys::new("soak").unwrap()
}

/// How long, and in which pieces.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u32,
    round: Duration,
    /// How long what is left after a round may take to go.
    patience: Duration,
}

impl Plan {
    const PATIENCE: Duration = Duration::from_secs(10);

    /// What `SOAK` asks for, such as `90s`, `2m` or `1h`.
    fn asked() -> Self {
        match std::env::var("SOAK") {
            Ok(text) if text.ends_with(['s', 'm', 'h']) => Self::of(seconds(&text).expect("SOAK is a time such as 2m")),
            // The tests of Redis know `SOAK=1`, which is no time.
            _ => Self { rounds: 3, round: ms(1_500), patience: Self::PATIENCE },
        }
    }

    fn of(seconds: u32) -> Self {
        let round = (seconds / 12).clamp(2, 60);
        Self { rounds: (seconds / round).max(3), round: Duration::from_secs(round.into()), patience: Self::PATIENCE }
    }
}

fn seconds(text: &str) -> Option<u32> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(unit)
}

/// One run against a server that makes the `mistake`.
async fn run(plan: Plan, mistake: &str) -> (Figures, Tally) {
    let mut redis = Redis::start().await;
    let mut server = Server::start(&redis.url(), mistake).await;
    let mut clients = Clients::new(server.web, server.grpc);
    let mut figures = Figures::default();
    let begin = Instant::now();
    for round in 0..plan.rounds {
        // A quarter of a round each of plain load, other settings, no store for a while, and a server that is replaced.
        let (quarter, low, high) = (plan.round / 4, 20, if round % 3 == 2 { 500 } else { 200 });
        clients.load(quarter, low, high).await;
        server.order("reload").await;
        clients.load(quarter, high, high).await;
        redis.kill();
        clients.load(quarter / 2, high, low).await;
        redis.restart().await;
        clients.load(quarter / 2, low, high).await;
        // The last load meets the new server while the old one still serves what it has.
        let replaced = server.order("replace");
        tokio::join!(replaced, clients.load(quarter, high, low));
        let busy = server.memory();
        clients.leave().await;
        let at_rest = settled(&mut server, &redis, figures.first(), plan.patience).await;
        figures.add(begin.elapsed(), at_rest, busy);
        println!("{}", figures.last_row());
    }
    let tally = clients.tally();
    server.ends_well().await;
    (figures, tally)
}

/// What the server has once its clients are gone: as soon as it has no more than `first`, or after a while.
async fn settled(server: &mut Server, redis: &Redis, first: Option<AtRest>, patience: Duration) -> AtRest {
    // Leases that were lost with the store expire within half a second; so do those of a server that was replaced.
    let settle = Instant::now() + ms(if first.is_none() { 2_000 } else { 500 });
    let deadline = settle + patience;
    loop {
        let now = server.at_rest(redis).await;
        let enough = first.map_or_else(|| now.is_free(), |first| now.is_free() && now.exceeds(&first).is_empty());
        if (enough && Instant::now() > settle) || Instant::now() > deadline {
            return now;
        }
        sleep(ms(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn nothing_is_left_and_memory_does_not_grow() {
    let plan = Plan::asked();
    println!("{} rounds of {:?}\n{}", plan.rounds, plan.round, Figures::HEAD);
    let (figures, tally) = run(plan, "none").await;
    println!("{tally}\n{}", figures.summary());
    assert_eq!(figures.problems(), Vec::<String>::new());
    assert!(figures.store_was_used() && tally.each_happened(), "a part of the load did not come: {tally}");
}

/// The control: a server that keeps something is found out, by the figure that it is about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: `.ci/test` runs it with nothing beside it"]
async fn a_server_that_keeps_something_is_found_out() {
    let mistakes =
        [("slot", "slots"), ("task", "tasks"), ("socket", "descriptors"), ("memory", "memory"), ("key", "keys")];
    let plan = Plan { rounds: 3, round: ms(1_000), patience: ms(2_000) };
    let runs = join_all(mistakes.map(|(mistake, _)| run(plan, mistake))).await;
    for ((mistake, word), (figures, _)) in mistakes.into_iter().zip(runs) {
        let problems = figures.problems();
        println!("{mistake}: {problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with(word)), "{mistake}: {problems:?}");
    }
}

#[test]
fn times_are_read() {
    assert_eq!(["90s", "2m", "1h", "2", "h", "xm"].map(seconds), [Some(90), Some(120), Some(3_600), None, None, None]);
    let Plan { rounds, round, .. } = Plan::of(3_600);
    assert_eq!((rounds, round), (60, Duration::from_secs(60)));
}
