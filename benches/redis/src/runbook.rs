//! The runbook: two runs per tenant at once, a hundred starts of one tenant at the same time.
//!
//! Four processes (here: four clients with a connection each) take a quarter of the starts. A start that is admitted
//! runs for a while and then frees its place.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::aio::MultiplexedConnection;
use tokio::{
    sync::Barrier,
    time::{Instant, sleep},
};
use tower_admission::store::{AdmissionLock, Claim, Claims, Leases, LockCaller, LockRetry, LeaseDenied};

use crate::{
    server::Server,
    table::{head, millis, quantile, row},
};

const PROCESSES: usize = 4;
const CAP: u32 = 2;
const RUN: Duration = Duration::from_millis(100);

/// How often a client tries.
const TRIES: u32 = 5;

#[derive(Clone, Copy)]
enum Client {
    /// Takes the first answer.
    Once,
    /// Comes back after the same time.
    Fixed,
    /// Comes back after times that double, cut at random.
    Jittered,
}

impl Client {
    const fn name(self) -> &'static str {
        match self {
            Self::Once => "none",
            Self::Fixed => "fixed 100 ms",
            Self::Jittered => "jittered",
        }
    }

    fn pause(self, tries: u32) -> Option<Duration> {
        match self {
            Self::Once => None,
            _ if tries >= TRIES => None,
            Self::Fixed => Some(RUN),
            Self::Jittered => Some(RUN.mul_f64(f64::from(1 << tries) * (0.5 + fastrand::f64() * 0.5))),
        }
    }
}

