//! Local shares under contention: what one process holds and others need goes back by a fair target.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::sleep};
use tower_admission::store::{Claims, Leases, Store};

use super::support::{cap, claims, ledger::Ledger, ms, server::Server, shared, soak};

/// A process with a store, a connection and a local share of its own, and clients that never stop.
struct Busy {
    grants: Arc<AtomicU64>,
    goes_on: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(store: Arc<dyn Store>, clients: usize, work: Duration, claims: &Claims, ledger: &Ledger) -> Self {
        let leases = Leases::builder().local_shares(true).build(store);
        let (grants, goes_on) = (Arc::<AtomicU64>::default(), Arc::new(AtomicBool::new(true)));
        let client = |_| {
            let (leases, claims, ledger) = (leases.clone(), claims.clone(), ledger.clone());
            let (grants, goes_on) = (Arc::clone(&grants), Arc::clone(&goes_on));
            tokio::spawn(async move {
                while goes_on.load(Ordering::SeqCst) {
                    let Ok(held) = leases.wait(&claims).await else { continue };
                    let entry = ledger.enter();
                    grants.fetch_add(1, Ordering::SeqCst);
                    sleep(work).await;
                    drop(entry);
                    drop(held);
                }
            })
        };
        let tasks = (0..clients).map(client).collect();
        Self { grants, goes_on, tasks }
    }

    async fn ends(self) -> u64 {
        self.goes_on.store(false, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.grants.load(Ordering::SeqCst)
    }
}

/// How many grants each of four processes gets, the first of which was there before the others.
async fn four(bound: u32, clients: [usize; 4], work: Duration, lasts: Duration) -> [u64; 4] {
    let server = Server::start().await;
    let ledger = Ledger::new(bound.into());
    let claims = claims([cap("contended", bound)]);
    let mut all = Vec::new();
    for clients in clients {
        all.push(Busy::start(shared(server.store()), clients, work, &claims, &ledger));
        sleep(ms(300)).await;
    }
    let before: Vec<_> = all.iter().map(|busy| busy.grants.load(Ordering::SeqCst)).collect();
    sleep(lasts).await;
    let after: Vec<_> = all.iter().map(|busy| busy.grants.load(Ordering::SeqCst)).collect();
    for busy in all {
        busy.ends().await;
    }
    assert_eq!(ledger.over(), 0, "peak {} of {bound}, {} grants", ledger.peak(), ledger.entered());
    let grants: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    println!("a cap of {bound} over clients {clients:?}: grants {grants:?}, peak {}", ledger.peak());
    grants.try_into().unwrap()
}

/// Jain's index: 1 if all got the same, a quarter if one got everything.
fn jain(grants: [u64; 4]) -> f64 {
    let all = grants.map(|grants| f64::from(u32::try_from(grants).unwrap()));
    let (sum, squares) = (all.iter().sum::<f64>(), all.iter().map(|grants| grants * grants).sum::<f64>());
    sum * sum / (4.0 * squares)
}

fn lasts() -> Duration {
    Duration::from_secs(if soak() { 20 } else { 4 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_of_two_serves_four_processes() {
    let grants = four(2, [10; 4], ms(10), lasts()).await;
    assert!(jain(grants) > 0.9, "{grants:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_of_two_hundred_gives_each_of_four_processes_a_share() {
    let grants = four(200, [220; 4], ms(50), lasts()).await;
    assert!(jain(grants) > 0.9, "{grants:?}");
}

/// Need decides: a process that could do with little gets all of it, and what it leaves is shared by the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_needs_less_than_its_part_gets_all_that_it_needs() {
    let grants = four(40, [60, 60, 60, 4], ms(20), lasts()).await;
    let (large, small) = (grants[..3].iter().sum::<u64>(), grants[3]);
    // Four of forty, and twelve each for the others.
    let part = f64::from(u32::try_from(small).unwrap()) / f64::from(u32::try_from(large + small).unwrap());
    assert!(part > 0.06 && part < 0.14, "{part}: {grants:?}");
    assert!(grants[..3].iter().all(|&grants| grants * 9 > large * 2), "{grants:?}");
}
