//! Requests that wait for each other's slots.

use std::sync::Arc;

use crate::{
    Admission, AdmissionBuilder, Outcome, Ticket,
    engine::limit::Fixed,
    explore::{Bounds, Inside, block_on, explore, thread},
};

/// Explores as far as a minute allows.
pub(super) const fn bounds(preemptions: usize, schedules: usize) -> Bounds {
    Bounds { preemptions, schedules, depth: 3 }
}

/// At rest: nothing runs or waits, and so many requests came, were admitted, and left.
pub(super) fn at_rest(admission: &Admission, admitted: u64) {
    let it = admission.snapshot();
    assert_eq!((it.in_flight, it.waiting), (0, 0), "nothing runs or waits");
    let counted: u64 = it.partitions.iter().map(|it| it.admitted).sum();
    assert_eq!(counted, admitted, "each request is counted once");
}

/// No free slot stands beside a waiter, in any turn.
pub(super) fn look(admission: &Admission) {
    let it = admission.snapshot();
    assert!(it.waiting == 0 || it.in_flight >= it.limit, "a free slot beside a waiter: {it:?}");
    assert!(it.in_flight <= it.limit, "{} requests run, {} may", it.in_flight, it.limit);
}

/// Runs `threads` threads with a request each, `rounds` times, and looks at each step.
fn serve(admission: &Admission, limit: usize, threads: usize, rounds: usize) {
    let inside = Inside::new(limit);
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (admission, inside) = (admission.clone(), Arc::clone(&inside));
            thread::spawn(move || {
                for _ in 0..rounds {
                    let permit = block_on(admission.admit(Ticket::new())).expect("it is served");
                    inside.enter();
                    inside.leave();
                    permit.finish(Outcome::Success);
                }
            })
        })
        .collect();
    look(admission);
    threads.into_iter().for_each(|it| it.join().expect("it ends"));
}

pub(super) fn fixed(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).queue(64)
}

/// Requests hand a single slot on to each other.
pub fn no_wake_up_is_lost() {
    let (threads, rounds) = if cfg!(feature = "shuttle") { (12, 4) } else { (2, 1) };
    explore("no_wake_up_is_lost", bounds(2, 500), move || {
        let admission = fixed(1).build().expect("good settings");
        serve(&admission, 1, threads, rounds);
        at_rest(&admission, (threads * rounds) as u64);
    });
}
