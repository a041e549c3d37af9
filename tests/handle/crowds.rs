//! Threads that enter and leave without a pause, while the limit and the mode change under them.
//!
//! `CROWD=100000000` sets how many requests arrive.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use admission_testkit::PATIENCE;
use futures_util::FutureExt;
use tokio::{
    task::yield_now,
    time::{Instant, timeout},
};
use tower_admission::{Admission, AdmissionBuilder, DrainMode, Mode, Outcome, Permit, Reason, Ticket, limit::Fixed};

use super::assert_at_rest;

/// Changes of a handle, at the least, while requests arrive.
const CHANGES: usize = 20;

/// How many requests arrive in all threads together.
fn crowd(usual: usize) -> usize {
    std::env::var("CROWD").map_or(usual, |count| count.parse().unwrap())
}

fn with_limit(limit: usize) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(limit)).shed()
}

/// Counts what runs at once, beside the handle: a request counts itself after it got its slot and until it gives the slot
/// back, so no more are counted than hold a slot.
#[derive(Debug, Default)]
struct Ledger {
    inside: AtomicUsize,
    most: AtomicUsize,
    admitted: AtomicUsize,
    refused: AtomicUsize,
    /// Whether there were enough changes.
    is_changed: AtomicBool,
}

impl Ledger {
    fn enter(&self) {
        self.most.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
        self.admitted.fetch_add(1, SeqCst);
    }

    fn leave(&self, permit: Permit) {
        self.inside.fetch_sub(1, SeqCst);
        permit.finish(Outcome::Success);
    }

    fn arrived(&self) -> usize {
        self.admitted.load(SeqCst) + self.refused.load(SeqCst)
    }

    /// Sends requests: for a while a single one at a time, then up to `held` at a time, and so on; so many, and on until
    /// there were enough changes, or until the handle drains.
    fn send(&self, admission: &Admission, requests: usize, held: usize) {
        let mut running = VecDeque::with_capacity(held);
        for number in 0.. {
            if number >= requests && self.is_changed.load(SeqCst) {
                break;
            }
            match admission.try_admit(Ticket::new()) {
                Ok(permit) => {
                    self.enter();
                    running.push_back(permit);
                }
                Err(rejection) => {
                    self.refused.fetch_add(1, SeqCst);
                    if rejection.reason() == Reason::Draining {
                        break;
                    }
                }
            }
            let most = if number / 1_000 % 2 == 0 { 1 } else { held };
            while running.len() >= most {
                running.pop_front().into_iter().for_each(|permit| self.leave(permit));
            }
            if number % 2_000 == 0 {
                // Where there are fewer cores than threads, the thread that makes the changes gets its turn.
                thread::yield_now();
            }
        }
        running.into_iter().for_each(|permit| self.leave(permit));
    }
}

/// Sends requests from two threads that hold up to `held` each, while `change` is called in a third one with 0, 1, 2, …
/// as they arrive, [`CHANGES`] times at the least.
fn send_meanwhile(admission: &Admission, requests: usize, held: usize, mut change: impl FnMut(usize)) -> Ledger {
    let ledger = Ledger::default();
    let begin = Instant::now();
    let changes = thread::scope(|scope| {
        let senders = [0, 1].map(|_| scope.spawn(|| ledger.send(admission, requests / 2, held)));
        let (mut changes, mut seen) = (0, 0);
        while !senders.iter().all(thread::ScopedJoinHandle::is_finished) {
            let arrived = ledger.arrived();
            if arrived < seen + 1_000 {
                thread::yield_now();
                continue;
            }
            seen = arrived;
            change(changes);
            changes += 1;
            ledger.is_changed.store(changes >= CHANGES, SeqCst);
        }
        changes
    });
    println!("{changes} changes in {:?}: {ledger:?}", begin.elapsed());
    ledger
}

