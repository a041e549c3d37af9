//! Many namespaces and many keys over a slow connection: nothing of one waits for another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower_admission::store::{AfterRestart, Claim, Claims, LeaseDenied, LeaseGuard, Leases, RedisStore};

use super::support::{claims, eventually, keys, ms, number, proxy::Proxy, server::Server, shared, soak};

/// A cap in a namespace of its own.
fn of(namespace: usize, bound: u32) -> Claims {
    claims([Claim::cap(keys().cap(&format!("tenant-{namespace}"), "label", "orders"), number(bound))])
}

/// A store behind a round trip, with a time limit that a busy machine keeps.
fn store(url: &str) -> RedisStore {
    let builder = RedisStore::builder(url, keys()).after_restart(AfterRestart::Grant);
    builder.timeout(Duration::from_secs(5)).build().unwrap()
}

/// How many leases and allotments the server knows that are not over.
async fn held(server: &Server) -> i64 {
    let count = "local n = 0 for _, k in ipairs(redis.call('KEYS', '*:cap:*')) do \
                 if redis.call('TYPE', k).ok == 'zset' then \
                 n = n + redis.call('ZCOUNT', k, redis.call('TIME')[1] * 1000000, '+inf') end end return n";
    server.read(&["EVAL", count, "0"]).await
}

/// Admits one request in each namespace, some at a time.
async fn one_of_each(leases: &Leases, namespaces: usize) -> Vec<LeaseGuard> {
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let mut held = Vec::new();
                for namespace in (task..namespaces).step_by(32) {
                    held.push(leases.wait(&of(namespace, 8)).await.unwrap());
                }
                held
            })
        })
        .collect();
    let mut held = Vec::new();
    for task in tasks {
        held.extend(task.await.unwrap());
    }
    held
}

/// Four callers go through two hundred namespaces. At most four units are in use of any cap of eight, so no request can
/// find one full unless units that were given back are still counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_in_one_namespace_does_not_wait_for_others() {
    let server = Server::start().await;
    let proxy = Proxy::behind(server.port(), ms(2)).await;
    let leases = Leases::builder().build(shared(store(&proxy.url())));
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let rounds = if soak() { 4_000 } else { 1_000 };
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (leases, counts) = (leases.clone(), Arc::clone(&counts));
            tokio::spawn(async move {
                let mut namespace = task * 50;
                for _ in 0..rounds {
                    namespace = (namespace + 1) % 200;
                    match leases.admit(&of(namespace, 8)).await {
                        Ok(held) => drop(held),
                        Err(LeaseDenied::Full { .. }) => drop(counts[1].fetch_add(1, Ordering::Relaxed)),
                        Err(error) => panic!("{error}"),
                    }
                    counts[0].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let [attempts, refused] = [0, 1].map(|index: usize| counts[index].load(Ordering::Relaxed));
    println!("200 namespaces, 2 ms: {attempts} attempts, {refused} refused as full");
    assert_eq!(refused, 0);
}

/// What is owed is paid, however much it is, and also after the last one let go of the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_owed_is_thrown_away() {
    let server = Server::start().await;
    let proxy = Proxy::behind(server.port(), ms(2)).await;
    let leases = Leases::builder().expiry(Duration::from_secs(600)).build(shared(store(&proxy.url())));
    let each = if soak() { 800 } else { 30 };
    let tasks: Vec<_> = (0..200)
        .map(|task| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let mut kept = Vec::new();
                for number in 0..each {
                    kept.push(leases.admit(&of((task + 7 * number) % 500, 1_000_000)).await.unwrap());
                }
                kept
            })
        })
        .collect();
    let mut kept = Vec::new();
    for task in tasks {
        kept.extend(task.await.unwrap());
    }
    let admitted = kept.len();
    assert_eq!(usize::try_from(held(&server).await), Ok(admitted), "control: all of it is held");
    drop(leases);
    let dropped = Instant::now();
    drop(kept);
    let mut left = held(&server).await;
    while left > 0 && dropped.elapsed() < Duration::from_secs(if soak() { 120 } else { 20 }) {
        sleep(ms(20)).await;
        left = held(&server).await;
    }
    println!("500 namespaces, 2 ms: of {admitted} leases {left} are held {:?} after the last drop", dropped.elapsed());
    assert_eq!(left, 0);
}

/// Longer than a busy machine keeps a process waiting.
const EXPIRY: Duration = Duration::from_secs(8);

/// What is held in many namespaces is renewed in time.
async fn are_renewed(server: &Server, leases: Leases, namespaces: usize, what: &str) {
    let all = one_of_each(&leases, namespaces).await;
    sleep(EXPIRY * if soak() { 5 } else { 2 }).await;
    let lost = all.iter().filter(|held| held.is_lost()).count();
    let known = held(server).await;
    println!("{namespaces} {what}: {lost} lost, the server knows {known}, {:?}", leases.health());
    assert_eq!((lost, leases.lost()), (0, 0));
    assert!(known >= i64::try_from(namespaces).unwrap());
}

