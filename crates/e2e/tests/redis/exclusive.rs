//! Never more than the cap: tasks with connections of their own against an outside ledger.

use std::{sync::Arc, time::Duration};

use tower_admission::store::{Leases, MemoryStore, Store};

use super::support::{acquire, cap, claims, ledger::Ledger, server::Server, shared};

async fn crowd(stores: Vec<Arc<dyn Store>>, ledger: &Ledger) {
    let seven = claims([cap("seven", 7)]);
    let mut tasks = Vec::new();
    for store in stores {
        for _ in 0..8 {
            let (store, seven, ledger) = (Arc::clone(&store), seven.clone(), ledger.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..200 {
                    ledger.attempt();
                    let Ok(lease) = acquire(&*store, &seven, Duration::from_secs(60)).await else { continue };
                    let entry = ledger.enter();
                    tokio::task::yield_now().await;
                    drop(entry);
                    store.release(&[lease]).await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_their_own_stay_within_the_cap() {
    let server = Server::start().await;
    let ledger = Ledger::new(7);
    crowd((0..4).map(|_| shared(server.store())).collect(), &ledger).await;
    assert_eq!((ledger.peak(), ledger.over()), (7, 0));
    let memory = MemoryStore::new();
    let ledger = Ledger::new(7);
    crowd((0..4).map(|_| shared(memory.clone())).collect(), &ledger).await;
    assert_eq!(ledger.over(), 0);
}

/// The runbook in small: ten starts at once, a cap of two, three processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_two_of_ten_concurrent_starts_are_admitted() {
    let server = Server::start().await;
    let processes: Vec<_> = (0..3).map(|_| Leases::builder().build(shared(server.store()))).collect();
    for round in 0..200 {
        let two = claims([cap(&format!("round-{round}"), 2)]);
        let starts: Vec<_> = (0..10)
            .map(|index| {
                let (leases, two) = (processes[index % 3].clone(), two.clone());
                tokio::spawn(async move { leases.admit(&two).await })
            })
            .collect();
        let mut held = Vec::new();
        for start in starts {
            held.extend(start.await.unwrap().ok());
        }
        assert_eq!(held.len(), 2, "round {round}");
    }
}
