//! Several lanes for each partition, as on a machine with many cores: threads that enter and leave without a pause, and move
//! between lanes, while the limit changes under them.

use std::{
    collections::VecDeque,
    num::NonZeroU32,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use super::{
    Admission, AdmissionBuilder, Permit,
    core::{be_thread, force_lanes_per_partition},
};
use crate::{Mode, Outcome, Ticket, limit::Fixed, percent};

const PER_PARTITION: usize = 4;
const THREADS: usize = 2;
/// Requests that each thread sends.
const REQUESTS: usize = 300_000;
const FAR_TOO_LONG: Duration = Duration::from_secs(60);

fn with_limit(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).shed()
}

fn with_several_lanes(builder: AdmissionBuilder) -> Admission {
    force_lanes_per_partition(PER_PARTITION, || builder.build().expect("valid settings"))
}

/// Counts what runs at once, beside the handle: a request counts itself after it got its slot and until it gives the slot
/// back, so no more are counted than hold a slot.
#[derive(Debug, Default)]
struct Ledger {
    inside: AtomicUsize,
    most: AtomicUsize,
    admitted: AtomicUsize,
    lent: AtomicUsize,
    refused: AtomicUsize,
}

impl Ledger {
    fn leave(&self, permit: Permit) {
        self.inside.fetch_sub(1, SeqCst);
        permit.finish(Outcome::Success);
    }

    /// Sends requests: for a while a single one at a time, then up to `held` at a time, and so on.
    fn send(&self, admission: &Admission, held: usize, thread: usize) {
        let mut running = VecDeque::with_capacity(held);
        for number in 0..REQUESTS {
            // Now and then to another lane, so that slots are given back in others than the thread's own.
            if number % 7 == 0 {
                be_thread(thread + number / 7);
            }
            match admission.try_admit(Ticket::new()) {
                Ok(permit) => {
                    self.most.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
                    self.admitted.fetch_add(1, SeqCst);
                    self.lent.fetch_add(usize::from(permit.is_lent()), SeqCst);
                    running.push_back(permit);
                }
                Err(_) => {
                    self.refused.fetch_add(1, SeqCst);
                }
            }
            let most = if number / 64 % 2 == 0 { 0 } else { held };
            while running.len() > most {
                running.pop_front().into_iter().for_each(|permit| self.leave(permit));
            }
        }
        running.drain(..).for_each(|permit| self.leave(permit));
    }
}

/// Sends requests from all threads, and calls `change` over and over meanwhile. At the end nothing runs and nothing is lost.
fn crowd(admission: &Admission, held: usize, mut change: impl FnMut(usize)) -> Ledger {
    let (ledger, start, at_work) = (Ledger::default(), Barrier::new(THREADS + 1), AtomicUsize::new(THREADS));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (ledger, start, at_work) = (&ledger, &start, &at_work);
            scope.spawn(move || {
                start.wait();
                ledger.send(admission, held, thread);
                at_work.fetch_sub(1, SeqCst);
            });
        }
        start.wait();
        for number in 0.. {
            if at_work.load(SeqCst) == 0 {
                break;
            }
            change(number);
        }
    });
    let (admitted, refused) = (ledger.admitted.load(SeqCst), ledger.refused.load(SeqCst));
    assert_eq!(admitted + refused, THREADS * REQUESTS);
    assert!(ledger.lent.load(SeqCst) > 1_000, "{ledger:?}");
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0), "nothing runs, {ledger:?}");
    let counted = &snapshot.partitions[0];
    assert_eq!((counted.admitted, counted.successes), (admitted as u64, admitted as u64));
    let again: Vec<_> =
        (0..snapshot.limit).map(|_| admission.try_admit(Ticket::new()).expect("no slot is lost")).collect();
    assert!(admission.try_admit(Ticket::new()).is_err(), "the limit holds");
    drop(again);
    ledger
}

