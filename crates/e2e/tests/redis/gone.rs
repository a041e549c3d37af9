//! What becomes of requests while there is no store.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tower_admission::store::{
    AdmissionLock, AfterRestart, Health, Keys, LeaseDenied, Leases, LockCaller, LockFailure, OnStoreFailure,
    RedisStore, Store, StoreError,
};

use super::support::{admitted, cap, claims, eventually, keys, ms, number, rate, request, server::Server, shared};

/// A server that takes connections and never says anything. Returns its address and what keeps it.
fn dead() -> (String, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    (format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port()), listener)
}

/// Nobody listens there.
fn nowhere() -> String {
    dead().0
}

fn store(url: &str) -> RedisStore {
    RedisStore::builder(url, keys()).after_restart(AfterRestart::Grant).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_dead_server_longer_than_the_time_limit() {
    let (url, _listener) = dead();
    let store = store(&url);
    let mut waits = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let error = store.acquire(&request(&claims([cap("x", 1)]), ms(1_000))).await.unwrap_err();
        waits.push((began.elapsed(), error));
    }
    for (elapsed, error) in &waits[..5] {
        assert_eq!((*elapsed, error), (ms(50), &StoreError::TimedOut { after: ms(50) }));
    }
    for (elapsed, error) in &waits[5..] {
        assert_eq!((*elapsed, error), (Duration::ZERO, &StoreError::BreakerOpen));
    }
    assert!(matches!(store.health(), Health::Down { .. }));
}

#[tokio::test]
async fn a_refused_connection_fails_before_the_time_limit() {
    let store = RedisStore::builder(&nowhere(), keys()).timeout(Duration::from_secs(30)).build().unwrap();
    let began = Instant::now();
    let error = store.acquire(&request(&claims([cap("x", 1)]), ms(1_000))).await.unwrap_err();
    assert_eq!(error, StoreError::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_without_being_asked() {
    let mut server = Server::start().await;
    let store = server.builder().after_restart(AfterRestart::Grant).timeout(ms(50)).build().unwrap();
    server.kill();
    let one = claims([cap("x", 1)]);
    eventually("the breaker opens", async || {
        store.acquire(&request(&one, ms(1_000))).await.err() == Some(StoreError::BreakerOpen)
    })
    .await;
    server.restart_empty().await;
    let back = Instant::now();
    eventually("it is found", async || store.health() == Health::Up).await;
    assert!(back.elapsed() < Duration::from_secs(2), "{:?}", back.elapsed());
    assert!(store.acquire(&request(&one, ms(1_000))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn probes_are_few_however_many_ask() {
    let (url, _listener) = dead();
    let store = Arc::new(store(&url));
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..600 {
                    let _ = store.acquire(&request(&claims([cap("x", 1)]), ms(1_000))).await;
                    tokio::time::sleep(ms(100)).await;
                }
            })
        })
        .collect();
    for task in asked {
        task.await.unwrap();
    }
    let Health::Down { since, probes } = store.health() else { panic!("{:?}", store.health()) };
    assert!(since > Duration::from_secs(50), "{since:?}");
    // A try to connect lasts up to a second, and so does the longest pause.
    assert!((20..=70).contains(&probes), "{probes}");
}

#[tokio::test]
async fn each_rule_does_what_it_says_while_the_store_is_gone() {
    let leases = Leases::builder().build(shared(store(&nowhere())));
    let local = OnStoreFailure::LocalShare { instances: number(3) };
    assert!(matches!(admitted(&leases, cap("closed", 9), 20).await, Err(LeaseDenied::Store(_))));
    let open = admitted(&leases, cap("open", 9).on_store_failure(OnStoreFailure::FailOpen), 20).await.unwrap();
    assert_eq!(open.len(), 20);
    assert!(open[0].is_without_store());
    let mut share = admitted(&leases, cap("local", 10).on_store_failure(local), 20).await.unwrap();
    assert_eq!(share.len(), 3, "10 / 3, rounded down");
    share.pop();
    assert_eq!(admitted(&leases, cap("local", 10).on_store_failure(local), 20).await.unwrap().len(), 1, "given back");
    let mode = tower_admission::store::RateMode::Window;
    let calls = rate("calls", 12, mode).every(Duration::from_secs(86_400)).on_store_failure(local);
    assert_eq!(admitted(&leases, calls, 20).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_store_that_comes_back_is_used_again() {
    let mut server = Server::start().await;
    let leases = Leases::builder()
        .build(shared(server.builder().after_restart(AfterRestart::Grant).timeout(ms(50)).build().unwrap()));
    let one = claims([cap("x", 9).on_store_failure(OnStoreFailure::LocalShare { instances: number(3) })]);
    assert!(!leases.admit(&one).await.unwrap().is_without_store(), "control");
    server.kill();
    assert!(leases.admit(&one).await.unwrap().is_without_store());
    server.restart_empty().await;
    eventually("the store is asked again", async || {
        // A late answer of a server that is up is no outage.
        leases.admit(&one).await.is_ok_and(|held| !held.is_without_store())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_anybody_in_a_line_behind_others() {
    for local_shares in [false, true] {
        let (url, _listener) = dead();
        let leases = Leases::builder().local_shares(local_shares).build(shared(store(&url)));
        let lock = AdmissionLock::builder().build(shared(store(&url)), keys());
        let one = claims([cap("x", 1)]);
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (leases, lock, one) = (leases.clone(), lock.clone(), one.clone());
                tokio::spawn(async move {
                    let began = Instant::now();
                    assert!(matches!(leases.admit(&one).await, Err(LeaseDenied::Store(_))));
                    let asked = began.elapsed();
                    assert!(lock.acquire(LockCaller::new("acme")).await.is_err());
                    (asked, began.elapsed() - asked)
                })
            })
            .collect();
        for task in tasks {
            let (asked, locked) = task.await.unwrap();
            assert!(asked <= ms(50) && locked <= ms(50), "{asked:?}, {locked:?}");
        }
    }
}

/// A server that does not speak TLS: an error, not a panic for want of cryptography.
#[tokio::test]
async fn a_connection_that_can_not_be_secured_is_an_error() {
    let server = Server::start().await;
    let url = server.url().replace("redis://", "rediss://");
    let store = RedisStore::builder(&url, keys()).timeout(ms(20_000)).build().unwrap();
    let error = store.acquire(&request(&claims([cap("x", 1)]), ms(1_000))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable | StoreError::Refused(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_lock_fails_at_once_with_the_store() {
    let (url, _listener) = dead();
    let lock = AdmissionLock::builder().build(shared(store(&url)), Keys::new("test").unwrap());
    let began = Instant::now();
    let error = lock.acquire(LockCaller::new("acme")).await.unwrap_err();
    assert_eq!(error.to_string(), "concurrency gate unavailable");
    assert_eq!(error.failure(), &LockFailure::Store(StoreError::TimedOut { after: ms(50) }));
    assert_eq!(began.elapsed(), ms(50));
    assert_eq!(lock.waits()[0].counts.failed, 1);
}
