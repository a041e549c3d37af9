//! Decisions that don't bind.

use std::future::Future;

use axum::{Router, routing::get};
use tokio::task::JoinHandle;
use tower_admission::{Admission, AdmissionLayer, Mode};

use crate::support::{H1, Probe, Server, at_rest, bounded, eventually, get_once, two_run};

const CLIENTS: usize = 20;

/// Twenty clients of a server that runs two of them, if decisions bind.
async fn twenty<F>(mode: Mode, during: impl FnOnce(Admission, Probe) -> F) -> (Admission, Probe)
where
    F: Future<Output = ()>,
{
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    admission.set_mode(mode);
    let handler = probe.clone();
    let app = Router::new().route("/", get(async move || handler.run().await));
    let server = Server::axum(app.layer(AdmissionLayer::new(&admission)).layer(probe.arrivals())).await;
    let address = server.address;
    let clients: Vec<JoinHandle<u16>> =
        (0..CLIENTS).map(|_| tokio::spawn(get_once(address, H1, "/".to_owned()))).collect();
    during(admission.clone(), probe.clone()).await;
    probe.release();
    for client in clients {
        assert_eq!(bounded("a client", client).await.unwrap(), 200);
    }
    server.stop().await;
    (admission, probe)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_observed_runs_and_is_counted() {
    let (admission, probe) = twenty(Mode::Observe, async |admission, probe| {
        eventually("all run", || probe.running() == CLIENTS).await;
        assert_eq!(admission.snapshot().waiting, 0);
    })
    .await;
    at_rest(&admission, &probe).await;
    let partition = &admission.snapshot().partitions[0];
    let would_reject: u64 = partition.would_reject.values().sum();
    assert_eq!(partition.admitted, CLIENTS as u64);
    assert_eq!((partition.would_queue + would_reject, partition.queued), (CLIENTS as u64 - 2, 0));
    assert_eq!(admission.snapshot().rejected(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_off_lets_everything_run_and_counts_nothing() {
    let (admission, _) = twenty(Mode::Off, async |admission, probe| {
        eventually("all run", || probe.running() == CLIENTS).await;
        assert_eq!(admission.snapshot().in_flight, 0);
    })
    .await;
    let snapshot = admission.snapshot();
    let partition = &snapshot.partitions[0];
    assert_eq!((snapshot.admitted(), snapshot.rejected(), snapshot.in_flight), (0, 0, 0));
    assert_eq!((partition.successes, partition.cancelled, partition.would_queue), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_run_as_soon_as_decisions_stop_to_bind() {
    for mode in [Mode::Off, Mode::Observe] {
        let (admission, probe) = twenty(Mode::Enforce, async |admission, probe| {
            eventually("two run and all others wait", || {
                admission.snapshot().waiting == CLIENTS - 2 && probe.running() == 2
            })
            .await;
            admission.set_mode(mode);
            eventually("all run", || probe.running() == CLIENTS).await;
            assert_eq!((admission.snapshot().waiting, admission.snapshot().in_flight), (0, CLIENTS));
        })
        .await;
        // They were counted when they came, and give back what they got.
        at_rest(&admission, &probe).await;
        assert_eq!(admission.snapshot().admitted(), CLIENTS as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_bind_again_once_those_who_ran_without_have_ended() {
    let (admission, _) = twenty(Mode::Observe, async |admission, probe| {
        eventually("all run", || probe.running() == CLIENTS).await;
        admission.set_mode(Mode::Enforce);
        assert_eq!(admission.snapshot().in_flight, 2, "the others never had a slot");
    })
    .await;
    let held = [(); 2].map(|()| admission.try_admit(tower_admission::Ticket::new()).unwrap());
    assert!(admission.try_admit(tower_admission::Ticket::new()).is_err());
    drop(held);
}