/// Asserts that no slot is lost and that each request is accounted for.
fn assert_counted(admission: &Admission, ledger: &Ledger) {
    let snapshot = assert_at_rest(admission, ledger.arrived() as u64);
    let admitted = ledger.admitted.load(SeqCst) as u64;
    let successes: u64 = snapshot.partitions.iter().map(|it| it.successes).sum();
    assert_eq!((snapshot.admitted(), successes), (admitted, admitted), "{snapshot:#?}");
    assert_eq!(ledger.inside.load(SeqCst), 0);
}

#[test]
fn no_more_run_than_the_largest_of_two_limits_while_they_take_turns() {
    let admission = with_limit(100).build().unwrap();
    let ledger = send_meanwhile(&admission, crowd(10_000_000), 60, |number| {
        admission.reload(with_limit(if number % 2 == 0 { 1 } else { 100 })).unwrap();
    });
    let most = ledger.most.load(SeqCst);
    assert!((2..=100).contains(&most), "{most} ran at once");
    assert_counted(&admission, &ledger);
}

#[test]
fn no_more_run_than_a_limit_that_stays() {
    for limit in [1, 2, 7] {
        let admission = with_limit(limit).build().unwrap();
        // A look at all counts is a turn of the engine: what is lent is called back.
        let ledger = send_meanwhile(&admission, crowd(3_000_000) / 3, 5, |_| {
            assert!(admission.snapshot().in_flight <= limit);
        });
        let most = ledger.most.load(SeqCst);
        assert!(most <= limit, "{most} ran at once, {limit} may");
        assert_counted(&admission, &ledger);
    }
}

#[test]
fn the_counts_are_right_after_each_of_many_small_crowds() {
    for round in 0..2_000 {
        let admission = with_limit(1 + round % 3).build().unwrap();
        let (ledger, start) = (Ledger::default(), Barrier::new(2));
        ledger.is_changed.store(true, SeqCst);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    ledger.send(&admission, 1 + round % 50, 2);
                });
            }
        });
        assert_counted(&admission, &ledger);
    }
}

#[test]
fn after_changes_of_the_mode_the_limit_holds_and_after_a_drain_no_request_is_admitted() {
    let admission = with_limit(7).build().unwrap();
    let modes = [Mode::Observe, Mode::Enforce, Mode::Off, Mode::Enforce];
    let ledger = send_meanwhile(&admission, crowd(1_000_000), 20, |number| admission.set_mode(modes[number % 4]));
    assert!(ledger.most.load(SeqCst) > 7, "requests ran beyond the limit while it did not bind");
    admission.set_mode(Mode::Enforce);
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (0, 0));
    // Until the handle drains.
    let ledger = send_meanwhile(&admission, usize::MAX, 20, |number| {
        if number == CHANGES {
            admission.drain(DrainMode::RejectWaiting);
        }
    });
    assert!(ledger.most.load(SeqCst) <= 7, "the limit binds again");
    assert!(ledger.refused.load(SeqCst) > 0 && admission.try_admit(Ticket::new()).is_err(), "it drains");
    assert_eq!((admission.snapshot().in_flight, admission.snapshot().waiting), (0, 0));
    assert!(admission.drained().now_or_never().is_some(), "nothing runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_that_waits_is_served() {
    const ROUNDS: usize = 200;
    const TASKS: usize = 200;
    let admission = Admission::builder().limit(Fixed::new(3)).queue(TASKS).max_wait(PATIENCE).build().unwrap();
    let ledger = Arc::new(Ledger::default());
    for round in 0..ROUNDS {
        // A few at first, which find lent slots, and then too many.
        let tasks = if round % 2 == 0 { 4 } else { TASKS };
        let tasks = (0..tasks).map(|task| {
            let (admission, ledger) = (admission.clone(), Arc::clone(&ledger));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let permit = admission.admit(Ticket::new()).await.unwrap();
                    ledger.enter();
                    if task % 3 == 0 {
                        yield_now().await;
                    }
                    ledger.leave(permit);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            timeout(PATIENCE, task).await.expect("no wake-up is lost").unwrap();
        }
    }
    assert_eq!(ledger.admitted.load(SeqCst), ROUNDS / 2 * (TASKS + 4) * 5);
    assert!(ledger.most.load(SeqCst) <= 3);
    assert_counted(&admission, &ledger);
}
