//! Requests that wait for each other's slots.

use std::sync::Arc;

use super::{at_rest, bounds, fixed, look, of, poll_once};
use crate::{
    Admission, Outcome, Ticket,
    explore::{Inside, block_on, explore, thread},
};

/// A request from its arrival to its end.
fn serve(admission: &Admission, inside: &Inside) {
    let permit = block_on(admission.admit(Ticket::new())).expect("it is served");
    inside.enter();
    inside.leave();
    permit.finish(Outcome::Success);
}

/// Requests hand slots on to each other.
pub fn no_wake_up_is_lost() {
    let (threads, rounds, limit) = (of(2, 12), of(1, 4), of(1, 2));
    explore("no_wake_up_is_lost", bounds(2, 500).long(), move || {
        let (admission, inside) = (fixed(limit).build().expect("good settings"), Inside::new(limit));
        let serving: Vec<_> = (0..threads)
            .map(|_| {
                let (admission, inside) = (admission.clone(), Arc::clone(&inside));
                thread::spawn(move || (0..rounds).for_each(|_| serve(&admission, &inside)))
            })
            .collect();
        look(&admission);
        serving.into_iter().for_each(|it| it.join().expect("it ends"));
        at_rest(&admission, threads * rounds);
    });
}

/// Waiters are dropped while a slot is handed to them: another waiter gets it.
pub fn a_waiter_that_cancels_hands_on_what_it_was_granted() {
    let (cancels, stays) = (of(1, 5), of(1, 5));
    explore("a_waiter_that_cancels_hands_on_what_it_was_granted", bounds(2, 500), move || {
        let (admission, inside) = (fixed(1).build().expect("good settings"), Inside::new(1));
        let held = admission.try_admit(Ticket::new()).expect("a slot is free");
        // All of them wait before any of the threads starts, those that cancel in front.
        let waiters: Vec<_> = (0..cancels + stays)
            .map(|_| {
                let mut admit = Box::pin(admission.admit(Ticket::new()));
                assert!(poll_once(&mut admit).is_pending());
                admit
            })
            .collect();
        let mut threads = Vec::new();
        for (number, waiter) in waiters.into_iter().enumerate() {
            let inside = Arc::clone(&inside);
            threads.push(thread::spawn(move || {
                if number < cancels {
                    drop(waiter);
                } else {
                    let permit = block_on(waiter).expect("it is served");
                    inside.enter();
                    inside.leave();
                    permit.finish(Outcome::Success);
                }
            }));
        }
        held.finish(Outcome::Success);
        look(&admission);
        threads.into_iter().for_each(|it| it.join().expect("it ends"));
        let it = admission.snapshot();
        assert_eq!((it.in_flight, it.waiting), (0, 0), "nothing runs or waits");
    });
}

/// A future that waits moves to another thread: its last waker is the one that is woken.
pub fn a_waiter_that_moves_is_woken_where_it_is() {
    explore("a_waiter_that_moves_is_woken_where_it_is", bounds(3, 500), move || {
        let admission = fixed(1).build().expect("good settings");
        let held = admission.try_admit(Ticket::new()).expect("a slot is free");
        let mut threads = Vec::new();
        for _ in 0..of(1, 6) {
            let mut admit = Box::pin(admission.admit(Ticket::new()));
            assert!(poll_once(&mut admit).is_pending());
            threads.push(thread::spawn(move || block_on(admit).expect("it is served").finish(Outcome::Success)));
        }
        held.finish(Outcome::Success);
        threads.into_iter().for_each(|it| it.join().expect("it ends"));
        at_rest(&admission, 1 + of(1, 6));
    });
}
