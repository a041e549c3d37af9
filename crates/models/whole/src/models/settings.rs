//! Reloads and drains against requests that arrive.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use super::{at_rest, bounds, fixed, of, poll_once};
use crate::{
    DrainMode, Outcome, Reason, Ticket,
    explore::{block_on, explore, thread},
};

/// The limit shrinks to what runs: a request that comes after that waits until a slot is given back.
pub fn a_reload_that_shrinks_the_limit_holds_for_requests_that_come_after_it() {
    let arriving = of(2, 10);
    explore(
        "a_reload_that_shrinks_the_limit_holds_for_requests_that_come_after_it",
        bounds(1, 500).long(),
        move || {
            let admission = fixed(4).build().expect("good settings");
            let is_smaller = Arc::new(AtomicBool::new(false));
            let are_held = Arc::new(AtomicBool::new(true));
            let held: Vec<_> = (0..2).map(|_| admission.try_admit(Ticket::new()).expect("a slot is free")).collect();
            let threads: Vec<_> = (0..arriving)
                .map(|_| {
                    let (admission, is_smaller, are_held) = (admission.clone(), is_smaller.clone(), are_held.clone());
                    thread::spawn(move || {
                        let came_after = is_smaller.load(SeqCst);
                        let permit = block_on(admission.admit(Ticket::new())).expect("it is served");
                        assert!(!came_after || !are_held.load(SeqCst), "2 requests run, and this one is admitted");
                        permit.finish(Outcome::Success);
                    })
                })
                .collect();
            admission.reload(fixed(2)).expect("good settings");
            is_smaller.store(true, SeqCst);
            let snapshot = admission.snapshot();
            assert!(snapshot.in_flight <= 4 && snapshot.limit == 2, "{snapshot:?}");
            // Threads that come only now find the limit reached.
            thread::yield_now();
            are_held.store(false, SeqCst);
            held.into_iter().for_each(|it| it.finish(Outcome::Success));
            threads.into_iter().for_each(|it| it.join().expect("it ends"));
            at_rest(&admission, 2 + arriving);
        },
    );
}

/// The limit grows while requests wait and arrive: all waiters that have a slot by that are woken.
pub fn a_reload_that_grows_the_limit_wakes_waiters() {
    let (waiting, arriving) = (of(1, 5), of(1, 5));
    explore("a_reload_that_grows_the_limit_wakes_waiters", bounds(2, 500), move || {
        let admission = fixed(1).build().expect("good settings");
        let held = admission.try_admit(Ticket::new()).expect("a slot is free");
        let mut threads = Vec::new();
        for _ in 0..waiting {
            let mut admit = Box::pin(admission.admit(Ticket::new()));
            assert!(poll_once(&mut admit).is_pending());
            threads.push(thread::spawn(move || block_on(admit).expect("it is served").finish(Outcome::Success)));
        }
        for _ in 0..arriving {
            let admission = admission.clone();
            threads.push(thread::spawn(move || {
                block_on(admission.admit(Ticket::new())).expect("it is served").finish(Outcome::Success);
            }));
        }
        admission.reload(fixed(2)).expect("good settings");
        threads.into_iter().for_each(|it| it.join().expect("a waiter gets the slot that is new"));
        held.finish(Outcome::Success);
        at_rest(&admission, 1 + waiting + arriving);
    });
}

/// A drain while requests run, wait and arrive: waiters are answered, and what waits for the end is told.
pub fn a_drain_ends() {
    let (waiting, arriving) = (of(1, 5), of(1, 4));
    explore("a_drain_ends", bounds(2, 500), move || {
        let admission = fixed(1).build().expect("good settings");
        let held = admission.try_admit(Ticket::new()).expect("a slot is free");
        let mut threads = Vec::new();
        for _ in 0..waiting {
            let mut admit = Box::pin(admission.admit(Ticket::new()));
            assert!(poll_once(&mut admit).is_pending());
            threads.push(thread::spawn(move || match block_on(admit) {
                Ok(permit) => permit.finish(Outcome::Success),
                Err(rejection) => assert_eq!(rejection.reason(), Reason::Draining),
            }));
        }
        for _ in 1..arriving {
            let admission = admission.clone();
            threads.push(thread::spawn(move || drop(block_on(admission.admit(Ticket::new())))));
        }
        threads.push(thread::spawn(move || held.finish(Outcome::Success)));
        admission.drain(DrainMode::RejectWaiting);
        block_on(Box::pin(admission.drained()));
        assert_eq!(admission.snapshot().in_flight, 0, "it is drained");
        threads.into_iter().for_each(|it| it.join().expect("it ends"));
    });
}
