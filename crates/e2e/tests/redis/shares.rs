//! Allotments of capacity that a process holds: the cap never overshoots, and what is not used comes back.

use std::{sync::Arc, time::Duration};

use tower_admission::store::{LeaseDenied, Leases, MemoryStore, Store};

use super::support::{cap, claims, eventually, ledger::Ledger, ms, rate, server::Server, shared, soak};

fn leases(store: Arc<dyn Store>) -> Leases {
    Leases::builder().local_shares(true).expiry(ms(2_000)).build(store)
}

/// Four processes under one cap; returns how many were admitted.
async fn crowd(stores: Vec<Arc<dyn Store>>, ledger: &Ledger, rounds: u32) -> u64 {
    let fifty = claims([cap("fifty", 50)]);
    let mut tasks = Vec::new();
    for store in stores {
        let leases = leases(store);
        for task in 0..30 {
            let (leases, fifty, ledger) = (leases.clone(), fifty.clone(), ledger.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0..rounds {
                    ledger.attempt();
                    let Ok(held) = leases.wait(&fifty).await else { continue };
                    let entry = ledger.enter();
                    if (task + round) % 3 == 0 {
                        tokio::time::sleep(Duration::from_micros(200)).await;
                    } else {
                        tokio::task::yield_now().await;
                    }
                    drop(entry);
                    drop(held);
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    ledger.entered()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_with_blocks_stay_within_the_cap() {
    let server = Server::start().await;
    let ledger = Ledger::new(50);
    let rounds = if soak() { 2_000 } else { 300 };
    let stores = (0..4).map(|_| shared(server.store())).collect();
    let entered = crowd(stores, &ledger, rounds).await;
    let asked = server.commands("evalsha").await + server.commands("eval").await;
    println!("{} attempts, {entered} admitted, peak {}, {asked} scripts", ledger.attempts(), ledger.peak());
    assert_eq!((ledger.peak(), ledger.over()), (50, 0), "{} were admitted", ledger.entered());
    assert!(entered * 10 >= ledger.attempts() * 9, "hardly anybody waits in vain: {entered}");
    assert!(asked < entered / 2, "{asked} scripts for {entered}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_without_a_shared_store_the_ledger_sees_more_than_the_cap() {
    let ledger = Ledger::new(50);
    let stores = (0..4).map(|_| shared(MemoryStore::new())).collect();
    crowd(stores, &ledger, 50).await;
    assert!(ledger.over() > 0 && ledger.peak() > 50, "{}", ledger.peak());
}

#[tokio::test]
async fn what_one_process_does_not_use_another_gets_when_it_waits() {
    let server = Server::start().await;
    let (rich, poor) = (leases(shared(server.store())), leases(shared(server.store())));
    let ten = claims([cap("ten", 10)]);
    let key = ten.as_slice()[0].key();
    let mut held = Vec::new();
    for _ in 0..10 {
        held.push(rich.wait(&ten).await.unwrap());
    }
    assert_eq!(rich.local_share(key), (10, 10));
    assert!(matches!(poor.admit(&ten).await, Err(LeaseDenied::Full { claim: 0, .. })));
    held.clear();
    assert_eq!(rich.local_share(key).1, 0, "used by nobody, and on their way back, as the other one was refused");
    let got = poor.wait(&ten).await;
    assert!(got.is_ok(), "given back at once when wanted: {got:?}");
    drop(rich);
    drop(got);
    let mut all = Vec::new();
    eventually("all ten are had", async || {
        all.extend(poor.admit(&ten).await.ok());
        all.len() == 10
    })
    .await;
}

#[tokio::test]
async fn a_block_shrinks_to_what_is_used() {
    let server = Server::start().await;
    let leases = Leases::builder().local_shares(true).expiry(ms(300)).build(shared(server.store()));
    let hundred = claims([cap("hundred", 100)]);
    let key = hundred.as_slice()[0].key();
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(leases.admit(&hundred).await.unwrap());
    }
    held.truncate(3);
    eventually("the block shrinks", async || leases.local_share(key) == (3, 3)).await;
    held.clear();
    eventually("it is given back", async || leases.local_share(key) == (0, 0)).await;
    assert_eq!(leases.lost(), 0);
}

#[tokio::test]
async fn capacity_held_here_is_admitted_from_without_the_store() {
    let mut server = Server::start().await;
    let leases = leases(shared(server.store()));
    let many = claims([cap("many", 64), rate("calls", 600_000, tower_admission::store::RateMode::Window)]);
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(leases.admit(&many).await.unwrap());
    }
    let (units, used) = leases.local_share(many.as_slice()[0].key());
    assert!(units > used, "{units} of which {used} are used");
    server.kill();
    assert!(leases.admit_from_here(&many).is_some());
    held.clear();
}

/// A holder that is stopped must not use its allotment when it wakes up late: here its time limit is over, and the
/// store has lent the units to somebody else.
#[tokio::test]
async fn a_block_is_not_used_later_than_seven_tenths_of_its_expiry() {
    let server = Server::start().await;
    let leases = Leases::builder().local_shares(true).expiry(ms(1_000)).build(shared(server.store()));
    let many = claims([cap("many", 64)]);
    for _ in 0..4 {
        drop(leases.admit(&many).await.unwrap());
    }
    assert!(leases.admit_from_here(&many).is_some());
    // It can't be renewed from now on.
    server.stop();
    // This thread sleeps, so nothing of this process runs meanwhile, as if it were stopped.
    std::thread::sleep(ms(750));
    assert!(leases.admit_from_here(&many).is_none());
    server.go_on();
}
