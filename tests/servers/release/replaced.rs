//! Outer layers that answer in place of the service, on real connections.

use axum::{Router, body::Body, middleware, response::Response};
use futures_util::future::join_all;
use http::StatusCode;
use std::time::Duration;
use tonic::service::Routes;
use tower::{ServiceBuilder, util::MapResponseLayer};
use tower_admission::{Admission, AdmissionLayer, response::AdmissionBody};
use tower_http::timeout::TimeoutLayer;

use super::{ATTEMPTS, all_is_given_back, connections::infallible, eight_run};
use crate::support::{Client, Ends, H1, H2, Probe, Script, Server, Version, bounded, client::get};

/// No more clients at once than run: a request that waits would be timed out before it ran.
const CLIENTS: usize = super::LIMIT;

/// Gets `path` until a thousand requests arrived; the answer must come from the outer layer. Each has a time limit of three
/// milliseconds, which a busy machine may use up before the request is looked at: then it never arrives, and one more is sent.
async fn a_thousand(way: &str, setup: (Admission, Probe, Server), version: Version, path: &'static str, status: u16) {
    let (admission, probe, server) = setup;
    let address = server.address;
    let clients = (0..CLIENTS).map(|_| {
        tokio::spawn(async move {
            let mut client = Client::connect(address, version).await;
            for _ in 0..ATTEMPTS / CLIENTS {
                let answer = client.answer(get(path)).await;
                assert_eq!(answer.status(), status);
                assert_ne!(answer.body(), "data");
            }
        })
    });
    for client in bounded(way, join_all(clients)).await {
        client.unwrap();
    }
    let late = async {
        let mut client = Client::connect(address, version).await;
        while probe.arrived() < ATTEMPTS as u64 {
            assert_eq!(client.get(path).await.unwrap().status(), status);
        }
    };
    bounded(way, late).await;
    all_is_given_back(way, &admission, &probe).await;
    server.stop().await;
}

fn timeout() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(3))
}

fn parts() -> (Admission, Probe, Ends, AdmissionLayer) {
    let (admission, probe) = (eight_run(), Probe::open());
    let layer = AdmissionLayer::new(&admission);
    (admission, probe.clone(), Ends::new(&probe), layer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_a_timeout_layer_ends_hold_nothing_on_hyper() {
    for version in [H1, H2] {
        let (admission, probe, ends, layer) = parts();
        let service = ServiceBuilder::new().layer(timeout()).layer(probe.arrivals()).layer(layer).service(ends);
        let server = Server::hyper(service).await;
        a_thousand("Hyper, TimeoutLayer", (admission, probe, server), version, "/hang", 504).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_a_timeout_layer_ends_hold_nothing_on_axum() {
    let (admission, probe, ends, layer) = parts();
    let app = Router::new().fallback_service(infallible(ends));
    let server = Server::axum(app.layer(layer).layer(probe.arrivals()).layer(timeout())).await;
    a_thousand("Axum, TimeoutLayer", (admission, probe, server), H1, "/hang", 504).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_a_timeout_layer_ends_hold_nothing_on_tonic() {
    let (admission, probe, ends, layer) = parts();
    let mut server = tonic::transport::Server::builder().layer(timeout()).layer(probe.arrivals()).layer(layer);
    let routes = Routes::from(Router::new().fallback_service(infallible(ends)));
    let server = Server::tonic(server.add_routes(routes)).await;
    a_thousand("Tonic, TimeoutLayer", (admission, probe, server), H2, "/hang", 504).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_a_middleware_of_axum_replaces_hold_nothing() {
    let (admission, probe, ends, layer) = parts();
    let replace = middleware::map_response(async |_: Response<Body>| "something else");
    let app = Router::new().fallback_service(infallible(ends));
    let server = Server::axum(app.layer(layer).layer(probe.arrivals()).layer(replace)).await;
    a_thousand("Axum, replaced", (admission, probe, server), H1, "/endless", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_an_outer_layer_discards_hold_nothing_on_hyper() {
    for version in [H1, H2] {
        let (admission, probe, ends, layer) = parts();
        let discard =
            |answer: http::Response<AdmissionBody<Script>>| answer.map(|_| AdmissionBody::<Script>::default());
        let service = ServiceBuilder::new().layer(MapResponseLayer::new(discard)).layer(probe.arrivals()).layer(layer);
        let server = Server::hyper(service.service(ends)).await;
        a_thousand("Hyper, discarded", (admission, probe, server), version, "/endless", 200).await;
    }
}