#[derive(Clone, Copy)]
enum Gate {
    Lock(&'static str, LockRetry),
    Lease,
}

impl Gate {
    const fn name(self) -> &'static str {
        match self {
            Self::Lock(name, _) => name,
            Self::Lease => "lease, no lock",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Ok,
    TooMany,
    Unavailable,
}

/// One process of the service.
#[derive(Clone)]
struct Process {
    gate: Entry,
    connection: MultiplexedConnection,
}

#[derive(Clone)]
enum Entry {
    Lock(AdmissionLock),
    Lease(Leases, Claims),
}

#[derive(Default)]
struct Tally {
    times: Vec<Duration>,
    statuses: [u64; 3],
    successes: [u64; PROCESSES],
    commands: u64,
}

pub async fn run(server: &Server) {
    println!(
        "\n## Runbook\n\nCap {CAP}, runs of {} ms, {PROCESSES} processes, clients try {TRIES} times at most\n",
        RUN.as_millis()
    );
    head(&["gate", "client retry", "starts", "p50", "p95", "200", "429", "503", "requests per try", "fairness"]);
    let ms = Duration::from_millis;
    let gates = [
        Gate::Lock("lock, fixed 10 ms", LockRetry::Fixed(ms(10))),
        Gate::Lock("lock, jittered", LockRetry::default()),
        Gate::Lock("lock, queue-fair", LockRetry::Queue { first: ms(5), longest: ms(100) }),
        Gate::Lease,
    ];
    for starts in [100, 1_000] {
        for client in [Client::Once, Client::Fixed, Client::Jittered] {
            for gate in gates {
                if let Some(only) = std::env::args().nth(2)
                    && !format!("{starts} {} {}", client.name(), gate.name()).contains(&only)
                {
                    continue;
                }
                measure(server, gate, client, starts).await;
            }
        }
    }
}

async fn measure(server: &Server, gate: Gate, client: Client, starts: usize) {
    let rounds = if starts > 100 { 2 } else { 10 };
    let mut tally = Tally::default();
    for _ in 0..rounds {
        burst(server, gate, client, starts, &mut tally).await;
    }
    let attempts: u64 = tally.statuses.iter().sum();
    let share = |status: Status| format!("{:.1} %", 100.0 * tally.statuses[status as usize] as f64 / attempts as f64);
    // Jain's index: 1 if all processes had the same success, 1/4 if one of them had all of it.
    let (sum, squares) = tally.successes.iter().fold((0.0, 0.0), |(sum, squares), &one| {
        let one = one as f64;
        (sum + one, squares + one * one)
    });
    row(&[
        gate.name().to_owned(),
        client.name().to_owned(),
        starts.to_string(),
        millis(quantile(&mut tally.times, 50)),
        millis(quantile(&mut tally.times, 95)),
        share(Status::Ok),
        share(Status::TooMany),
        share(Status::Unavailable),
        format!("{:.1}", tally.commands as f64 / attempts as f64),
        format!("{:.2}", sum * sum / (PROCESSES as f64 * squares)),
    ]);
}

async fn burst(server: &Server, gate: Gate, client: Client, starts: usize, tally: &mut Tally) {
    let mut connection = server.connect().await;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("an answer");
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let store = Arc::new(server.store());
        let gate = match gate {
            Gate::Lock(_, retry) => Entry::Lock(AdmissionLock::builder().retry(retry).build(store, Server::keys())),
            Gate::Lease => {
                let cap = NonZeroU32::new(CAP).expect("not zero");
                let claim = Claim::cap(Server::keys().cap("acme", "label", "runs"), cap);
                Entry::Lease(Leases::builder().build(store), Claims::new(vec![claim]).expect("one claim"))
            }
        };
        let process = Process { gate, connection: server.connect().await };
        // Connected before it counts.
        process.start(true).await;
        processes.push(process);
    }
    sleep(RUN * 2).await;
    let before: u64 = processes.iter().map(Process::commands).sum();
    let asked = Arc::new(AtomicU64::new(0));
    let together = Arc::new(Barrier::new(starts));
    // Which process comes first is left to chance.
    let first = fastrand::usize(..PROCESSES);
    let callers: Vec<_> = (0..starts)
        .map(|index| {
            let at = (first + index) % PROCESSES;
            let process = processes[at].clone();
            let (together, asked) = (Arc::clone(&together), Arc::clone(&asked));
            tokio::spawn(async move {
                together.wait().await;
                let mut answers = Vec::new();
                let mut tries = 0;
                loop {
                    let began = Instant::now();
                    asked.fetch_add(1, Ordering::Relaxed);
                    let status = process.start(false).await;
                    answers.push((began.elapsed(), status));
                    tries += 1;
                    match client.pause(tries).filter(|_| status != Status::Ok) {
                        Some(pause) => sleep(pause).await,
                        None => return (at, answers),
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        let (process, answers) = caller.await.expect("no task fails");
        for (time, status) in answers {
            tally.times.push(time);
            tally.statuses[status as usize] += 1;
            tally.successes[process] += u64::from(status == Status::Ok);
        }
    }
    let after: u64 = processes.iter().map(Process::commands).sum();
    // A lease takes one request, by construction.
    let leases = if matches!(gate, Gate::Lease) { asked.load(Ordering::Relaxed) } else { 0 };
    tally.commands += after - before + leases;
    sleep(RUN * 2).await;
}

impl Process {
    fn commands(&self) -> u64 {
        match &self.gate {
            Entry::Lock(lock) => lock.requests(),
            Entry::Lease(..) => 0,
        }
    }

    /// Starts a run if there is a place, and frees it when it ends; or at once.
    async fn start(&self, at_once: bool) -> Status {
        match &self.gate {
            Entry::Lock(lock) => {
                let Ok(guard) = lock.acquire(LockCaller::new("acme")).await else { return Status::Unavailable };
                let mut connection = self.connection.clone();
                // Count my runs, then start one: what the lock is there for.
                let running: u32 = redis::cmd("GET")
                    .arg("runs")
                    .query_async::<Option<u32>>(&mut connection)
                    .await
                    .expect("an answer")
                    .unwrap_or(0);
                let admitted = running < CAP;
                if admitted {
                    let runs: u32 =
                        redis::cmd("INCR").arg("runs").query_async(&mut connection).await.expect("an answer");
                    assert!(runs <= CAP, "the lock is exclusive");
                    tokio::spawn(async move {
                        sleep(if at_once { Duration::ZERO } else { RUN }).await;
                        let _: i64 =
                            redis::cmd("DECR").arg("runs").query_async(&mut connection).await.expect("an answer");
                    });
                }
                guard.release().await.expect("an answer");
                if admitted { Status::Ok } else { Status::TooMany }
            }
            Entry::Lease(leases, claims) => match leases.admit(claims).await {
                Ok(held) => {
                    tokio::spawn(async move {
                        sleep(if at_once { Duration::ZERO } else { RUN }).await;
                        drop(held);
                    });
                    Status::Ok
                }
                Err(LeaseDenied::Full { .. }) => Status::TooMany,
                Err(_) => Status::Unavailable,
            },
        }
    }
}
