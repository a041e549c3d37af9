//! The admission lock.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use tower_admission::store::{
    AdmissionLock, AfterRestart, LockBuilder, LockCaller, LockFailure, LockRetry, MemoryStore, RedisStore, Store,
};

use super::support::{bounded, eventually, keys, ledger::Ledger, ms, proxy::Proxy, server::Server, shared};

const POLICIES: [LockRetry; 3] = [
    LockRetry::Fixed(ms(10)),
    LockRetry::Jittered { first: ms(5), longest: ms(100) },
    LockRetry::Queue { first: ms(5), longest: ms(100) },
];

const ACME: LockCaller<'_> = LockCaller::new("acme").counted_as("gold", "start");

fn lock(builder: LockBuilder, store: Arc<dyn Store>) -> AdmissionLock {
    builder.build(store, keys())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_under_each_policy() {
    let server = Server::start().await;
    for retry in POLICIES {
        let ledger = Ledger::new(1);
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let process = lock(AdmissionLock::builder().retry(retry).wait_budget(ms(30_000)), shared(server.store()));
            for _ in 0..8 {
                let (process, ledger) = (process.clone(), ledger.clone());
                tasks.push(tokio::spawn(async move {
                    for _ in 0..5 {
                        let guard = process.acquire(ACME).await.unwrap();
                        let entry = ledger.enter();
                        tokio::task::yield_now().await;
                        drop(entry);
                        assert!(guard.release().await.unwrap());
                    }
                }));
            }
        }
        for task in tasks {
            bounded("all had it", task).await.unwrap();
        }
        assert_eq!((ledger.peak(), ledger.entered()), (1, 160), "{retry:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_get_it_is_told_after_the_wait_budget_or_its_own_patience() {
    for retry in POLICIES {
        let lock = lock(AdmissionLock::builder().retry(retry).seed(7), shared(MemoryStore::new()));
        let held = lock.acquire(ACME).await.unwrap();
        for (patience, budget) in [(Duration::MAX, ms(2_000)), (ms(300), ms(300))] {
            let began = Instant::now();
            let error = lock.acquire(ACME.max_wait(patience)).await.unwrap_err();
            assert_eq!((began.elapsed(), error.waited()), (budget, budget), "{retry:?}");
            assert_eq!(error.failure(), &LockFailure::Busy);
            assert_eq!(error.to_string(), "concurrency gate unavailable");
        }
        drop(held);
        let counts = lock.waits()[0].counts.clone();
        assert_eq!((counts.taken, counts.busy, counts.failed), (1, 2, 0));
        assert_eq!(counts.buckets.iter().sum::<u64>(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_renewed_unless_asked() {
    let lock = lock(AdmissionLock::builder(), shared(MemoryStore::new()));
    let mut first = lock.acquire(ACME).await.unwrap();
    sleep(ms(9_000)).await;
    assert!(first.extend().await.unwrap());
    sleep(ms(9_000)).await;
    assert!(lock.acquire(ACME.max_wait(ms(500))).await.is_err(), "it was extended");
    assert!(first.remaining() < ms(501));
    let second = lock.acquire(ACME).await.unwrap();
    assert_eq!(first.remaining(), Duration::ZERO);
    assert!(!first.extend().await.unwrap());
    assert!(!first.release().await.unwrap(), "it is somebody else's");
    assert!(second.release().await.unwrap());
}

#[tokio::test]
async fn organisations_do_not_wait_for_each_other() {
    let server = Server::start().await;
    let lock = lock(AdmissionLock::builder(), shared(server.store()));
    let _acme = lock.acquire(ACME).await.unwrap();
    assert!(lock.acquire(LockCaller::new("umbrella")).await.is_ok());
    assert_eq!(server.ask(&["EXISTS", "test:admission:acme"]).await, Ok(redis::Value::Int(1)), "the key as documented");
    assert!(lock.acquire(ACME.max_wait(ms(50))).await.is_err(), "control");
}

#[tokio::test]
async fn it_is_freed_however_its_holder_ends() {
    let server = Server::start().await;
    let lock = lock(AdmissionLock::builder(), shared(server.store()));
    // Dropped, cancelled while it works, panicked.
    drop(lock.acquire(ACME).await.unwrap());
    let (theirs, (told, hears)) = (lock.clone(), tokio::sync::oneshot::channel());
    let cancelled = tokio::spawn(async move {
        let _guard = theirs.acquire(ACME).await.unwrap();
        told.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    hears.await.unwrap();
    cancelled.abort();
    let theirs = lock.clone();
    let panicked = tokio::spawn(async move {
        let _guard = theirs.acquire(ACME).await.unwrap();
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    assert!(lock.acquire(ACME).await.unwrap().release().await.unwrap());
}

#[tokio::test]
async fn a_lock_that_was_taken_for_nobody_is_freed() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let builder = RedisStore::builder(&proxy.url(), keys()).after_restart(AfterRestart::Grant).timeout(ms(2_000));
    let lock = lock(AdmissionLock::builder().expiry(Duration::from_secs(3_600)), shared(builder.build().unwrap()));
    assert!(lock.acquire(ACME).await.unwrap().release().await.unwrap());
    let held = async || server.ask(&["EXISTS", "test:admission:acme"]).await == Ok(redis::Value::Int(1));
    proxy.mute(true);
    let gives_up = tokio::spawn(async move {
        let _ = lock.acquire(ACME).await;
        std::future::pending::<()>().await;
    });
    eventually("it is taken", held).await;
    gives_up.abort();
    proxy.mute(false);
    eventually("it is freed, long before its expiry", async || !held().await).await;
}

/// How many requests it takes to let `callers` of one process through, each holding the lock for 20 ms.
async fn requests(retry: LockRetry, callers: usize) -> u64 {
    let builder = AdmissionLock::builder().retry(retry).wait_budget(Duration::from_secs(3_600)).seed(1);
    let lock = lock(builder, shared(MemoryStore::new()));
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let guard = lock.acquire(ACME).await.unwrap();
                sleep(ms(20)).await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    lock.requests()
}

#[tokio::test(start_paused = true)]
async fn one_of_a_process_asks_however_many_wait() {
    let [fixed, jittered, queue] = POLICIES;
    for retry in [jittered, queue] {
        let requests = requests(retry, 200).await;
        assert!(requests <= 200 * 6, "{requests} under {retry:?}");
    }
    let requests = requests(fixed, 200).await;
    assert!(requests > 200 * 100, "control: each by itself asks {requests} times");
}
