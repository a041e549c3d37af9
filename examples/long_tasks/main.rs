//! A burst of long tasks, with a short wait for many slots and with a place in line for few of them.
//!
//! ```text
//! cargo run --release --example long_tasks
//! ```
//!
//! This is an incident that was reported from a real service, at 1/100 of its times: 3,704 calls came within a minute,
//! each of them a task of about four minutes. There were 800 slots, and whoever found none waited for 30 s at most. No
//! slot came free within that time, so 2,904 were refused, all of them after a wait that had no chance. The remedy was
//! fewer slots, so that tasks don't get into each other's way, and a queue that holds a whole burst.
//!
//! Both are tried here on a tonic server on loopback, one after the other. Takes less than two minutes.

mod grpc;
mod progress;

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code,
    transport::{Channel, Endpoint, Server},
};
use tower_admission::{Admission, AdmissionLayer, BuildError, limit::Fixed};

use crate::grpc::tasks;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const CALLS: u32 = 3_704;
/// All of them come within this time.
const BURST: Duration = Duration::from_millis(600);
/// The shortest task, in milliseconds, and how much longer the longest one takes.
const SHORTEST: u32 = 2_290;
const SPREAD: u32 = 160;
const CONNECTIONS: usize = 4;
/// gRPC servers bound the calls of a connection, too: below what may run and wait, that bound would come first.
const STREAMS: u32 = 4_000;
/// A run that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> ExitCode {
    match compare().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn compare() -> Result<(), BoxError> {
    let short_wait = timeout(PATIENCE, run("short wait", short_wait()?)).await??;
    let queue = timeout(PATIENCE, run("queue", queue()?)).await??;
    println!("{CALLS} calls within {BURST:?}, each of {SHORTEST} to {} ms\n", SHORTEST + SPREAD);
    println!("{:<34}{:>12}{:>12}", "", "short wait", "queue");
    for ((name, left), (_, right)) in short_wait.rows().into_iter().zip(queue.rows()) {
        println!("{name:<34}{left:>12}{right:>12}");
    }
    println!(
        "\nTimes a hundred, the queue is drained after {:.0} minutes.",
        queue.drained.as_secs_f64() * 100.0 / 60.0
    );
    let lost = queue.refused.values().sum::<u32>();
    if lost > 0 || queue.done != CALLS {
        return Err(format!("the queue was to serve all, and lost {lost}: {:?}", queue.refused).into());
    }
    Ok(())
}

/// As it was: 800 slots, and a wait that is shorter than any task. How many wait was not bounded.
fn short_wait() -> Result<Admission, BuildError> {
    let wait = Duration::from_millis(300);
    Admission::builder().name("short wait").limit(Fixed::new(800)).max_waiting(4_000).wait_timeout(wait).build()
}

/// As it should be: as many slots as the server has use for, and a place in line for each call of a burst. Where all of
/// these are taken, waiting has no point: the gate answers soon.
fn queue() -> Result<Admission, BuildError> {
    let at_the_gate = Duration::from_millis(50);
    Admission::builder().name("queue").limit(Fixed::new(200)).queue(3_600).admission_timeout(at_the_gate).build()
}

/// What became of the calls.
struct Outcome {
    admission: Admission,
    done: u32,
    /// By reason.
    refused: BTreeMap<String, u32>,
    slowest_answer: Duration,
    slowest_refusal: Duration,
    /// From the first call to the last answer.
    drained: Duration,
}

impl Outcome {
    fn rows(&self) -> [(&'static str, String); 9] {
        let snapshot = self.admission.snapshot();
        let wait = snapshot.partitions[0].wait;
        let reasons: Vec<_> = self.refused.keys().map(String::as_str).collect();
        let seconds = |time: Duration| match time {
            Duration::ZERO => "-".to_owned(),
            some => format!("{:.1} s", some.as_secs_f64()),
        };
        [
            ("slots", snapshot.limit.to_string()),
            ("places in line", snapshot.queue.to_string()),
            ("done", self.done.to_string()),
            ("refused", self.refused.values().sum::<u32>().to_string()),
            ("  because of", if reasons.is_empty() { "-".to_owned() } else { reasons.join(", ") }),
            ("slowest answer", seconds(self.slowest_answer)),
            ("slowest refusal", seconds(self.slowest_refusal)),
            ("half of those who waited did so for", seconds(Duration::from_secs_f64(wait.p50))),
            ("drained after", seconds(self.drained)),
        ]
    }
}

async fn run(name: &str, admission: Admission) -> Result<Outcome, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut server = Server::builder().max_concurrent_streams(STREAMS).layer(AdmissionLayer::new(&admission));
    let serving = server.add_routes(tasks()).serve_with_incoming(TcpListenerStream::new(listener));
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    tokio::select! {
        outcome = burst(&endpoint, &admission) => outcome,
        served = serving => Err(format!("the server ended: {served:?}").into()),
        () = progress::watch(name, CALLS.into(), &admission) => unreachable!("it watches for ever"),
    }
}

/// Sends all calls and waits for what becomes of them.
async fn burst(endpoint: &Endpoint, admission: &Admission) -> Result<Outcome, BoxError> {
    let mut channels: Vec<Channel> = Vec::new();
    for _ in 0..CONNECTIONS {
        channels.push(endpoint.connect().await?);
    }
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for (number, channel) in (0..CALLS).zip(channels.into_iter().cycle()) {
        // Scattered over the range, and the same in each run.
        let work = Duration::from_millis((SHORTEST + number * 37 % (SPREAD + 1)).into());
        let at = start + BURST * number / CALLS;
        calls.spawn(async move {
            sleep_until(at).await;
            (grpc::call(channel, work).await, at.elapsed())
        });
    }
    let mut outcome = Outcome {
        admission: admission.clone(),
        done: 0,
        refused: BTreeMap::new(),
        slowest_answer: Duration::ZERO,
        slowest_refusal: Duration::ZERO,
        drained: Duration::ZERO,
    };
    while let Some(call) = calls.join_next().await {
        let (answer, took) = call?;
        match answer {
            Ok(()) => {
                outcome.done += 1;
                outcome.slowest_answer = outcome.slowest_answer.max(took);
            }
            Err(status) => {
                // A message of ours begins with the reason.
                let reason = match status.message().split_once(": ") {
                    Some((reason, _)) if status.code() == Code::ResourceExhausted => reason.to_owned(),
                    _ => status.to_string(),
                };
                *outcome.refused.entry(reason).or_default() += 1;
                outcome.slowest_refusal = outcome.slowest_refusal.max(took);
            }
        }
    }
    outcome.drained = start.elapsed();
    Ok(outcome)
}
