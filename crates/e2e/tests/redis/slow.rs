//! A server that answers late: a request with local shares of several rules waits no longer than one with a lease.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tower_admission::store::{AfterRestart, Claims, Health, LeaseDenied, Leases, OnStoreFailure, RateMode, RedisStore};

use super::support::{cap, claims, eventually, keys, ledger::Ledger, ms, proxy::Proxy, rate, server::Server, shared};

fn four(number: usize) -> Claims {
    let named = |name: &str| format!("{name}-{number}");
    Claims::new(vec![
        cap(&named("label"), 100),
        cap(&named("namespace"), 100),
        rate(&named("label"), 10_000, RateMode::Window),
        rate(&named("group"), 10_000, RateMode::Window),
    ])
    .unwrap()
}

/// How long each of five requests for what nobody asked for before took, the shortest and the longest, and how many
/// were admitted.
async fn asked(by: Duration, limit: Duration) -> (Duration, Duration, usize) {
    let server = Server::start().await;
    let store = RedisStore::builder(&Proxy::behind(server.port(), by).await.url(), keys()).timeout(limit);
    let store = store.after_restart(AfterRestart::Grant).build().unwrap();
    let leases = Leases::builder().local_shares(true).build(shared(store));
    // The connection, which takes several answers.
    while leases.admit(&four(1_000)).await.is_err() {
        sleep(ms(20)).await;
    }
    let (mut times, mut admitted) = (Vec::new(), 0);
    for number in 0..5 {
        let began = Instant::now();
        admitted += usize::from(leases.admit(&four(number)).await.is_ok());
        times.push(began.elapsed());
    }
    let (least, most) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    println!("answers {by:?} late, limit {limit:?}: {least:?} to {most:?}, {admitted} of 5 admitted");
    (least, most, admitted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_rules_are_asked_for_at_once() {
    let (least, _, admitted) = asked(ms(100), ms(5_000)).await;
    assert_eq!(admitted, 5);
    assert!(least >= ms(100), "control: it has to ask");
    assert!(least < ms(200), "{least:?}: one round trip, not four");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_limit_holds_for_all_questions_of_a_request_together() {
    let server = Server::start().await;
    let store = RedisStore::builder(&Proxy::behind(server.port(), ms(60)).await.url(), keys()).timeout(ms(100));
    let store = store.after_restart(AfterRestart::Grant).build().unwrap();
    let leases = Leases::builder().local_shares(true).build(shared(store));
    while leases.admit(&four(1_000)).await.is_err() {
        sleep(ms(20)).await;
    }
    // Those who come behind others have to wait for their answers as well.
    let mut least = Duration::MAX;
    for number in 0..5 {
        let one = |_| {
            let (leases, claims) = (leases.clone(), four(number));
            tokio::spawn(async move {
                let began = Instant::now();
                drop(leases.admit(&claims).await);
                began.elapsed()
            })
        };
        let mut longest = Duration::ZERO;
        for task in (0..200).map(one).collect::<Vec<_>>() {
            longest = longest.max(task.await.unwrap());
        }
        least = least.min(longest);
    }
    assert!(least < ms(150), "{least:?} for a time limit of 100 ms");
}

/// Four instances of six workers share a cap of 8 for two seconds: while the store answers, none of them finds it gone, and the
/// cap holds although its rule fails open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_shares_stand_at_every_round_trip_that_the_time_limit_allows() {
    let limit = ms(150);
    let server = Server::start().await;
    for tenths in [1, 3, 5, 6, 7, 9] {
        let name = format!("c{tenths}");
        // What the machine takes by itself comes on top.
        let address = Proxy::behind(server.port(), limit * tenths / 10 - ms(10)).await.url();
        let (ledger, mut tasks) = (Ledger::new(8), tokio::task::JoinSet::new());
        for _ in 0..4 {
            let store = RedisStore::builder(&address, keys()).timeout(limit);
            let store = store.after_restart(AfterRestart::Grant).build().unwrap();
            let leases = Leases::builder().local_shares(true).build(shared(store));
            // The connection takes several answers.
            eventually("it is connected", async || leases.admit(&claims([cap("other", 99)])).await.is_ok()).await;
            for _ in 0..6 {
                let (leases, ledger) = (leases.clone(), ledger.clone());
                let some = claims([cap(&name, 8).on_store_failure(OnStoreFailure::FailOpen)]);
                tasks.spawn(async move {
                    let (until, mut gone) = (Instant::now() + ms(2_000), 0);
                    while Instant::now() < until {
                        match leases.admit(&some).await {
                            Ok(_held) => {
                                let _entry = ledger.enter();
                                sleep(ms(20)).await;
                            }
                            Err(refused) => {
                                gone += usize::from(matches!(refused, LeaseDenied::Store(_)));
                                ledger.attempt();
                                sleep(ms(5)).await;
                            }
                        }
                    }
                    gone
                });
            }
        }
        let gone: usize = tasks.join_all().await.into_iter().sum();
        let (served, refused) = (ledger.entered(), ledger.attempts());
        println!(
            "0.{tenths} of {limit:?}: {served} admitted, {refused} refused, {gone} of them gone, peak {}",
            ledger.peak()
        );
        assert_eq!(ledger.over(), 0, "peak {}", ledger.peak());
        // A machine that stops for a while is late by itself.
        assert!(gone * 50 <= served as usize, "{gone} of {served}");
        assert!(served > 250, "{served}");
    }
}

#[tokio::test]
async fn a_server_that_evicts_says_so() {
    let server = Server::start().await;
    for (policy, health) in
        [("noeviction", Health::Up), ("volatile-lru", Health::Evicting), ("allkeys-random", Health::Evicting)]
    {
        server.ask(&["CONFIG", "SET", "maxmemory-policy", policy]).await.unwrap();
        let leases = Leases::builder().build(shared(server.store()));
        drop(leases.admit(&claims([cap("x", 99)])).await.unwrap());
        assert_eq!(leases.health(), health, "{policy}");
    }
}

#[tokio::test]
async fn a_server_that_is_new_says_when_it_begins_to_grant() {
    let server = Server::start().await;
    let quiet = AfterRestart::Quiet(ms(12_000));
    let leases = Leases::builder().build(shared(server.builder().after_restart(quiet).build().unwrap()));
    leases.admit(&claims([cap("x", 99)])).await.unwrap_err();
    let Health::Quiet { remaining } = leases.health() else { panic!("{:?}", leases.health()) };
    assert!(remaining > ms(5_000) && remaining <= ms(12_000), "{remaining:?}");
}
