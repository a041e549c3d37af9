//! A node of a cluster that comes back with what it knew some time ago, or a replica of it that takes over.

use std::time::Duration;

use tokio::time::Instant;
use tower_admission::store::{AfterRestart, Leases, RedisStore};

use super::{
    cluster::{cluster, id, second_node},
    support::{cap, claims, eventually, keys, ms, server::Server, shared},
};

/// Longer than the two seconds for which a node that was down serves nothing anyway, and so long that the holder finds the
/// node that took over before three fifths of it are over.
const EXPIRY: Duration = ms(12_000);

/// A node that has a copy of what the other one has.
async fn replica_of(server: &Server) -> Server {
    let replica = second_node(server).await;
    replica.ask(&["CLUSTER", "REPLICATE", &id(server).await]).await.unwrap();
    eventually("it is in step", async || {
        replica.read::<String>(&["INFO", "replication"]).await.contains("master_link_status:up")
    })
    .await;
    replica
}

/// What the replica is told from now on does not arrive.
async fn cut_off(replica: &Server) {
    replica.ask(&["CONFIG", "SET", "masterauth", "wrong"]).await.unwrap();
    replica.ask(&["CLIENT", "KILL", "TYPE", "master"]).await.unwrap();
}

/// How many of a cap of four a newcomer gets beside four, and how many of these were lost. It gets some afterwards.
async fn beside_four(takes_over: bool, after_restart: AfterRestart, local_shares: bool) -> (usize, u64) {
    let mut server = cluster().await;
    let replica = if takes_over { Some(replica_of(&server).await) } else { None };
    let urls: Vec<_> = [Some(&server), replica.as_ref()].into_iter().flatten().map(Server::url).collect();
    let build = || {
        let store = RedisStore::cluster(urls.iter().map(String::as_str), keys()).after_restart(after_restart);
        // Several calls fit into an expiry, so that those which the dead node does not answer cost no lease.
        let store = store.timeout(Duration::from_secs(1)).build().unwrap();
        Leases::builder().expiry(EXPIRY).local_shares(local_shares).build(shared(store))
    };
    let (holder, newcomer) = (build(), build());
    let four = claims([cap("four", 4)]);
    eventually("the first one is let in", async || holder.admit(&four).await.is_ok()).await;
    match &replica {
        None => drop(server.ask(&["SAVE"]).await.unwrap()),
        Some(replica) => cut_off(replica).await,
    }
    let mut held = Vec::new();
    eventually("four are let in", async || {
        held.extend(holder.wait(&four).await.ok());
        held.len() == 4
    })
    .await;
    assert!(newcomer.admit(&four).await.is_err(), "control");
    match &replica {
        None => server.restart().await,
        Some(replica) => {
            server.kill();
            replica.ask(&["CLUSTER", "FAILOVER", "TAKEOVER"]).await.unwrap();
        }
    }
    let back = Instant::now();
    let mut more = Vec::new();
    while back.elapsed() < EXPIRY + EXPIRY / 2 {
        more.extend(newcomer.admit(&four).await.ok());
        tokio::time::sleep(ms(5)).await;
    }
    let (got, lost) = (more.len(), holder.lost());
    println!("takes over {takes_over}, local shares {local_shares}: {got} of 4 beside 4, {lost} lost");
    drop((more, held));
    eventually("it grants again", async || newcomer.admit(&four).await.is_ok()).await;
    (got, lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_comes_back_with_older_data_grants_nothing_that_others_hold() {
    let quiet = AfterRestart::Quiet(EXPIRY);
    assert_eq!(tokio::join!(beside_four(false, quiet, false), beside_four(false, quiet, true)), ((0, 0), (0, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_a_replica_that_takes_over() {
    let quiet = AfterRestart::Quiet(EXPIRY);
    assert_eq!(tokio::join!(beside_four(true, quiet, false), beside_four(true, quiet, true)), ((0, 0), (0, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_without_a_quiet_time_both_grant_it_twice() {
    let (restarted, taken_over) =
        tokio::join!(beside_four(false, AfterRestart::Grant, false), beside_four(true, AfterRestart::Grant, false));
    assert!(restarted.0 > 0 && taken_over.0 > 0, "{restarted:?} {taken_over:?}");
}
