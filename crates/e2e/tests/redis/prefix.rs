//! What a server is asked to allow: commands, and keys and channels that begin with the prefix.

use std::time::Duration;

use tower_admission::store::{
    AdmissionLock, AfterRestart, Claim, Claims, Keys, Leases, LockCaller, LockRetry, RateMode, RedisStore,
};

use super::support::{eventually, ms, number, server::Server, shared};

/// The user of the documentation.
const RULES: &[&str] = &[
    "resetkeys",
    "~shop:*",
    "resetchannels",
    "&shop:notices",
    "-@all",
    "+hello",
    "+subscribe",
    "+publish",
    "+eval",
    "+evalsha",
    "+set",
    "+get",
    "+del",
    "+exists",
    "+pttl",
    "+pexpire",
    "+time",
    "+info",
    "+zadd",
    "+zrem",
    "+zcard",
    "+zcount",
    "+zscore",
    "+zrank",
    "+zrange",
    "+zrangebyscore",
    "+zremrangebyscore",
    "+zincrby",
    "+hget",
    "+hmget",
    "+hset",
];

async fn everything(store: RedisStore, keys: &Keys) -> Result<(), String> {
    let store = shared(store);
    let said = |error: &dyn std::fmt::Debug| format!("{error:?}");
    for local_shares in [false, true] {
        let leases = Leases::builder().local_shares(local_shares).expiry(ms(400)).build(store.clone());
        let smooth = RateMode::Smooth { burst: number(100) };
        let all = Claims::new(vec![
            Claim::cap(keys.cap("acme", "label", &format!("two-{local_shares}")), number(2)),
            Claim::rate(keys.rate("acme", "label", "calls"), number(1_000), RateMode::Window),
            Claim::rate(keys.rate("acme", "group", "paid"), number(1_000), smooth),
        ]);
        let all = all.unwrap();
        let held = [leases.wait(&all).await, leases.wait(&all).await];
        held.iter().try_for_each(|held| held.as_ref().map(drop).map_err(|error| said(error)))?;
        // Longer than an expiry: they are renewed, while others wait.
        let other = Leases::builder().local_shares(local_shares).wait_budget(ms(600)).build(store.clone());
        let refused = other.wait(&all).await;
        if !matches!(refused, Err(tower_admission::store::LeaseDenied::Full { .. })) {
            return Err(said(&refused));
        }
        if leases.lost() > 0 {
            return Err("leases were lost".to_owned());
        }
        drop(held);
        drop(other.wait(&all).await.map_err(|error| said(&error))?);
    }
    for retry in [LockRetry::Fixed(ms(5)), LockRetry::Queue { first: ms(5), longest: ms(50) }] {
        let lock = AdmissionLock::builder().retry(retry).build(store.clone(), keys.clone());
        let mut guard = lock.acquire(LockCaller::new("acme")).await.map_err(|error| said(error.failure()))?;
        assert!(lock.acquire(LockCaller::new("acme").max_wait(ms(50))).await.is_err());
        guard.extend().await.map_err(|error| said(&error))?;
        guard.release().await.map_err(|error| said(&error))?;
    }
    Ok(())
}

async fn as_user(server: &Server, rules: &[&str]) -> Result<(), String> {
    let mut words = vec!["ACL", "SETUSER", "shop", "reset", "on", ">secret"];
    words.extend(rules);
    server.ask(&words).await.unwrap();
    let keys = Keys::new("shop").unwrap();
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
    let store = RedisStore::builder(&url, keys.clone()).timeout(Duration::from_secs(5));
    everything(store.after_restart(AfterRestart::Quiet(ms(1))).build().unwrap(), &keys).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_touch_nothing_but_the_prefix_is_enough() {
    let server = Server::start().await;
    // The quiet time after the first start is that of the longest expiry.
    server.end_quiet("shop").await;
    assert_eq!(as_user(&server, RULES).await, Ok(()));
    let all: Vec<String> = server.read(&["KEYS", "*"]).await;
    assert!(all.len() >= 3 && all.iter().all(|key| key.starts_with("shop:")), "{all:?}");
    // None of the commands is there in vain, and the keys matter: without any of them it fails.
    let control: Vec<_> = RULES.iter().map(|&rule| if rule == "~shop:*" { "~other:*" } else { rule }).collect();
    assert!(as_user(&server, &control).await.is_err());
    let control: Vec<_> = RULES.iter().copied().filter(|&rule| rule != "+zcount").collect();
    assert!(as_user(&server, &control).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quiet_time_is_no_shorter_than_the_longest_expiry() {
    let server = Server::start().await;
    let process = || {
        let store = server.builder().after_restart(AfterRestart::Quiet(ms(100))).build().unwrap();
        Leases::builder().expiry(ms(3_000)).build(shared(store))
    };
    let (holder, newcomer) = (process(), process());
    let one = super::support::claims([super::support::cap("one", 1)]);
    server.end_quiet("test").await;
    let held = holder.admit(&one).await.unwrap();
    server.ask(&["FLUSHALL"]).await.unwrap();
    // Until the holder has renewed its lease nobody else is admitted, however short the quiet time was meant to be.
    let began = tokio::time::Instant::now();
    eventually("the lease is taken down again", async || {
        assert!(newcomer.admit(&one).await.is_err(), "two hold a cap of one after {:?}", began.elapsed());
        tokio::time::sleep(ms(10)).await;
        server.holders(&one.as_slice()[0]).await == 1
    })
    .await;
    assert!(newcomer.admit(&one).await.is_err() && !held.is_lost());
    drop(held);
    eventually("it is had after the quiet time", async || newcomer.admit(&one).await.is_ok()).await;
}
