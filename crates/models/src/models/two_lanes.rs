//! Two lanes of one partition: the state is another one, what runs is the same.

use std::sync::{Mutex, atomic::Ordering::SeqCst};

use super::{explore, handle::Handle};

/// (k) A request whose lane has no free slot finds the one in the other lane, before it asks the engine; the next one finds
/// that there is none, and has to wait.
pub fn a_free_slot_in_another_lane_is_found() {
    explore("a_free_slot_in_another_lane_is_found", None, || {
        let handle = Handle::with_lanes_per_partition(2, 2);
        // Their slots are kept until both have entered.
        let lent: &'static Mutex<Vec<_>> = Box::leak(Box::default());
        let requests = [1, 2].map(|_| {
            handle.spawn(|handle| {
                let slot = handle.enter_as(0).expect("a slot is free in another lane");
                lent.lock().expect("no thread panicked").push(slot);
            })
        });
        requests.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        assert!(handle.enter_as(1).is_none() && handle.enter_as(0).is_none(), "no slot is free");
        assert!(!handle.arrive(3), "the request waits");
        handle.cancel(3);
        for slot in lent.lock().expect("no thread panicked").drain(..) {
            handle.leave(&slot, 9);
        }
        handle.check();
    });
}

/// (c) The limit shrinks while a request runs in each lane. One of them leaves, and another request finds no slot in either
/// lane until the other one has left too.
pub fn a_smaller_limit_holds_in_both_lanes() {
    explore("a_smaller_limit_holds_in_both_lanes", Some(2), || {
        let handle = Handle::with_lanes_per_partition(2, 2);
        let [first, second] = [0, 1].map(|thread| handle.enter_as(thread).expect("a slot is lent"));
        let other = handle.spawn(move |handle| {
            handle.leave(&second, 9);
            match handle.enter_as(1) {
                Some(lent) => handle.leave(&lent, 9),
                // As a request that asks the engine.
                None => handle.with_engine(|_| ()),
            }
        });
        handle.set_limit(1);
        handle.leave(&first, 9);
        other.join().expect("no thread panicked");
        handle.check();
    });
}

/// (e) A request that gives up in one lane and enters the other one is counted once, though it takes no turn in between.
pub fn a_request_that_tries_both_lanes_is_counted_once() {
    explore("a_request_that_tries_both_lanes_is_counted_once", Some(2), || {
        let handle = Handle::with_lanes_per_partition(2, 2);
        let request = |handle: &Handle| match handle.enter_as(0) {
            Some(lent) => handle.leave(&lent, 9),
            // As a request that asks the engine.
            None => handle.with_engine(|_| ()),
        };
        let other = handle.spawn(request);
        let lent = handle.enter_as(0);
        handle.with_engine(|_| ());
        if let Some(lent) = lent {
            handle.leave(&lent, 9);
        }
        other.join().expect("no thread panicked");
        let served = handle.on_lent.load(SeqCst);
        let counts = handle.check();
        assert_eq!((counts.admitted, counts.left), (served as u64, served as u64), "requests that came, and that left");
        assert_eq!(counts.samples, served, "each request's sample, once");
    });
}

/// (d) A request that finds no slot in either lane waits; the request that leaves hands its slot over.
pub fn no_wake_up_is_lost_between_lanes() {
    explore("no_wake_up_is_lost_between_lanes", Some(1), || {
        let handle = Handle::with_lanes_per_partition(2, 2);
        let others = [1, 2].map(|request| handle.spawn(move |handle| handle.serve_as(request, request)));
        handle.serve_as(0, 0);
        others.into_iter().for_each(|it| it.join().expect("no thread panicked"));
        assert_eq!(handle.served(), 3, "each request was served");
        handle.check();
    });
}
