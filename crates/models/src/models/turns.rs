//! The whole quiet path: lanes, rings and `lending.rs`, with turns of the engine in between.

use std::sync::atomic::Ordering::SeqCst;

use loom::thread;

use super::{
    explore,
    handle::{Handle, LANES},
};
use crate::Mistake;

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|it| it.join().expect("no thread panicked"));
}

/// (b) Requests come and go while turns call back what is lent and lend it again: the limit holds, the lent slots and
/// those of the engine taken together.
pub fn the_limit_holds_whatever_races() {
    for (limit, preemptions) in [(1, 2), (2, 1)] {
        explore(&format!("the_limit_holds_whatever_races, limit {limit}"), Some(preemptions), move || {
            let handle = Handle::new(limit, Mistake::None);
            let requests = [1, 2].map(|request| handle.spawn(move |handle| handle.serve(request)));
            // What is called back is given to a request of the engine's.
            if handle.arrive(3) {
                handle.finish();
            } else {
                handle.cancel(3);
            }
            join(requests);
            handle.check();
        });
    }
}

/// (c) The limit shrinks while requests run: those that run go on, and no other one enters until they have left.
pub fn a_smaller_limit_holds_at_once() {
    explore("a_smaller_limit_holds_at_once", Some(2), || {
        let handle = Handle::new(2, Mistake::None);
        let requests = [1, 2].map(|request| handle.spawn(move |handle| handle.serve(request)));
        handle.set_limit(1);
        join(requests);
        handle.check();
    });
}

/// (d) A request that finds no slot waits; the request that leaves sees the closed lane and hands its slot over.
pub fn no_wake_up_is_lost(mistake: Mistake) {
    for (requests, preemptions) in [(2, 3), (3, 1)] {
        explore(&format!("no_wake_up_is_lost, {requests} requests"), Some(preemptions), move || {
            let handle = Handle::new(1, mistake);
            let others: Vec<_> =
                (1..requests).map(|request| handle.spawn(move |handle| handle.serve(request))).collect();
            handle.serve(0);
            join(others);
            assert_eq!(handle.served(), requests, "each request was served");
            handle.check();
        });
    }
}

/// (f) A waiter cancels while the request that leaves hands its slot over.
pub fn a_waiter_that_cancels_gives_back_what_it_was_handed(mistake: Mistake) {
    explore("a_waiter_that_cancels_gives_back_what_it_was_handed", Some(3), move || {
        let handle = Handle::new(1, mistake);
        let lent = handle.enter().expect("a slot is lent");
        let waiter = handle.spawn(|handle| {
            if handle.arrive(1) || handle.poll(1) {
                handle.finish();
            } else {
                handle.cancel(1);
            }
        });
        handle.leave(&lent, 9);
        waiter.join().expect("no thread panicked");
        handle.check();
    });
}

/// (g) A request is taken over by the engine while another one leaves and a third one arrives.
pub fn a_request_that_is_taken_over_is_counted_once() {
    explore("a_request_that_is_taken_over_is_counted_once", Some(2), || {
        let handle = Handle::new(2, Mistake::None);
        let lent = [handle.enter().expect("a slot is lent"), handle.enter().expect("a slot is lent")];
        let [first, second] = lent;
        let others = [
            handle.spawn(move |handle| handle.leave(&first, 9)),
            handle.spawn(move |handle| handle.serve(1)),
        ];
        handle.take_over(&second);
        handle.finish();
        join(others);
        handle.check();
    });
}

/// (e) Requests that entered lent slots are counted once, and those that gave up entering are not.
pub fn each_request_is_counted_once() {
    for (limit, preemptions) in [(1, 4), (2, 3)] {
        explore(&format!("each_request_is_counted_once, limit {limit}"), Some(preemptions), move || {
            let handle = Handle::new(limit, Mistake::None);
            let other = handle.spawn(|handle| match handle.enter() {
                Some(lent) => handle.leave(&lent, 9),
                // As a request that asks the engine.
                None => handle.with_engine(|_| ()),
            });
            let lent = handle.enter();
            handle.with_engine(|_| ());
            if let Some(lent) = lent {
                handle.leave(&lent, 9);
            }
            join([other]);
            let served = handle.on_lent.load(SeqCst) as u64;
            let counts = handle.check();
            assert_eq!((counts.admitted, counts.left), (served, served), "requests that were admitted, and that left");
        });
    }
}

