//! One handle is one limit, wherever and however often its layer is applied.

mod twice;

use std::{convert::Infallible, future::Future};

use admission_testkit::grpc::Served;
use axum::{
    Router,
    routing::{MethodRouter, get},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::service::{LayerExt, Routes};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};
use tower_admission::{Admission, AdmissionLayer};

use crate::support::{Greeter, H1, H2, Probe, Server, at_rest, bounded, client, eventually, grpc, two_run};

const CONNECTIONS: usize = 20;

/// Sends from many clients at once, waits until `settled`, lets go, and expects that all of them are answered.
async fn crowd<F>(probe: &Probe, what: &str, settled: impl FnMut() -> bool, send: impl Fn(usize) -> F)
where
    F: Future<Output = u16> + Send + 'static,
{
    let clients: Vec<_> = (0..CONNECTIONS).map(|client| tokio::spawn(send(client))).collect();
    eventually(what, settled).await;
    probe.release();
    for answer in bounded("the clients", join_all(clients)).await {
        assert_eq!(answer.unwrap(), 200);
    }
}

/// Of twenty at once two run and eighteen wait; all are answered, and never do more than two run.
async fn at_most_two_run<F>(admission: &Admission, probe: &Probe, send: impl Fn(usize) -> F)
where
    F: Future<Output = u16> + Send + 'static,
{
    let settled = || {
        let snapshot = admission.snapshot();
        snapshot.in_flight == 2 && snapshot.waiting == CONNECTIONS - 2 && probe.running() == 2
    };
    crowd(probe, "two run and all others wait", settled, send).await;
    assert_eq!(probe.peak(), 2);
    assert_eq!(probe.started(), CONNECTIONS as u64);
    assert_eq!(probe.arrived(), CONNECTIONS as u64);
    at_rest(admission, probe).await;
}

/// The same for an axum app that `build` makes of four routes, over TCP.
async fn at_most_two_run_in(build: impl FnOnce(AdmissionLayer, &Probe) -> Router) -> Admission {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let app = build(AdmissionLayer::new(&admission), &probe).layer(probe.arrivals());
    let server = Server::axum(app).await;
    let address = server.address;
    at_most_two_run(&admission, &probe, |client| client::get_once(address, H1, format!("/{}", client % 4))).await;
    server.stop().await;
    admission
}

fn four_routes(probe: &Probe) -> Router {
    (0..4).fold(Router::new(), |router, route| router.route(&format!("/{route}"), held(probe)))
}

