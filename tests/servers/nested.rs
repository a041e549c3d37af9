//! A request whose handler sends another one to the same server, and so to the same limit.

use std::{net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use futures_util::future::join_all;
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use crate::support::{
    at_rest, bounded,
    client::{Client, Version},
    probe::Probe,
    server::Server,
};

const WAIT: Duration = Duration::from_millis(200);

/// Asks the server for the request of one level less; level 0 answers. A refusal is passed on as 502.
async fn descend(Path(level): Path<u32>, State((address, probe)): State<(SocketAddr, Probe)>) -> StatusCode {
    let _running = probe.enter();
    if level == 0 {
        return StatusCode::OK;
    }
    let mut client = Client::connect(address, Version::H1).await;
    let answer = client.get(&format!("/level/{}", level - 1)).await;
    if answer.is_ok_and(|answer| answer.status() == 200) { StatusCode::OK } else { StatusCode::BAD_GATEWAY }
}

async fn ask(address: SocketAddr, level: u32) -> u16 {
    let mut client = Client::connect(address, Version::H1).await;
    bounded("the answer", client.get(&format!("/level/{level}"))).await.unwrap().status().as_u16()
}

async fn serve(limit: usize) -> (Server, Admission, Probe) {
    let admission = Admission::builder().limit(Fixed::new(limit)).queue(100).max_wait(WAIT).build().unwrap();
    let (arrivals, probe) = (Probe::open(), Probe::open());
    let app = AdmissionLayer::new(&admission);
    let (seen, layers) = (arrivals.clone(), app);
    let server = Server::start(|listener, stopped| async move {
        let state = (listener.local_addr().unwrap(), probe);
        let app = Router::new().route("/level/{level}", get(descend)).with_state(state);
        let app = app.layer(layers).layer(seen.arrivals());
        let stopped = async { drop(stopped.await) };
        axum::serve(listener, app).with_graceful_shutdown(stopped).await.unwrap();
    })
    .await;
    (server, admission, arrivals)
}

/// With a single slot the inner request waits for the slot of the outer one, until its wait ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_request_at_a_limit_of_one_is_refused_after_the_longest_wait() {
    let (server, admission, arrivals) = serve(1).await;
    for _ in 0..3 {
        assert_eq!(ask(server.address, 1).await, 502);
    }
    assert_eq!(admission.snapshot().rejected(), 3);
    // Outer requests that crowd in don't keep inner ones waiting for longer; each ends.
    let answers = join_all((0..5).map(|_| ask(server.address, 1))).await;
    assert!(answers.iter().all(|status| [502, 503].contains(status)), "{answers:?}");
    assert_eq!(ask(server.address, 0).await, 200, "the server is as it was");
    at_rest(&admission, &arrivals).await;
    server.stop().await;
}

/// The control: with as many slots as levels it is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_request_with_a_slot_of_its_own_is_served() {
    let (server, admission, arrivals) = serve(3).await;
    assert_eq!(ask(server.address, 2).await, 200);
    assert_eq!(ask(server.address, 3).await, 502, "a level more than there are slots");
    at_rest(&admission, &arrivals).await;
    server.stop().await;
}
