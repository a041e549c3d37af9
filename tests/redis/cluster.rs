//! A cluster: one node that has all slots is enough to be told off for keys that don't belong together.

use std::{num::NonZeroU32, time::Duration};

use tower_admission::store::{
    AdmissionLock, AfterRestart, Claim, Claims, Leases, LockCaller, LockRetry, RateMode, RedisStore, StoreError,
};

use crate::support::{cap, claims, eventually, keys, ms, number, rate, server::Server, shared};

async fn cluster() -> Server {
    let server = Server::with_args(&["--cluster-enabled", "yes"]).await;
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
            rate("calls", 1_000, RateMode::Bucket),
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
    assert!(lock.acquire(LockCaller::new("acme").patience(ms(50))).await.is_err());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_empty_restart_it_is_quiet_for_each_namespace() {
    let server = cluster().await;
    let url = server.url();
    let builder = RedisStore::cluster([url.as_str()], keys()).timeout(Duration::from_secs(5));
    let store = shared(builder.after_restart(AfterRestart::Quiet(ms(300))).build().unwrap());
    let one = claims([cap("x", 1)]);
    let request = crate::support::request(&one, ms(300));
    assert!(matches!(store.acquire(&request).await, Err(StoreError::Restarted { .. })));
    eventually("it grants", async || store.acquire(&request).await.is_ok()).await;
    assert_eq!(server.ask(&["EXISTS", "test:{acme}:mark"]).await, Ok(redis::Value::Int(1)));
}