fn held(probe: &Probe) -> MethodRouter {
    let probe = probe.clone();
    get(async move || probe.run().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_routes_of_axum_share_the_limit_of_router_layer() {
    let admission = at_most_two_run_in(|layer, probe| four_routes(probe).layer(layer)).await;
    assert_eq!(admission.warnings(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_routes_of_axum_share_the_limit_of_route_layer() {
    let admission = at_most_two_run_in(|layer, probe| four_routes(probe).route_layer(layer)).await;
    assert_eq!(admission.warnings(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_routes_of_axum_share_the_limit_of_method_router_layer() {
    let admission = at_most_two_run_in(|layer, probe| {
        (0..4).fold(Router::new(), |router, route| {
            router.route(&format!("/{route}"), held(probe).layer::<_, Infallible>(layer.clone()))
        })
    })
    .await;
    assert_eq!(admission.warnings(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_and_nested_routers_share_the_limit() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let layer = AdmissionLayer::new(&admission);
    let one = || Router::new().route("/0", held(&probe)).layer(layer.clone());
    let other = Router::new().route("/1", held(&probe)).route_layer(layer.clone());
    let app = one().merge(other).nest("/nested", one()).nest_service("/service", one()).layer(probe.arrivals());
    let server = Server::axum(app).await;
    let address = server.address;
    let path = |client: usize| ["/0", "/1", "/nested/0", "/service/0"][client % 4].to_owned();
    at_most_two_run(&admission, &probe, |client| client::get_once(address, H1, path(client))).await;
    assert_eq!(admission.warnings(), [""; 0]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_without_a_server_has_the_limit_too() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let app = four_routes(&probe).layer(AdmissionLayer::new(&admission)).layer(probe.arrivals());
    at_most_two_run(&admission, &probe, |client| {
        let app = app.clone();
        async move { app.oneshot(request(&format!("/{}", client % 4))).await.unwrap().status().as_u16() }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_plain_hyper_share_the_limit_in_both_versions() {
    for version in [H1, H2] {
        let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
        let service =
            ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(&admission)).service(plain(&probe));
        let server = Server::hyper(service).await;
        let address = server.address;
        at_most_two_run(&admission, &probe, |_| client::get_once(address, version, "/".to_owned())).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_tonic_share_the_limit_of_the_server() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let server = grpc::serve(AdmissionLayer::new(&admission), &probe).await;
    let address = server.address;
    at_most_two_run(&admission, &probe, |_| grpc::say_once(address)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_tonic_share_the_limit_of_one_service() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let greeter = AdmissionLayer::new(&admission).named_layer(Served(Greeter(probe.clone())));
    let routes = tonic::transport::Server::builder().layer(probe.arrivals()).add_service(greeter);
    let server = Server::tonic(routes).await;
    let address = server.address;
    at_most_two_run(&admission, &probe, |_| grpc::say_once(address)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_and_http_in_one_axum_app_share_the_limit() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let grpc = Routes::new(Served(Greeter(probe.clone()))).into_axum_router();
    // Both routers have a fallback; that of tonic's answers "unimplemented".
    let app = grpc.route("/0", held(&probe)).layer(AdmissionLayer::new(&admission)).layer(probe.arrivals());
    let server = Server::axum(app).await;
    let address = server.address;
    at_most_two_run(&admission, &probe, |client| async move {
        if client % 2 == 0 {
            grpc::say_once(address).await
        } else {
            client::get_once(address, H2, "/0".to_owned()).await
        }
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_services_of_one_layer_share_the_limit() {
    const SERVICES: usize = 10_000;
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let layer = AdmissionLayer::new(&admission);
    let calls: Vec<_> = (0..SERVICES)
        .map(|_| {
            let service = probe.arrivals().layer(layer.layer(plain(&probe)));
            tokio::spawn(async { service.oneshot(request("/")).await.unwrap().collect().await.unwrap().to_bytes() })
        })
        .collect();
    eventually("two run and all others wait", || {
        let snapshot = admission.snapshot();
        snapshot.waiting == SERVICES - 2 && probe.running() == 2
    })
    .await;
    probe.release();
    for answer in bounded("the calls", join_all(calls)).await {
        assert_eq!(answer.unwrap(), "done");
    }
    assert_eq!(probe.peak(), 2);
    assert_eq!(probe.started(), SERVICES as u64);
    at_rest(&admission, &probe).await;
}

/// The control of all tests above: the same harness counts too many where each connection has a limit of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_lives_in_the_service_does_not_hold() {
    let probe = Probe::closed();
    let server = Server::axum(four_routes(&probe).layer(ConcurrencyLimitLayer::new(2))).await;
    let address = server.address;
    let send = |client| client::get_once(address, H1, format!("/{}", client % 4));
    crowd(&probe, "more than two run", || probe.running() > 2, send).await;
    assert!(probe.peak() > 2);
    server.stop().await;
}

fn request(path: &str) -> Request<axum::body::Body> {
    Request::builder().uri(path).body(axum::body::Body::empty()).unwrap()
}

/// A service of no framework that runs until the probe is open.
fn plain<B: Send + 'static>(
    probe: &Probe,
) -> impl Service<Request<B>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone + Send + 'static
{
    let probe = probe.clone();
    service_fn(move |_: Request<B>| {
        let probe = probe.clone();
        async move {
            probe.run().await;
            Ok(Response::new(Full::new(Bytes::from_static(b"done"))))
        }
    })
}