async fn a_thousand_are_renewed(round_trip: u64) {
    let server = Server::start().await;
    let proxy = Proxy::behind(server.port(), ms(round_trip)).await;
    let leases = Leases::builder().expiry(EXPIRY).build(shared(store(&proxy.url())));
    are_renewed(&server, leases, 1_000, &format!("namespaces at {round_trip} ms")).await;
    assert!(server.commands("evalsha").await < 4_000, "in batches");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_thousand_namespaces_are_renewed_in_time() {
    a_thousand_are_renewed(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_over_a_slow_connection() {
    a_thousand_are_renewed(20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_are_in_a_cluster() {
    let proxy = Proxy::start(0).await;
    let announced = proxy.port().to_string();
    let server = super::cluster::cluster_with(&["--cluster-announce-port", &announced]).await;
    proxy.lead_to(server.port());
    proxy.delay(ms(5));
    let store = RedisStore::cluster([proxy.url().as_str()], keys()).after_restart(AfterRestart::Grant);
    let store = shared(store.timeout(Duration::from_secs(5)).build().unwrap());
    let leases = Leases::builder().expiry(EXPIRY).build(store);
    are_renewed(&server, leases, 1_000, "namespaces of a cluster at 5 ms").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_shares_of_thousands_of_keys_are_renewed_in_time() {
    let server = Server::start().await;
    let proxy = Proxy::behind(server.port(), ms(2)).await;
    let leases = Leases::builder().expiry(EXPIRY).local_shares(true).build(shared(store(&proxy.url())));
    are_renewed(&server, leases, 3_000, "local shares at 2 ms").await;
}

/// A process that renews much hears all the same that others want what it has to spare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_are_heard_while_much_is_renewed() {
    let server = Server::start().await;
    let proxy = Proxy::behind(server.port(), ms(20)).await;
    let build = |url: &str| Leases::builder().expiry(ms(4_000)).local_shares(true).build(shared(store(url)));
    let (rich, poor) = (build(&proxy.url()), build(&server.url()));
    let kept = one_of_each(&rich, 300).await;
    let mut slowest = Duration::ZERO;
    for spare in 0..10 {
        // Held by the first process, used by nobody.
        let wanted = of(1_000 + spare, 1);
        drop(rich.wait(&wanted).await.unwrap());
        assert_eq!(rich.local_share(wanted.as_slice()[0].key()), (1, 0), "control");
        let asked = Instant::now();
        let got = poor.wait(&wanted).await;
        slowest = slowest.max(asked.elapsed());
        assert!(got.is_ok(), "{got:?}");
        // So that the renewals come at different times.
        sleep(ms(150)).await;
    }
    println!("300 local shares at 20 ms: what others want comes within {slowest:?}");
    assert!(slowest < ms(700), "{slowest:?}");
    drop(kept);
}

/// Debts that were not paid for want of a server are paid when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_owed_is_paid_when_the_server_is_back() {
    let server = Server::start().await;
    let builder = server.builder().after_restart(AfterRestart::Grant).timeout(ms(1_000));
    let leases = Leases::builder().expiry(Duration::from_secs(600)).build(shared(builder.build().unwrap()));
    let mut kept = Vec::new();
    for namespace in 0..6_000 {
        kept.push(leases.admit(&of(namespace % 50, 1_000)).await.unwrap());
    }
    server.stop();
    drop(kept);
    sleep(ms(1_500)).await;
    server.go_on();
    eventually("all of it is given back", async || held(&server).await == 0).await;
}

/// A key of somebody else's where that of a cap should be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_one_key_is_no_matter_of_others() {
    let server = Server::start().await;
    let expiry = ms(2_000);
    let leases = Leases::builder().expiry(expiry).build(shared(store(&server.url())));
    let all = one_of_each(&leases, 60).await;
    for wrong in [0, 20, 40] {
        server.ask(&["SET", of(wrong, 8).as_slice()[0].key().as_str(), "x"]).await.unwrap();
    }
    sleep(expiry * 2).await;
    let lost: Vec<_> = all.iter().enumerate().filter(|(_, held)| held.is_lost()).map(|(index, _)| index).collect();
    println!("60 namespaces, 3 keys of others: {} lost", lost.len());
    assert_eq!(lost.len(), 3);
    drop(all);
    eventually("the others are given back", async || held(&server).await == 0).await;
}

/// Debts outlive the runtime that was to pay them.
#[test]
fn what_is_owed_is_paid_by_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let (server, proxy) = second.block_on(async {
        let server = Server::start().await;
        let proxy = Proxy::behind(server.port(), ms(20)).await;
        (server, proxy)
    });
    let leases = Leases::builder().expiry(Duration::from_secs(600)).build(shared(store(&proxy.url())));
    first.block_on(async {
        let all = one_of_each(&leases, 100).await;
        drop(all);
        // The first of them are on their way.
        sleep(ms(5)).await;
    });
    drop(first);
    second.block_on(async {
        eventually("it answers again", async || leases.admit(&of(0, 1_000)).await.is_ok()).await;
        eventually("all of it is given back", async || held(&server).await == 0).await;
    });
}
