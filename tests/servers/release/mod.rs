//! A slot is given back exactly once, however a request ends.
//!
//! Each way is taken a thousand times. The probe counts what runs and what arrives by itself; afterwards the handle
//! must have nothing in flight, and each that arrived must be accounted for once.

mod connections;
mod controls;
mod cores;
mod in_process;
mod killed;
mod leaving;
mod replaced;
mod runtimes;
mod vanished;
mod waiters;

use tower_admission::{Admission, limit::Fixed};

use crate::support::{Probe, at_rest};

const ATTEMPTS: usize = 1_000;
const LIMIT: usize = 8;

fn eight_run() -> Admission {
    Admission::builder().limit(Fixed::new(LIMIT)).queue(20_000).build().unwrap()
}

/// What must hold after a thousand attempts.
async fn all_is_given_back(way: &str, admission: &Admission, probe: &Probe) {
    at_rest(admission, probe).await;
    assert_eq!(probe.arrived(), ATTEMPTS as u64, "{way}");
    assert_eq!(probe.running(), 0, "{way}");
    assert!(probe.peak() <= LIMIT, "{way}: {} ran at once", probe.peak());
    // Seen with --nocapture.
    println!("{way}: {} arrived, {} ran, at most {} at once", probe.arrived(), probe.started(), probe.peak());
}
