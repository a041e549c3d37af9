//! Runtimes that end with requests in line.

use std::{thread, time::Duration};

use http::Request;
use tokio::runtime::{Builder, Runtime};
use tower::{Layer, ServiceExt};
use tower_admission::{Admission, AdmissionLayer, Permit, Rejection, Ticket, limit::Fixed};

use super::{
    ATTEMPTS, LIMIT, all_is_given_back,
    connections::Stack::{Axum, Hyper, Tonic},
    eight_run,
};
use crate::support::{Client, Ends, Probe, Version, bounded, is_idle};

fn two_workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A bounded wait outside of a runtime.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not come to pass that {what}");
}

#[test]
fn a_runtime_that_ends_gives_back_the_slots_and_places_of_its_tasks() {
    let (admission, probe) = (eight_run(), Probe::open());
    let service = probe.arrivals().layer(AdmissionLayer::new(&admission).layer(Ends::new(&probe)));
    let requests = ATTEMPTS / 10;
    for round in 0..10 {
        let runtime =
            if round % 2 == 0 { two_workers() } else { Builder::new_current_thread().enable_time().build().unwrap() };
        for _ in 0..requests {
            runtime.spawn(service.clone().oneshot(Request::builder().uri("/hang").body(String::new()).unwrap()));
        }
        runtime.block_on(async {
            while admission.snapshot().waiting < requests - LIMIT {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(admission.snapshot().in_flight, LIMIT);
        drop(runtime);
        assert!(is_idle(&admission.snapshot()), "round {round}: {:?}", admission.snapshot());
    }
    Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        all_is_given_back("runtime dropped", &admission, &probe).await;
    });
}

#[test]
fn a_server_whose_runtime_ends_gives_back_the_slots_and_places_of_all_its_requests() {
    for stack in [Hyper, Axum, Tonic] {
        let (admission, probe) = (eight_run(), Probe::open());
        let clients = two_workers();
        for round in 0..10 {
            let serving = two_workers();
            let server = serving.block_on(stack.serve(&Ends::new(&probe), &admission));
            let address = server.address;
            clients.spawn(async move {
                let client = Client::connect(address, Version::H2).await;
                for _ in 0..ATTEMPTS / 10 {
                    let mut stream = client.share();
                    tokio::spawn(async move { stream.get("/hang").await.map(drop) });
                }
            });
            eventually("eight run and all others wait", || {
                let snapshot = admission.snapshot();
                (snapshot.in_flight, snapshot.waiting) == (LIMIT, ATTEMPTS / 10 - LIMIT)
            });
            serving.shutdown_timeout(Duration::from_secs(10));
            assert!(is_idle(&admission.snapshot()), "round {round}: {:?}", admission.snapshot());
        }
        clients.block_on(all_is_given_back(&format!("{stack:?}, runtime dropped"), &admission, &probe));
    }
}

/// Waits in a task of its own: whoever bounds the wait must not poll it.
async fn wait(admission: &Admission) -> Result<Permit, Rejection> {
    bounded("a wait", tokio::spawn(admission.admit(Ticket::new()))).await.unwrap()
}

/// The task that watches the time ends with its runtime, and must start again on the next.
#[test]
fn waits_end_by_time_on_the_next_runtime_too() {
    let admission =
        Admission::builder().limit(Fixed::new(1)).queue(10).max_wait(Duration::from_millis(5)).build().unwrap();
    let held = admission.try_admit(Ticket::new()).unwrap();
    for _ in 0..20 {
        let runtime = two_workers();
        let rejection = runtime.block_on(wait(&admission)).unwrap_err();
        assert_eq!(rejection.reason(), tower_admission::Reason::QueueTimeout);
    }
    // Those who wait on a runtime that stays are not forgotten when the other one takes the watch with it.
    let (ends, stays) = (two_workers(), two_workers());
    ends.block_on(wait(&admission)).unwrap_err();
    let waiter = stays.spawn(admission.admit(Ticket::new()));
    drop(ends);
    assert!(
        stays
            .block_on(async { tokio::time::timeout(Duration::from_secs(30), waiter).await.unwrap() })
            .unwrap()
            .is_err()
    );
    drop(held);
    assert!(is_idle(&admission.snapshot()));
}
