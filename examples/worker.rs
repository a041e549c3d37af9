//! Work that comes by no server: a loop takes jobs from a queue and runs three at a time.
//!
//! ```text
//! cargo run --release --example worker
//! ```

use std::{collections::VecDeque, time::Duration};

use tokio::{task::JoinSet, time::sleep};
use tower_admission::{Admission, Outcome, Permit, Ticket, limit::Fixed};

/// Stands for the work; one job in four finds its backend overloaded.
async fn work(job: u32) -> Result<(), &'static str> {
    sleep(Duration::from_millis(50)).await;
    if job.is_multiple_of(4) { Err("the backend is overloaded") } else { Ok(()) }
}

async fn run(job: u32, permit: Permit) {
    let result = work(job).await;
    println!("job {job}: {result:?}");
    // A law learns from outcomes. From a permit that is dropped it learns next to nothing: that counts as cancelled.
    permit.finish(if result.is_ok() { Outcome::Success } else { Outcome::Overload });
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `TwoPoint::new().max(3)` learns a limit of up to three. It falls to 1 while jobs fail, and then pauses.
    let admission = Admission::builder().limit(Fixed::new(3)).queue(2).build()?;
    let mut jobs: VecDeque<u32> = (1..=12).collect();
    let mut tasks = JoinSet::new();
    while let Some(job) = jobs.pop_front() {
        // Before the spawn: so the loop waits, and there are no more tasks than slots.
        match admission.admit(Ticket::new()).await {
            Ok(permit) => drop(tasks.spawn(run(job, permit))),
            Err(rejection) => {
                println!("job {job} comes again: {rejection}");
                jobs.push_back(job);
                sleep(rejection.retry_after()).await;
            }
        }
        println!("in flight: {}", admission.snapshot().in_flight);
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    println!("in flight at the end: {}", admission.snapshot().in_flight);
    Ok(())
}
