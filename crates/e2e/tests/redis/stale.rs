//! A server that comes back with what it knew some time ago.

use std::time::Duration;

use tokio::time::Instant;
use tower_admission::store::{AfterRestart, LeaseDenied, Leases, RedisStore, Store, StoreError};

use super::support::{acquire, cap, claims, eventually, keys, ms, proxy::Proxy, request, server::Server, shared, soak};

const EXPIRY: Duration = ms(2_000);

fn leases(url: &str, after_restart: AfterRestart, local_shares: bool) -> Leases {
    let builder = RedisStore::builder(url, keys()).after_restart(after_restart);
    let store = builder.timeout(Duration::from_secs(5)).build().unwrap();
    Leases::builder().expiry(EXPIRY).local_shares(local_shares).build(shared(store))
}

/// How the older data comes about.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The server is killed and started with what it wrote down last.
    Restart,
    /// Another server takes over, which knows what it was told last.
    TakeOver,
}

/// How many of a cap of four a newcomer gets while four are held, after the server came back with what it knew before
/// that; how many of these were lost; and whether the newcomer was told of the restart.
async fn beside_four(fault: Fault, after_restart: AfterRestart, local_shares: bool) -> (usize, u64, bool) {
    let mut server = Server::start().await;
    let other = Server::with_args(&["--replicaof", "127.0.0.1", &server.port().to_string()]).await;
    let proxy = Proxy::start(server.port()).await;
    let four = claims([cap("four", 4)]);
    let [holder, newcomer] = [(); 2].map(|()| leases(&proxy.url(), after_restart, local_shares));
    eventually("the first one is let in", async || holder.admit(&four).await.is_ok()).await;
    match fault {
        Fault::Restart => drop(server.ask(&["SAVE"]).await.unwrap()),
        Fault::TakeOver => {
            server.ask(&["SET", "told", "1"]).await.unwrap();
            eventually("the other one is told", async || {
                other.ask(&["EXISTS", "told"]).await == Ok(redis::Value::Int(1))
            })
            .await;
            other.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        }
    }
    let mut held = Vec::new();
    eventually("four are let in", async || {
        held.extend(holder.wait(&four).await.ok());
        held.len() == 4
    })
    .await;
    assert!(newcomer.admit(&four).await.is_err(), "control");
    match fault {
        Fault::Restart => server.restart().await,
        Fault::TakeOver => {
            proxy.lead_to(other.port());
            server.kill();
        }
    }
    let back = Instant::now();
    let (mut more, mut told) = (Vec::new(), false);
    // Longer than it is quiet, and longer than it takes those who hold something to learn that it is lost.
    while back.elapsed() < EXPIRY + EXPIRY / 2 {
        match newcomer.admit(&four).await {
            Ok(one) => more.push(one),
            Err(error) => told |= matches!(error, LeaseDenied::Store(StoreError::Restarted { .. })),
        }
        tokio::time::sleep(ms(5)).await;
    }
    (more.len(), holder.lost(), told)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_it_nothing_is_granted_that_others_hold() {
    for fault in [Fault::Restart, Fault::TakeOver] {
        for local_shares in [false, true] {
            for _ in 0..if soak() { 20 } else { 1 } {
                let (more, lost, told) = beside_four(fault, AfterRestart::Quiet(EXPIRY), local_shares).await;
                println!("{fault:?}, local shares {local_shares}: {more} of 4 beside 4, {lost} lost");
                assert_eq!((more, lost, told), (0, 0, true));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_who_is_not_quiet_grants_it_twice() {
    for fault in [Fault::Restart, Fault::TakeOver] {
        assert!(beside_four(fault, AfterRestart::Grant, false).await.0 > 0);
    }
}

/// Who may not ask for the name of the run sees an empty server only, and does not disturb those who may.
#[tokio::test]
async fn those_who_may_not_ask_for_the_run_go_on_as_before() {
    let server = Server::start().await;
    let rules = ["ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-info"];
    server.ask(&rules).await.unwrap();
    let url = format!("redis://limited:secret@127.0.0.1:{}/", server.port());
    let build = |url: &str| {
        let builder = RedisStore::builder(url, keys());
        builder.after_restart(AfterRestart::Quiet(ms(300))).timeout(Duration::from_secs(5)).build().unwrap()
    };
    let (limited, full) = (build(&url), build(&server.url()));
    let many = claims([cap("many", 1_000)]);
    for store in [&full, &limited] {
        eventually("it grants", async || store.acquire(&request(&many, EXPIRY)).await.is_ok()).await;
    }
    for _ in 0..20 {
        assert!(acquire(&full, &many, EXPIRY).await.is_ok());
        assert!(acquire(&limited, &many, EXPIRY).await.is_ok());
    }
}