#[test]
fn no_more_run_than_the_larger_of_two_limits_that_take_turns() {
    for one_in in [1, 8] {
        let settings = |limit| with_limit(limit).time_one_in(NonZeroU32::new(one_in).expect("it is not 0"));
        let admission = with_several_lanes(settings(100));
        let ledger = crowd(&admission, 60, |number| {
            let limit = if number % 2 == 0 { 1 } else { 100 };
            admission.reload(settings(limit)).expect("valid settings");
            thread::yield_now();
        });
        let most = ledger.most.load(SeqCst);
        assert!(most <= 100, "{most} ran at once, one in {one_in} timed: {ledger:?}");
    }
}

#[test]
fn no_more_run_than_a_small_limit_whatever_calls_slots_back() {
    const LIMIT: usize = 6;
    let admission = with_several_lanes(with_limit(LIMIT));
    // A single thread reaches the limit as well.
    let ledger = crowd(&admission, LIMIT, |number| match number % 3 {
        0 => admission.reload(with_limit(LIMIT)).expect("valid settings"),
        1 => admission.set_mode(Mode::Enforce),
        _ => drop(admission.snapshot()),
    });
    let most = ledger.most.load(SeqCst);
    assert!(most <= LIMIT, "{most} ran at once: {ledger:?}");
    assert!(ledger.refused.load(SeqCst) > 0, "the limit was reached: {ledger:?}");
}

/// Each thread holds a slot and wants a second one; there are three.
#[test]
fn no_request_waits_beside_a_free_slot() {
    const ROUNDS: usize = 3_000;
    let admission = with_several_lanes(Admission::builder().limit(Fixed::new(3)).queue(8).max_wait(FAR_TOO_LONG));
    let has_lent = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (admission, has_lent) = (&admission, &has_lent);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for number in 0..ROUNDS {
                        be_thread(thread + number / 3);
                        let first = admission.admit(Ticket::new()).await.expect("a slot");
                        // Now and then a single one at a time, so that slots are lent again.
                        if number / 64 % 2 == 0 {
                            has_lent.fetch_or(first.is_lent(), SeqCst);
                        } else {
                            admission.admit(Ticket::new()).await.expect("a slot").finish(Outcome::Success);
                        }
                        first.finish(Outcome::Success);
                        tokio::task::yield_now().await;
                    }
                });
            });
        }
    });
    assert!(has_lent.load(SeqCst));
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0));
}

/// A single thread gets all slots, one lane after the other, before the engine is asked.
#[test]
fn a_thread_uses_the_free_slots_of_all_lanes() {
    const LIMIT: usize = 40;
    let admission = with_several_lanes(with_limit(LIMIT));
    be_thread(2);
    let is_open = || admission.try_admit(Ticket::new()).is_ok_and(|permit| permit.is_lent());
    assert!((0..200).any(|_| is_open()), "slots are lent");
    let permits: Vec<_> = (0..LIMIT).map(|_| admission.try_admit(Ticket::new()).expect("a slot is free")).collect();
    let lent = permits.iter().filter(|permit| permit.is_lent()).count();
    assert_eq!(lent, LIMIT, "each of them was lent");
    assert!(admission.try_admit(Ticket::new()).is_err());
    assert_eq!(admission.snapshot().in_flight, LIMIT);
}

/// A partition's bound shrinks while more run in its lanes: no request enters any of them until enough have left all of them.
#[test]
fn a_smaller_bound_of_a_partition_holds_in_all_its_lanes() {
    let with_share = |share| with_limit(100).partition("batch", percent(share).hard_cap());
    let admission = with_several_lanes(with_share(20));
    let batch = |thread| {
        be_thread(thread);
        admission.try_admit(Ticket::new().partition("batch"))
    };
    // Quiet turns, so that slots are lent.
    let rest = || (0..200).for_each(|_| drop(admission.try_admit(Ticket::new()).expect("room")));
    rest();
    let mut permits: VecDeque<_> = (0..16).map(|thread| batch(thread).expect("room")).collect();
    admission.reload(with_share(10)).expect("valid settings");
    while permits.len() > 10 {
        rest();
        assert!((0..PER_PARTITION).all(|thread| batch(thread).is_err()), "{} run, 10 may", permits.len());
        drop(permits.pop_front());
    }
    assert!((0..PER_PARTITION).all(|thread| batch(thread).is_err()), "10 run, 10 may");
    drop(permits.pop_front());
    assert!(batch(0).is_ok());
}
