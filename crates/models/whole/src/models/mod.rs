//! The models. Each runs the shipped handle, or the shipped leases, with a few threads under loom and with more of them
//! under shuttle.

pub mod breaker;
#[cfg(feature = "shuttle")]
pub mod crowd;
pub mod drivers;
pub mod permits;
pub mod settings;
pub mod shares;
pub mod turns;

use std::{future::Future, task::Poll, time::Duration};

use crate::{
    Admission, AdmissionBuilder,
    engine::limit::Fixed,
    explore::{Bounds, Parker},
};

/// How far: preemptions under loom, schedules of either kind under shuttle. Each makes a handle unless it says otherwise.
const fn bounds(preemptions: usize, schedules: usize) -> Bounds {
    Bounds { preemptions, schedules, depth: 3, has_handle: true, is_long: false }
}

/// As many as loom can, or as shuttle should.
const fn of(loom: usize, shuttle: usize) -> usize {
    if cfg!(feature = "shuttle") { shuttle } else { loom }
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn fixed(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).queue(64).max_waiting(64)
}

/// At rest: nothing runs or waits, and so many requests were admitted.
fn at_rest(admission: &Admission, admitted: usize) {
    let it = admission.snapshot();
    assert_eq!((it.in_flight, it.waiting), (0, 0), "nothing runs or waits");
    let counted: u64 = it.partitions.iter().map(|it| it.admitted).sum();
    assert_eq!(counted, admitted as u64, "each request is counted once");
}

/// No free slot stands beside a waiter, in any turn, and the limit holds.
fn look(admission: &Admission) {
    let it = admission.snapshot();
    assert!(it.waiting == 0 || it.in_flight >= it.limit, "a free slot beside a waiter: {it:?}");
    assert!(it.in_flight <= it.limit, "{} requests run, {} may", it.in_flight, it.limit);
}

/// Polls a future that is polled again elsewhere.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Parker::new().poll(future)
}
