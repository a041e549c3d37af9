//! What a reading of a clock costs, each as the time since a moment of the same clock.

#![expect(clippy::disallowed_methods, reason = "this measures clocks")]

use std::{hint::black_box, time::Instant};

/// The same number of readings each time; the fastest such batch was disturbed least.
const READINGS: u32 = 20_000;
const BATCHES: usize = 500;

fn main() {
    let (system, tokio) = (Instant::now(), tokio::time::Instant::now());
    let (quanta, minstant, fastant) = (quanta::Clock::new(), minstant::Instant::now(), fastant::Instant::now());
    let start = quanta.raw();
    println!("| clock | ns, fastest batch | median |\n|---|---:|---:|");
    measure("std", || system.elapsed().as_nanos());
    measure("tokio", || tokio.elapsed().as_nanos());
    measure("quanta", || quanta.delta_as_nanos(start, quanta.raw()).into());
    measure("minstant", || minstant.elapsed().as_nanos());
    measure("fastant", || fastant.elapsed().as_nanos());
}

fn measure(name: &str, read: impl Fn() -> u128) {
    let batch = || {
        let start = Instant::now();
        for _ in 0..READINGS {
            black_box(read());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS)
    };
    let mut times: Vec<f64> = (0..BATCHES).map(|_| batch()).collect();
    times.sort_by(f64::total_cmp);
    println!("| {name} | {:.1} | {:.1} |", times[0], times[BATCHES / 2]);
}
