//! What it costs to wait, to be served and to leave, in lines of 100 to 100,000. See the README.
#![expect(clippy::disallowed_methods, reason = "a stopwatch: no decision depends on it")]

mod table;

use std::{env, time::Instant};

use queue::{
    LENGTHS,
    contestants::{Line, Ours, Tokio},
    tasks::{Tasks, runtime},
    waiters::Waiters,
};

use crate::table::{Figures, Table};

/// How many operations of a kind are timed together, at least.
const OPERATIONS: usize = 100_000;
const ROUNDS: usize = 7;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let rounds = match &words[..] {
        [] => ROUNDS,
        [name, rounds] if name == "--rounds" => rounds.parse().expect("--rounds wants a number"),
        _ => {
            eprintln!("usage: queue [--rounds N]");
            std::process::exit(2);
        }
    };

    let mut polled = Table::default();
    let mut spawned = Table::default();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for length in LENGTHS {
            for (name, labels) in [("no label", 0), ("1 label", 1), ("1,000 labels", 1_000)] {
                polled.add(name, length, poll(&Ours::new(length, labels), length));
                spawned.add(name, length, spawn(&Ours::new(length, labels), length));
            }
            polled.add("no deadlines", length, poll(&Ours::endless(length), length));
            spawned.add("no deadlines", length, spawn(&Ours::endless(length), length));
            polled.add("tokio", length, poll(&Tokio::default(), length));
            spawned.add("tokio", length, spawn(&Tokio::default(), length));
        }
    }
    println!("Futures in a vector, polled by hand; nanoseconds, medians over {rounds} rounds.\n");
    polled.print();
    println!("\nThe same in tasks of a runtime with one thread: per task.\n");
    spawned.print();
}

/// Nanoseconds per operation.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn time(operations: usize, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / operations as f64
}

fn poll<L: Line>(line: &L, length: usize) -> Figures {
    // Handles start their driver with the first request and want a runtime for that.
    let runtime = runtime();
    let _guard = runtime.enter();
    let mut waiters = Waiters::new(line, length);
    let longest = (0..length).map(|_| time(1, || waiters.join())).fold(0.0, f64::max);
    waiters.leave();

    let (mut join, mut leave) = (0.0, 0.0);
    let times = (OPERATIONS / length).max(1);
    for _ in 0..times {
        join += time(length * times, || (0..length).for_each(|_| waiters.join()));
        leave += time(length * times, || waiters.leave());
    }
    let mut serve = 0.0;
    for _ in 0..times {
        (0..length).for_each(|_| waiters.join());
        serve += time(length * times, || (0..length).for_each(|_| waiters.pass_on()));
        waiters.leave();
    }
    (0..length).for_each(|_| waiters.join());
    let hand_over = time(OPERATIONS, || (0..OPERATIONS).for_each(|_| waiters.hand_over()));
    let mut reject: Vec<f64> = (0..OPERATIONS).map(|_| time(1, || assert!(waiters.turns_away()))).collect();
    reject.sort_unstable_by(f64::total_cmp);
    let replace = time(OPERATIONS, || (0..OPERATIONS).for_each(|_| waiters.replace()));
    vec![
        ("join", join),
        ("hand over", hand_over),
        ("serve all", serve),
        ("cancel all", leave),
        ("replace one", replace),
        ("reject", reject[reject.len() / 2]),
        ("reject p99", reject[reject.len() * 99 / 100]),
        ("reject max", reject[reject.len() - 1]),
        ("longest first join", longest),
    ]
}

fn spawn<L: Line>(line: &L, length: usize) -> Figures {
    runtime().block_on(async {
        let mut tasks = Tasks::new(line, length).await;
        tasks.join(length).await;
        tasks.leave().await;
        let (mut join, mut serve, mut leave) = (0.0, 0.0, 0.0);
        let times = (OPERATIONS / length).max(1);
        let since = |start: Instant| time_since(start, length * times);
        for _ in 0..times {
            let start = Instant::now();
            tasks.join(length).await;
            join += since(start);
            let start = Instant::now();
            tasks.serve().await;
            serve += since(start);
            tasks.join(length).await;
            let start = Instant::now();
            tasks.leave().await;
            leave += since(start);
        }
        vec![("join", join), ("serve all", serve), ("cancel all", leave)]
    })
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn time_since(start: Instant, operations: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / operations as f64
}
