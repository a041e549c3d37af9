//! A request that meets a handle twice, or two of them.

use std::time::Duration;

use tower::{ServiceBuilder, ServiceExt};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use super::{CONNECTIONS, at_most_two_run, at_most_two_run_in, crowd, four_routes, request};
use crate::support::{H1, Probe, Server, at_rest, client, two_run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_on_the_router_and_on_its_routes_counts_once_and_leaves_one_warning() {
    let admission = at_most_two_run_in(|layer, probe| four_routes(probe).route_layer(layer.clone()).layer(layer)).await;
    assert_eq!(admission.warnings().len(), 1, "{:?}", admission.warnings());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_around_a_router_and_inside_it_counts_once_and_leaves_one_warning() {
    let (admission, probe) = (two_run().build().unwrap(), Probe::closed());
    let inside = four_routes(&probe).layer(AdmissionLayer::new(&admission));
    let app = ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(&admission)).service(inside);
    at_most_two_run(&admission, &probe, |client| {
        let app = app.clone();
        async move { app.oneshot(request(&format!("/{}", client % 4))).await.unwrap().status().as_u16() }
    })
    .await;
    assert_eq!(admission.warnings().len(), 1, "{:?}", admission.warnings());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_both_count() {
    let outer =
        Admission::builder().limit(Fixed::new(5)).queue(100).max_wait(Duration::from_secs(600)).build().unwrap();
    let (inner, probe) = (two_run().build().unwrap(), Probe::closed());
    let (around, within) = (AdmissionLayer::new(&outer), AdmissionLayer::new(&inner));
    let reached = Probe::open();
    let app = four_routes(&probe).layer(within).layer(reached.arrivals()).layer(around).layer(probe.arrivals());
    let server = Server::axum(app).await;
    let address = server.address;
    let settled = || {
        let (outer, inner) = (outer.snapshot(), inner.snapshot());
        outer.in_flight == 5 && outer.waiting == CONNECTIONS - 5 && inner.in_flight == 2 && inner.waiting == 3
    };
    let send = |client| client::get_once(address, H1, format!("/{}", client % 4));
    crowd(&probe, "five are in, and two of them run", settled, send).await;
    assert_eq!(probe.peak(), 2);
    at_rest(&outer, &probe).await;
    at_rest(&inner, &reached).await;
    assert_eq!(outer.warnings().len() + inner.warnings().len(), 0);
    server.stop().await;
}
