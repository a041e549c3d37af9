use std::time::Duration;

use tokio::task::AbortHandle;
use tower_admission::{Admission, AdmissionBuilder, AdmissionLayer, Ticket, limit::Fixed};

use crate::support::{Client, Ends, Probe, Server, Version, bounded, eventually};

fn one_runs() -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(1)).queue(10)
}

/// A server whose only slot a handler has that hangs, and its client.
async fn hanging(admission: &Admission, probe: &Probe) -> (Server, AbortHandle) {
    let ends = Ends::new(probe);
    let server = ends.clone().serve(AdmissionLayer::new(admission)).await;
    let (path, reached) = ends.meet("forever");
    let mut hanging = Client::connect(server.address, Version::H1).await;
    let hangs = tokio::spawn(async move { hanging.get(&path).await.map(drop) });
    bounded("the handler", reached).await.unwrap();
    (server, hangs.abort_handle())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slot_of_a_handler_that_hangs_is_taken_back_and_the_next_one_is_served() {
    let admission = one_runs().permit_time_to_live(Duration::from_millis(500)).build().unwrap();
    let probe = Probe::open();
    let (server, hangs) = hanging(&admission, &probe).await;

    for round in 0..3 {
        let mut client = Client::connect(server.address, Version::H1).await;
        assert_eq!(bounded("the next one", client.get("/no-content")).await.unwrap().status(), 204);
        assert!(admission.snapshot().expired_slots >= 1 && probe.running() == 1, "round {round}");
    }
    // When the handler ends after all, there is nothing left that it could give back.
    hangs.abort();
    eventually("the handler is gone", || probe.running() == 0).await;
    eventually("nobody runs", || admission.snapshot().in_flight == 0).await;
    let first = admission.try_admit(Ticket::new()).unwrap();
    let second = admission.try_admit(Ticket::new());
    assert!(second.is_err() || first.is_expired(), "there is one slot, not two");
    drop((first, second));
    assert_eq!(admission.snapshot().in_flight, 0);
    server.stop().await;
}

/// The control: without an end the slot stays taken for as long as the handler hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_end_the_slot_of_a_handler_that_hangs_stays_taken() {
    let admission = one_runs().max_wait(Duration::from_millis(500)).build().unwrap();
    let (server, hangs) = hanging(&admission, &Probe::open()).await;
    let mut client = Client::connect(server.address, Version::H1).await;
    assert_eq!(bounded("the next one", client.get("/no-content")).await.unwrap().status(), 503);
    hangs.abort();
    eventually("nobody runs", || admission.snapshot().in_flight == 0).await;
    assert_eq!(admission.snapshot().expired_slots, 0);
    drop(client);
    server.stop().await;
}
