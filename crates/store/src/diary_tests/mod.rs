//! What processes ask a store for, and what they are answered, against diaries that are kept beside this file.
//!
//! Each diary is some seconds of processes that share a store, with the same requests each time: when a lease is renewed, how many
//! units an allotment has, which waiter comes first, what is given back. What changed there changed for all processes that share
//! the store. Where it should, write the files anew, and read the difference:
//!
//! ```text
//! UPDATE_SNAPSHOTS=1 cargo test --workspace --all-features --lib diary_tests
//! ```

mod counters;
mod spy;
mod workers;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use self::{
    spy::Spy,
    workers::{Work, work},
};
use crate::{AdmissionLock, Leases, LockCaller, LockRetry, OnStoreFailure, kept_tests::assert_kept};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn keep(file: &str, spy: &Spy) {
    assert_kept(&format!("src/diary_tests/{file}"), &spy.diary());
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_cap_by_leases_as_is_kept() {
    let spy = Spy::new();
    let leases = |seed| Leases::builder().expiry(millis(1_000)).wait_budget(millis(400)).seed(seed).build(spy.store());
    let all: Vec<_> = (1..=3).map(leases).collect();
    let plain = Work { bound: 3, rate: Some(40), requests: 5, time: millis(120), ..Work::default() };
    let works = [plain, Work { pause: millis(35), ..plain }, Work { time: millis(700), requests: 2, ..plain }];
    work(&spy, all.iter().zip(works)).await;
    spy.note(&format!("lost: {:?}", all.iter().map(Leases::lost).collect::<Vec<_>>()));
    keep("leases.txt", &spy);
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_cap_by_allotments_as_is_kept() {
    let spy = Spy::new();
    let build = |seed| {
        let leases = Leases::builder().expiry(millis(800)).wait_budget(millis(500)).local_shares(true);
        leases.seed(seed).build(spy.store())
    };
    let all: Vec<_> = (1..=3).map(build).collect();
    let plain = Work { bound: 6, rate: Some(120), requests: 6, time: millis(90), ..Work::default() };
    let works =
        [plain, Work { workers: 4, pause: millis(20), ..plain }, Work { time: millis(500), requests: 3, ..plain }];
    work(&spy, all.iter().zip(works)).await;
    for leases in &all {
        spy.note(&format!("holds and uses {:?}, lost {}", leases.local_share(&workers::key()), leases.lost()));
    }
    sleep(millis(900)).await;
    spy.note("the processes end");
    drop(all);
    keep("allotments.txt", &spy);
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_store_that_goes_and_comes_back_are_decided_as_is_kept() {
    for (file, local_shares) in [("gone.txt", false), ("gone_shares.txt", true)] {
        let spy = Spy::new();
        let ways = [
            OnStoreFailure::FailClosed,
            OnStoreFailure::FailOpen,
            OnStoreFailure::LocalShare { instances: std::num::NonZeroU32::new(2).unwrap() },
        ];
        let leases = |seed| {
            let leases = Leases::builder().expiry(millis(600)).wait_budget(millis(100)).local_shares(local_shares);
            leases.seed(seed).build(spy.store())
        };
        let all: Vec<_> = (1..=3).map(leases).collect();
        let plain = Work { bound: 4, workers: 3, requests: 7, time: millis(300), ..Work::default() };
        let outage = async {
            sleep(millis(500)).await;
            spy.go(true);
            sleep(millis(900)).await;
            spy.go(false);
        };
        let works = all.iter().zip(ways.map(|on_store_failure| Work { on_store_failure, ..plain }));
        tokio::join!(outage, work(&spy, works));
        spy.note(&format!("lost: {:?}", all.iter().map(Leases::lost).collect::<Vec<_>>()));
        keep(file, &spy);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_take_a_lock_in_turns_as_is_kept() {
    let spy = Spy::new();
    let retries = [
        LockRetry::Fixed(millis(20)),
        LockRetry::Jittered { first: millis(4), longest: millis(60) },
        LockRetry::Queue { first: millis(6), longest: millis(80) },
    ];
    for retry in retries {
        spy.note(&format!("# {retry:?}"));
        let lock = |seed| {
            let lock = AdmissionLock::builder().expiry(millis(300)).wait_budget(millis(250)).retry(retry).seed(seed);
            lock.build(spy.store(), workers::keys())
        };
        let processes: Vec<_> = (1..=3).map(lock).collect();
        let mut tasks = Vec::new();
        for (number, lock) in processes.iter().enumerate() {
            for caller in 0..3_u64 {
                let (lock, spy) = (lock.clone(), Arc::clone(&spy));
                tasks.push(tokio::spawn(async move {
                    sleep(millis(caller * 7 + number as u64 * 3)).await;
                    let max_wait = if caller == 1 { millis(90) } else { Duration::MAX };
                    let caller_of = LockCaller::new("acme").counted_as("gold", "run").max_wait(max_wait);
                    let began = Instant::now();
                    match lock.acquire(caller_of).await {
                        Ok(mut guard) => {
                            spy.note(&format!("{number}.{caller} has it after {:?}", began.elapsed()));
                            sleep(millis(25 + caller * 10)).await;
                            if caller == 2 {
                                spy.note(&format!("extended: {:?} of {:?}", guard.extend().await, guard.remaining()));
                            }
                            sleep(millis(5)).await;
                            if caller == 0 {
                                spy.note(&format!("released: {:?}", guard.release().await));
                            }
                        }
                        Err(error) => {
                            spy.note(&format!("{number}.{caller}: {:?} {:?}", error.failure(), error.waited()))
                        }
                    }
                }));
            }
        }
        for task in tasks {
            task.await.unwrap();
        }
        for lock in &processes {
            spy.note(&format!("{} requests, {:?}", lock.requests(), lock.waits()));
            assert_eq!(lock.times().len(), lock.waits().len(), "what is published is what is told");
        }
    }
    spy.note("# a holder that died, and one that is slow");
    let lock = AdmissionLock::builder().expiry(millis(100)).wait_budget(millis(300)).seed(9);
    let lock = lock.build(spy.store(), workers::keys());
    let guard = lock.acquire(LockCaller::new("acme")).await.unwrap();
    sleep(millis(60)).await;
    spy.note(&format!("remaining {:?}", guard.remaining()));
    let next = lock.acquire(LockCaller::new("acme")).await.unwrap();
    spy.note(&format!("taken over, remaining {:?} and {:?}", guard.remaining(), next.remaining()));
    spy.note(&format!("released: {:?}", guard.release().await));
    drop(next);
    spy.go(true);
    spy.note(&format!("gone: {:?}", lock.acquire(LockCaller::new("acme")).await.unwrap_err()));
    keep("locks.txt", &spy);
}

#[tokio::test(start_paused = true)]
async fn what_a_store_forgets_is_told_to_its_holders_as_is_kept() {
    for (file, local_shares) in [("forgets.txt", false), ("forgets_shares.txt", true)] {
        let spy = Spy::new();
        let leases = |seed| {
            let leases = Leases::builder().expiry(millis(400)).wait_budget(millis(300)).local_shares(local_shares);
            leases.seed(seed).build(spy.store())
        };
        let all: Vec<_> = (1..=3).map(leases).collect();
        let plain = Work { bound: 5, rate: Some(200), workers: 3, requests: 3, time: millis(450), ..Work::default() };
        let losses = async {
            for after in [330, 420] {
                sleep(millis(after)).await;
                spy.forget();
            }
        };
        let works = [plain, Work { bound: 5, time: millis(200), requests: 5, ..plain }, Work { workers: 1, ..plain }];
        tokio::join!(losses, work(&spy, all.iter().zip(works)));
        for leases in &all {
            spy.note(&format!("holds and uses {:?}, lost {}", leases.local_share(&workers::key()), leases.lost()));
        }
        keep(file, &spy);
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_a_line_of_its_own_looks_again_as_is_kept() {
    let spy = Spy::new();
    let build = |seed| {
        let leases = Leases::builder().expiry(millis(2_000)).wait_budget(millis(600)).local_shares(true);
        leases.seed(seed).build(spy.store())
    };
    let (holder, other) = (build(1), build(2));
    let claims = workers::claims(&Work { bound: 2, ..Work::default() });
    let mut held = vec![holder.admit(&claims).await.unwrap(), holder.admit(&claims).await.unwrap()];
    let refused = other.ask(&claims, |_| true).await.unwrap_err();
    spy.note(&format!("{refused:?}, {refused}"));
    let mut looks = 0;
    let listening = other.listen(claims.as_slice()[0].key(), || {
        looks += 1;
        spy.note(&format!("looks, with {} in line", other.waiting(&workers::key())));
        looks < 9
    });
    let release = async {
        sleep(millis(130)).await;
        spy.note("gives one back");
        drop(held.pop());
    };
    tokio::join!(listening, release);
    for _ in 0..3 {
        let began = Instant::now();
        let (asked, recall) = (other.ask(&claims, |_| true).await, other.ask(&claims, |_| false).await);
        spy.note(&format!("asked {}, recalled {} in {:?}", asked.is_ok(), recall.is_ok(), began.elapsed()));
        held.pop();
        sleep(millis(20)).await;
    }
    keep("watch.txt", &spy);
}

#[tokio::test(start_paused = true)]
async fn where_notices_were_missed_the_first_of_each_line_looks() {
    let lines = crate::poll_queue::PollQueues::default();
    let keys = ["x", "y"].map(|name| workers::keys().cap("a", "label", name));
    let (one, other) = (lines.stand(&keys[0]).await, lines.stand(&keys[1]).await);
    lines.ring(keys[0].as_str());
    assert!(timeout(millis(9), one.freed()).await.is_ok() && timeout(millis(9), other.freed()).await.is_err());
    lines.hear(&crate::Notice::Missed);
    assert!(timeout(millis(9), one.freed()).await.is_ok() && timeout(millis(9), other.freed()).await.is_ok());
    assert!(one.failure().is_none() && other.failure().is_none());
    one.fail(&crate::StoreError::Unavailable);
    assert!(one.failure().is_some() && other.failure().is_none(), "of this line alone");
}