/// (h) Each sample is learned, also that of a request that was slow to write it.
pub fn each_sample_is_learned() {
    learned_where_one_is_timed_in(1);
}

/// (h) Where few requests are timed, each is learned or counted, and never both.
pub fn each_request_is_learned_or_counted() {
    learned_where_one_is_timed_in(8);
}

fn learned_where_one_is_timed_in(one_in: u64) {
    explore(&format!("each sample is learned, one in {one_in} timed"), Some(2), move || {
        let handle = Handle::new(2, Mistake::None);
        handle.time_one_in(one_in);
        // The second one asks for its sample to be collected.
        let requests = [9, 2_000_000].map(|end| {
            handle.spawn(move |handle| {
                if let Some(lent) = handle.enter() {
                    handle.leave(&lent, end);
                } else {
                    handle.with_engine(|_| ());
                }
            })
        });
        handle.with_engine(|_| ());
        handle.with_engine(|_| ());
        join(requests);
        let served = handle.on_lent.load(SeqCst);
        let counts = handle.check();
        let timed = handle.timed.load(SeqCst);
        assert_eq!((counts.samples, counts.holds), (timed, timed), "each request's sample, once");
        assert_eq!(counts.untimed, (served - timed) as u64, "each request without a sample, once");
    });
}

/// (g) The last slot that was lent is taken over, and no slot is lent again: the engine learns what another request left
/// behind, and does not count a request that gave up.
pub fn nothing_is_left_behind_when_the_last_slot_is_taken_over() {
    for (limit, preemptions) in [(1, 4), (2, 3)] {
        let name = format!("nothing_is_left_behind_when_the_last_slot_is_taken_over, limit {limit}");
        explore(&name, Some(preemptions), move || {
            let handle = Handle::new(limit, Mistake::None);
            handle.stop_lending();
            let other = handle.spawn(|handle| match handle.enter() {
                Some(lent) => handle.leave(&lent, 9),
                // As a request that asks the engine.
                None => handle.with_engine(|_| ()),
            });
            let taken = handle.enter();
            if let Some(lent) = &taken {
                handle.take_over(lent);
                handle.finish();
            }
            join([other]);
            let served = handle.on_lent.load(SeqCst);
            let left = served - usize::from(taken.is_some());
            let counts = handle.count();
            assert_eq!(counts.admitted, served as u64, "requests that were admitted");
            assert_eq!((counts.samples, counts.holds), (left, left), "each request's sample, once");
        });
    }
}

/// (j) Two lanes with a slot each: one turn calls both back, and the limit holds across them.
pub fn the_limit_holds_across_lanes() {
    explore("the_limit_holds_across_lanes", Some(1), || {
        let handle = Handle::with_lanes(2, 2, Mistake::None);
        let requests = [1, 2].map(|request| handle.spawn(move |handle| handle.serve_in(LANES[request - 1], request)));
        // Takes a slot that came back, of either lane.
        if handle.arrive(3) {
            handle.finish();
        } else {
            handle.cancel(3);
        }
        join(requests);
        let served = handle.on_lent.load(SeqCst);
        let counts = handle.check();
        assert_eq!((counts.admitted, counts.left), (served as u64, served as u64), "requests that came, and that left");
        assert_eq!(counts.samples, served, "each request's sample, once");
    });
}

/// (h) A request is observed before it leaves, while a turn calls back what is lent: its sample is learned once.
pub fn a_request_that_is_observed_is_learned_once() {
    explore("a_request_that_is_observed_is_learned_once", Some(2), || {
        let handle = Handle::new(2, Mistake::None);
        let requests = [true, false].map(|is_observed| {
            handle.spawn(move |handle| {
                if let Some(mut lent) = handle.enter() {
                    if is_observed {
                        handle.observe(&mut lent, 9);
                    }
                    handle.leave(&lent, 11);
                } else {
                    handle.with_engine(|_| ());
                }
            })
        });
        handle.with_engine(|_| ());
        join(requests);
        let served = handle.on_lent.load(SeqCst);
        let counts = handle.check();
        assert_eq!((counts.admitted, counts.left), (served as u64, served as u64), "requests that came, and that left");
        assert_eq!(counts.samples, served, "each request's sample, once");
    });
}
