//! One limit for all instances: a real Redis, one and three real servers behind it, and how many requests they run together.
//!
//! ```text
//! cargo run --release --example cluster --features redis
//! ```
//!
//! Starts a `redis-server` of its own on a free port, and instances of a server as processes of their own: this program,
//! started again. Each instance runs at most 30 requests of a tenant. Counted by each, three of them run 90; counted in the
//! store, 30. The witness is this process, which every handler tells when it begins and when it ends. Takes some seconds,
//! and ends everything that it has started.

mod instance;
mod processes;
mod witness;

use std::{process::ExitCode, time::Duration};

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    processes::{Instance, Redis},
    witness::Witness,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What each instance lets one tenant run at once, or all of them together.
const CAP: u32 = 30;
/// How many requests a burst has for each instance: more than it may run.
const BURST: usize = 60;
/// A run that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let role = std::env::args().nth(1);
    let done = match role.as_deref() {
        None => compare().await,
        Some("instance") => instance::serve(std::env::args().skip(2)).await,
        Some(other) => Err(format!("{other}: there is no such role").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn compare() -> Result<(), BoxError> {
    let redis = timeout(PATIENCE, Redis::start()).await??;
    println!("redis-server on port {}; a cap of {CAP} requests of one tenant\n", redis.port());
    println!("{:<42} {:>8} {:>10} {:>8}", "", "requests", "at once", "failed");
    let mut as_expected = true;
    // All of the cap is used, unless this machine is too busy to start so many requests within half a second.
    let (within, beyond) = (1..=u64::from(CAP), u64::from(CAP) + 1..=u64::from(3 * CAP));
    for (what, instances, shared, expected) in [
        ("1 instance", 1, true, &within),
        ("3 instances, each counts by itself", 3, false, &beyond),
        ("3 instances, counted together in the store", 3, true, &within),
    ] {
        let (requests, peak, failed) = timeout(PATIENCE, burst(&redis, instances, shared)).await??;
        println!("{what:<42} {requests:>8} {peak:>10} {failed:>8}");
        as_expected &= expected.contains(&peak) && failed == 0;
    }
    redis.end().await?;
    if as_expected { Ok(()) } else { Err("not what was to be expected".into()) }
}

/// A burst of requests of one tenant over some instances: how many there were, how many ran at once, how many failed.
async fn burst(redis: &Redis, count: usize, shared: bool) -> Result<(usize, u64, usize), BoxError> {
    let witness = Witness::start().await?;
    let mut instances = Vec::new();
    for _ in 0..count {
        instances.push(Instance::start(redis.port(), witness.port(), shared).await?);
    }
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut answers = JoinSet::new();
    for number in 0..BURST * count {
        let url = format!("http://127.0.0.1:{}/work", instances[number % count].port());
        // Another one for each run: what a killed instance had not given back is taken back only when it expires.
        let tenant = format!("acme-{count}-{shared}");
        let request = http::Request::get(url).header("x-tenant", tenant).body(Empty::new())?;
        answers.spawn(client.request(request));
    }
    let mut failed = 0;
    while let Some(answer) = answers.join_next().await {
        let answer = answer?;
        failed += usize::from(!answer.is_ok_and(|answer| answer.status().is_success()));
    }
    for instance in instances {
        instance.end().await?;
    }
    Ok((BURST * count, witness.peak(), failed))
}
