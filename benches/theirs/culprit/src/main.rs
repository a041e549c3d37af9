//! One culprit in ten thousand: a request that takes what all others need, and keeps it for seconds.
//!
//! An axum server needs a Redis through a pool of ten connections, under seven tenths of what it can do. One request in ten
//! thousand is a report that takes all ten connections, and keeps them while it waits for a slow service. That is how pools run
//! dry in practice: a connection is held across a call to something else. A lock of a table, or a mutex that is held
//! across an `await`, does the same. One request in a thousand is an export, which is as slow as it likes and harms no other request.
//!
//! Callers leave after 250 ms, but for those of reports and exports, which are patient. What no limit can do is tried in
//! `glue.rs`: to end the culprit (as in Atropos, SOSP '25). No variant is told which request that is, but for `hard cap`.
//!
//! The row `none` is the control: the same load without a culprit, and without a limit. `none, patience` is that with a limit.

mod callers;
mod glue;
mod server;

use std::time::Duration;

use load::{Counters, Plan, Role, Server, Tally, drive, most_closed};
use pool::Redis;
use tokio::time::{Instant, sleep_until, timeout};

use crate::callers::Callers;

const VARIANTS: [&str; 10] = [
    "bare",
    "tower",
    "patience",
    "hard cap",
    "time to live",
    "timeout",
    "oldest",
    "limit set",
    "limit set, timeout",
    "limit set, oldest",
];
const CONNECTIONS: u32 = 10;
/// The limit of tower's layer: twice as many as there are connections, so that each connection is used.
const TOWER: usize = 20;
/// How long a request takes Redis.
const WORK: Duration = Duration::from_millis(1);
const LOAD: f64 = 0.7;
const CULPRITS: u32 = 3;
/// How long a culprit keeps the connections, and an export takes.
const HOLD: Duration = Duration::from_secs(5);
const EXPORT: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_millis(250);
/// The bound on the time of all requests, where there is one: as long as callers wait.
const LONGEST: Duration = DEADLINE;
/// How long callers of exports wait, and callers of reports after the load has ended.
const PATIENT: Duration = Duration::from_secs(30);

/// What is the same for all rows.
#[derive(Clone, Copy, Debug)]
struct Run {
    plan: Plan,
    times: u32,
    /// Between two culprits.
    gap: Duration,
    /// How long each keeps the connections.
    hold: Duration,
    exports_in: f64,
}

/// What became of the requests of a run.
#[derive(Clone, Debug)]
struct Ended {
    others: Tally,
    counters: Counters,
    /// Requests that were sent, served, and ended by the server: of culprits, of exports and of others.
    counts: [[u64; 3]; 3],
}

/// Requests per second that the server answers where no more come than it has connections.
async fn capacity(times: u32, length: Duration) -> f64 {
    let redis = Redis::start().await;
    let server = Server::start(&format!("bare:{}:{times}:0", redis.port)).await;
    let callers = Callers::new(server.address);
    let per_second = most_closed(u64::from(CONNECTIONS), 5, length, move |_| callers.clone().call("/common")).await;
    server.stop().await;
    redis.stop().await;
    per_second
}

impl Run {
    /// 30,000 requests and a culprit for each 10,000, or a tenth of each where it is to be quick.
    fn new(capacity: f64, times: u32, quick: bool) -> Self {
        let tenth = if quick { 10 } else { 1 };
        let gap = Duration::from_secs_f64(10_000.0 / (LOAD * capacity)) / tenth;
        let plan = Plan { length: gap * CULPRITS, ..Plan::new(capacity, DEADLINE, quick) };
        Self { plan, times, gap, hold: HOLD / tenth, exports_in: 1_000.0 / f64::from(tenth) }
    }

    async fn run(&self, variant: &str, culprits: u32) -> Ended {
        let redis = Redis::start().await;
        let words = format!("{variant}:{}:{}:{}", redis.port, self.times, self.hold.as_millis());
        let server = Server::start(&words).await;
        let (callers, begin) = (Callers::new(server.address), Instant::now());
        let (patient, exporters) = (callers.others(), callers.others());
        let (gap, warm_up) = (self.gap, self.plan.warm_up);
        let caller = patient.clone();
        let reports = tokio::spawn(async move {
            for number in 0..culprits {
                sleep_until(begin + warm_up + gap * number + gap / 2).await;
                caller.clone().insist("/report").await;
            }
        });
        let plan = Plan { capacity: self.plan.capacity / self.exports_in, deadline: PATIENT, ..self.plan };
        let exports = drive(&plan, LOAD, |_| exporters.clone().insist("/export"));
        let others = drive(&self.plan, LOAD, |_| callers.clone().call("/common"));
        let (others, _) = tokio::join!(others, exports);
        // A server that has not recovered refuses them still.
        let _ = timeout(PATIENT, reports).await;
        let counters = server.stop().await;
        redis.stop().await;
        Ended { others, counters, counts: [patient, exporters, callers].map(|callers| callers.counts()) }
    }
}

fn header() -> String {
    let names = "variant | offered/s | in time/s | of the control | refused/s | late or failed/s | culprits served, ended | exports served, ended | \
                 others ended | p50 | p99 | most at once | memory";
    format!("| {names} |\n|---|{}", "---:|".repeat(12))
}

/// One line, and how many requests were in time in a second.
#[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn row(variant: &str, ended: &Ended, control: Option<f64>) -> (String, f64) {
    let Ended { others, counters, counts: [[_, done, stopped], exports, all_others] } = ended;
    let per_second = |count: u64| count as f64 / others.seconds;
    let percent = |part: u64, all: u64| part as f64 / all.max(1) as f64 * 100.0;
    let time = |percent| others.percentile(percent).map_or("–".to_owned(), |time| format!("{} ms", time.as_millis()));
    let (offered, in_time) = (per_second(others.offered), per_second(others.in_time.len() as u64));
    let of_control = in_time / control.unwrap_or(in_time) * 100.0;
    let (refused, late, p50, p99) = (per_second(others.refused), per_second(others.late), time(50), time(99));
    let (exported, cut) = (exports[1], exports[2]);
    let of_others = percent(all_others[2], all_others[0]);
    let Counters { most, memory, .. } = counters;
    let line = format!(
        "| {variant} | {offered:.0} | {in_time:.0} | {of_control:.1} % | {refused:.0} | {late:.0} | {done}, {stopped} | \
         {exported}, {cut} | {of_others:.2} % | {p50} | {p99} | {most} | {memory} MB |"
    );
    (line, in_time)
}

async fn table(quick: bool, only: &str) {
    let times = Redis::times(WORK).await;
    let capacity = capacity(times, Duration::from_millis(if quick { 500 } else { 2_000 })).await;
    assert!(capacity > 0.0, "a request was answered");
    let run = Run::new(capacity, times, quick);
    println!("Capacity: {capacity:.0} requests/s; a culprit every {:.1} s.\n\n{}", run.gap.as_secs_f64(), header());
    let (line, control) = row("none", &run.run("bare", 0).await, None);
    println!("{line}");
    println!("{}", row("none, patience", &run.run("patience", 0).await, Some(control)).0);
    for variant in VARIANTS.into_iter().filter(|variant| variant.contains(only)) {
        println!("{}", row(variant, &run.run(variant, CULPRITS).await, Some(control)).0);
    }
}

#[tokio::main]
async fn main() {
    match Role::of_this_process() {
        Role::Serve(words) => server::be_server(&words).await,
        Role::Table { quick, only } => table(quick, &only).await,
    }
}
