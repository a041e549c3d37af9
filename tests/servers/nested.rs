//! A request whose handler sends another one to the same server, and so to the same limit.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use futures_util::future::join_all;
use http::{Request, Response};
use tokio::time::sleep;
use tower::{Layer, ServiceExt, service_fn};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use crate::support::{Client, Probe, Server, Version, at_rest, bounded};

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

/// A handler that calls a service behind its own handle many times at once, in its own task: its slot covers one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_sends_through_its_own_handle_is_counted() {
    const CALLS: usize = 100;
    let (admission, inner) = (Admission::builder().limit(Fixed::new(3)).queue(CALLS).build().unwrap(), Probe::open());
    let (layer, probe) = (AdmissionLayer::new(&admission), inner.clone());
    let service = layer.layer(service_fn(move |_: Request<Body>| {
        let probe = probe.clone();
        async move {
            let _running = probe.enter();
            sleep(Duration::from_millis(1)).await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    }));
    let fans_out = get(async move || {
        let calls = (0..CALLS).map(|_| service.clone().oneshot(Request::new(Body::empty())));
        let answers = join_all(calls).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 200));
        // One after the other, each has the slot of the handler.
        for _ in 0..10 {
            service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
        }
    });
    let server = Server::axum(Router::new().route("/", fans_out).layer(layer)).await;
    let mut client = Client::connect(server.address, Version::H1).await;
    assert_eq!(bounded("the answer", client.get("/")).await.unwrap().status(), 200);
    assert_eq!((inner.peak(), inner.started()), (3, CALLS as u64 + 10), "two slots, and that of the handler");
    assert_eq!(
        admission.snapshot().admitted(),
        CALLS as u64,
        "the handler, and all but one of those that it sent at once"
    );
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
