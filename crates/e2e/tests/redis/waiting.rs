//! Waiting for a cap that others hold.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tower_admission::store::{LeaseDenied, Leases, MemoryStore};

use super::support::{acquire, bounded, cap, claims, eventually, ms, server::Server, shared};

#[tokio::test(start_paused = true)]
async fn the_wait_ends_with_its_budget() {
    for local_shares in [false, true] {
        let leases = Leases::builder().local_shares(local_shares).build(shared(MemoryStore::new()));
        let one = claims([cap("one", 1)]);
        let _held = leases.admit(&one).await.unwrap();
        let began = Instant::now();
        assert!(matches!(leases.wait(&one).await, Err(LeaseDenied::Full { claim: 0, .. })));
        assert_eq!(began.elapsed(), ms(2_000));
        assert_eq!(leases.waiting(one.as_slice()[0].key()), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_here_or_elsewhere_wakes_the_first_at_once() {
    for same_process in [true, false] {
        let memory = MemoryStore::new();
        let here = Leases::builder().seed(1).build(shared(memory.clone()));
        let there = if same_process { here.clone() } else { Leases::builder().seed(2).build(shared(memory)) };
        let one = claims([cap("one", 1)]);
        let held = there.admit(&one).await.unwrap();
        let waiter = tokio::spawn({
            let (here, one) = (here.clone(), one.clone());
            async move { here.wait(&one).await.map(|held| (Instant::now(), held)) }
        });
        // By now its pauses are a quarter of a second long.
        sleep(ms(1_500)).await;
        let released = Instant::now();
        drop(held);
        let (granted, _held) = waiter.await.unwrap().unwrap();
        // What is timed to the millisecond by Tokio.
        assert!(granted - released <= ms(1), "{:?}, same process: {same_process}", granted - released);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_serves_its_waiters_in_order() {
    let leases = Leases::builder().wait_budget(Duration::from_secs(60)).build(shared(MemoryStore::new()));
    let one = claims([cap("one", 1)]);
    let held = leases.admit(&one).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for index in 0..20 {
        let (leases, one, order) = (leases.clone(), one.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let held = leases.wait(&one).await.unwrap();
            order.lock().unwrap().push(index);
            sleep(ms(3)).await;
            drop(held);
        }));
        sleep(ms(1)).await;
    }
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_ask_like_one() {
    let server = Server::start().await;
    let one = claims([cap("one", 1)]);
    let holder = server.store();
    let lease = acquire(&holder, &one, Duration::from_secs(60)).await.unwrap();
    let processes: Vec<_> =
        (0..4).map(|_| Leases::builder().wait_budget(Duration::from_secs(60)).build(shared(server.store()))).collect();
    let mut tasks = Vec::new();
    for process in &processes {
        // The first of each takes its place before the others come: who comes asks once.
        for _ in 0..250 {
            let (process, one) = (process.clone(), one.clone());
            tasks.push(tokio::spawn(async move { process.wait(&one).await.map(drop) }));
        }
    }
    let key = one.as_slice()[0].key();
    eventually("all of them wait", async || processes.iter().map(|one| one.waiting(key)).sum::<usize>() == 1_000).await;
    let before = server.commands("evalsha").await;
    let began = Instant::now();
    sleep(ms(2_000)).await;
    let asked = (server.commands("evalsha").await - before) as f64 / began.elapsed().as_secs_f64();
    println!("{asked:.1} questions a second of four processes with 250 waiters each");
    assert!(asked / 4.0 < 20.0, "{asked} a second");
    assert!(asked > 4.0, "control: they do ask");
    tower_admission::store::Store::release(&holder, &[lease]).await.unwrap();
    for task in tasks {
        bounded("each has its turn", task).await.unwrap().unwrap();
    }
}
