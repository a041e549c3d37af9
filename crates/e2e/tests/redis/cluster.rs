//! A cluster: one node that has all slots is enough to be told off for keys that don't belong together.

use std::{num::NonZeroU32, time::Duration};

use tower_admission::store::{
    AdmissionLock, AfterRestart, AllotmentRequest, Claim, Claims, Health, Leases, LockCaller, LockRetry,
    OnStoreFailure, RateMode, RedisStore, Store, StoreError, Token,
};

use super::support::{cap, claims, eventually, keys, ms, number, rate, request, server::Server, shared};

pub(crate) async fn cluster() -> Server {
    cluster_with(&[]).await
}

/// The same with more arguments.
pub(crate) async fn cluster_with(args: &[&str]) -> Server {
    let server = Server::with_args(&[&["--cluster-enabled", "yes"], args].concat()).await;
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    eventually("the cluster is up", async || server.ask(&["SET", "x", "1"]).await.is_ok()).await;
    server
}

fn store(server: &Server) -> RedisStore {
    let url = server.url();
    RedisStore::cluster([url.as_str()], keys())
        .timeout(Duration::from_secs(5))
        .after_restart(AfterRestart::Grant)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_asked_belongs_together() {
    let server = cluster().await;
    for local_shares in [false, true] {
        let leases = Leases::builder().local_shares(local_shares).build(shared(store(&server)));
        let all = claims([
            cap(&format!("two-{local_shares}"), 2),
            rate("calls", 1_000, RateMode::Window),
            rate("group", 1_000, RateMode::Smooth { burst: number(100) }),
        ]);
        let held = [leases.wait(&all).await.unwrap(), leases.wait(&all).await.unwrap()];
        assert!(leases.admit(&all).await.is_err());
        drop(held);
        assert!(leases.wait(&all).await.is_ok());
    }
    let queue = LockRetry::Queue { first: ms(5), longest: ms(50) };
    let lock = AdmissionLock::builder().retry(queue).build(shared(store(&server)), keys());
    let guard = lock.acquire(LockCaller::new("acme")).await.unwrap();
    assert!(lock.acquire(LockCaller::new("acme").max_wait(ms(50))).await.is_err());
    assert!(guard.release().await.unwrap());
}

#[tokio::test]
async fn control_keys_that_do_not_belong_together_are_refused() {
    let server = cluster().await;
    let refused = server.ask(&["EVAL", "return 1", "2", "a", "b"]).await.unwrap_err();
    assert_eq!(refused.code(), Some("CROSSSLOT"));
    let cap = |namespace| Claim::cap(keys().cap(namespace, "label", "x"), NonZeroU32::MIN);
    let built = Claims::new(vec![cap("one"), cap("other")]);
    assert!(matches!(built, Err(StoreError::Configuration(_))), "an error where it is built, not where it is asked");
}

/// The mark of the server and the keys of a namespace are in slots of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_taken_for_a_single_server_counts_as_gone() {
    let server = cluster().await;
    let leases = Leases::builder().build(shared(server.builder().build().unwrap()));
    let open = claims([cap("x", 1).on_store_failure(OnStoreFailure::FailOpen)]);
    for _ in 0..3 {
        assert!(leases.admit(&open).await.unwrap().is_without_store());
    }
    assert_ne!(leases.health(), Health::Up);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_empty_restart_a_node_is_quiet() {
    let server = cluster().await;
    let url = server.url();
    let builder = RedisStore::cluster([url.as_str()], keys()).timeout(Duration::from_secs(5));
    let store = shared(builder.after_restart(AfterRestart::Quiet(Duration::from_secs(3_600))).build().unwrap());
    let one = claims([cap("x", 1)]);
    let request = request(&one, ms(300));
    let Err(StoreError::Restarted { retry_after }) = store.acquire(&request).await else { panic!("it grants") };
    assert!(retry_after > Duration::from_secs(3_000), "{retry_after:?}");
    // A lease that it doesn't know is taken down again, and keeps its place.
    let mut held =
        AllotmentRequest::new(Token::random().unwrap(), one.as_slice()[0].key().clone(), number(1), ms(60_000));
    (held.used, held.had) = (1, 1);
    assert_eq!(store.reserve(&held).await.unwrap().units, 1);
    assert!(matches!(store.acquire(&request).await, Err(StoreError::Restarted { .. })));
}

/// A node that takes over a slot: it knows the other one, and has no slots yet.
pub(crate) async fn second_node(first: &Server) -> Server {
    let second = Server::with_args(&["--cluster-enabled", "yes"]).await;
    let port = second.port().to_string();
    first.ask(&["CLUSTER", "MEET", "127.0.0.1", &port]).await.unwrap();
    let (here, there) = (id(first).await, id(&second).await);
    eventually("they know each other", async || {
        let known = async |server: &Server, id: &str| server.read::<String>(&["CLUSTER", "NODES"]).await.contains(id);
        known(first, &there).await
            && known(&second, &here).await
            && second.ask(&["GET", "x"]).await.is_err_and(|error| error.code() == Some("MOVED"))
    })
    .await;
    second
}

pub(crate) async fn id(server: &Server) -> String {
    server.read(&["CLUSTER", "MYID"]).await
}

async fn slot_of(key: &str, server: &Server) -> String {
    server.read::<u16>(&["CLUSTER", "KEYSLOT", key]).await.to_string()
}

/// Gives a slot that holds nothing, or nothing any more, to one of two nodes.
async fn give(slot: &str, from: &Server, to: &Server) {
    for server in [to, from] {
        server.ask(&["CLUSTER", "SETSLOT", slot, "NODE", &id(to).await]).await.unwrap();
    }
}

/// Begins to move the slot of `key`, and returns its number.
async fn begin_to_move(key: &str, from: &Server, to: &Server) -> String {
    let slot = slot_of(key, from).await;
    to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from).await]).await.unwrap();
    from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to).await]).await.unwrap();
    slot
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_slot_moves_its_namespace_is_served_where_its_keys_are() {
    let first = cluster().await;
    let second = second_node(&first).await;
    for local_shares in [false, true] {
        let leases = Leases::builder().local_shares(local_shares).expiry(ms(2_000)).build(shared(store(&first)));
        let here = async |claims: &Claims| leases.admit(claims).await;
        // Not at once: on a busy machine a renewal may overtake the question for a second unit.
        let soon = async |claims: &Claims| leases.wait(claims).await.unwrap();
        let named = |name: &str| Claim::cap(keys().cap(&format!("n-{local_shares}"), "label", name), number(2));
        let (old, new) = (claims([named("old")]), claims([named("new"), named("newer")]));
        let key = old.as_slice()[0].key().as_str();
        let held = soon(&old).await;
        let slot = begin_to_move(key, &first, &second).await;
        // A key that is still there, keys that are nowhere, and one that has moved with what is held of it.
        let also = soon(&old).await;
        assert!(here(&old).await.is_err(), "two are held");
        let of_new = [soon(&new).await, soon(&new).await];
        assert!(here(&new).await.is_err(), "two are held");
        let port = second.port().to_string();
        first.ask(&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", key]).await.unwrap();
        assert!(here(&old).await.is_err(), "two are held, which have moved as well");
        drop(also);
        eventually("what was released there is free", async || here(&old).await.is_ok()).await;
        give(&slot, &first, &second).await;
        drop(of_new);
        eventually("it is served by the other node", async || here(&new).await.is_ok()).await;
        assert!(!held.is_lost(), "it was renewed all the time");
        assert_eq!(leases.lost(), 0);
        eventually("the next answer ends what failed meanwhile", async || leases.health() == Health::Up).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_were_never_seen_are_served_at_once_and_leave_nothing_for_good() {
    let server = cluster().await;
    let url = server.url();
    let builder = RedisStore::cluster([url.as_str()], keys()).timeout(Duration::from_secs(5));
    let leases =
        Leases::builder().build(shared(builder.after_restart(AfterRestart::Quiet(ms(1_000))).build().unwrap()));
    // The least expiry decides, which is ten seconds here: for so long the node has to be up.
    let one = |namespace: &str| claims([Claim::cap(keys().cap(namespace, "label", "x"), number(1))]);
    eventually("the node has been up for long enough", async || leases.admit(&one("first")).await.is_ok()).await;
    for stranger in 0..200 {
        let held = leases.admit(&one(&format!("stranger-{stranger}"))).await;
        assert!(held.is_ok(), "{stranger}: {held:?}");
    }
    let all: Vec<String> = server.read(&["KEYS", "test:*"]).await;
    assert!(all.len() >= 200, "control: they leave something: {}", all.len());
    for key in all {
        let left: i64 = server.read(&["PTTL", &key]).await;
        assert!((1..=61_000).contains(&left), "{key} stays for {left} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_idle_process_holds_is_had_at_once_by_another_that_waits() {
    let server = cluster().await;
    let process = || Leases::builder().local_shares(true).build(shared(store(&server)));
    let (idle, other) = (process(), process());
    let ten = claims([cap("ten", 10)]);
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(idle.wait(&ten).await.unwrap());
    }
    held.clear();
    assert_eq!(idle.local_share(ten.as_slice()[0].key()), (10, 0), "control: nobody else has any");
    let began = tokio::time::Instant::now();
    let mut got = Vec::new();
    for _ in 0..10 {
        got.push(other.wait(&ten).await.unwrap());
    }
    assert!(began.elapsed() < ms(700), "{:?}", began.elapsed());
}

/// The other node serves all the while: a probe of it tells nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_closes_once_the_node_works_that_opened_it() {
    let first = cluster().await;
    let second = second_node(&first).await;
    let there = claims([cap("x", 1_000)]);
    let slot = slot_of(there.as_slice()[0].key().as_str(), &first).await;
    give(&slot, &first, &second).await;
    let store = store(&first);
    let asks = async || store.acquire(&request(&there, ms(60_000))).await;
    eventually("the second node serves it", async || asks().await.is_ok()).await;
    second.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let is_down = || matches!(store.health(), Health::Down { .. });
    eventually("the breaker opens", async || asks().await.is_err() && is_down()).await;
    let opened = tokio::time::Instant::now();
    while opened.elapsed() < ms(3_000) {
        assert!(is_down(), "{:?} after {:?}", store.health(), opened.elapsed());
        tokio::time::sleep(ms(5)).await;
    }
    assert!(first.ask(&["SET", "test:probe", "1"]).await.is_ok(), "control: where a single server is probed");
    second.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    eventually("it closes", async || asks().await.is_ok() && store.health() == Health::Up).await;
}
