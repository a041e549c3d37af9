//! Whoever is ready holds nothing: slots are taken by calls.

use std::{convert::Infallible, future::poll_fn};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use tower::{
    Service, ServiceBuilder, ServiceExt, limit::GlobalConcurrencyLimitLayer, load_shed::LoadShedLayer, service_fn,
};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use crate::support::{Client, Ends, Probe, Version, at_rest, client::get};

const CLONES: usize = 10_000;

/// Makes clones ready and keeps them; then answers how many of as many calls by another clone were turned away.
async fn turned_away_beside_idle_clones<S>(
    service: S,
    is_answered: impl Fn(Result<S::Response, S::Error>) -> bool,
) -> usize
where
    S: Service<Request<Empty<Bytes>>> + Clone,
{
    let mut idle = vec![service.clone(); CLONES];
    for clone in &mut idle {
        assert!(poll_fn(|cx| clone.poll_ready(cx)).await.is_ok());
    }
    let mut turned_away = 0;
    for _ in 0..CLONES {
        let answer = service.clone().oneshot(Request::new(Empty::new())).await;
        turned_away += usize::from(!is_answered(answer));
    }
    drop(idle);
    turned_away
}

async fn answer(_: Request<Empty<Bytes>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}

#[tokio::test]
async fn ten_thousand_ready_clones_hold_nothing() {
    let admission = Admission::builder().limit(Fixed::new(8)).shed().build().unwrap();
    let probe = Probe::open();
    let service = ServiceBuilder::new()
        .layer(probe.arrivals())
        .layer(AdmissionLayer::new(&admission))
        .service(service_fn(answer));
    let turned_away =
        turned_away_beside_idle_clones(service, |answer| answer.is_ok_and(|response| response.status() == 200)).await;
    assert_eq!(turned_away, 0);
    at_rest(&admission, &probe).await;
}

/// The control: what reserves in `poll_ready` loses its permits to clones that are ready and never called.
#[tokio::test]
async fn ready_clones_of_a_limit_that_reserves_starve_the_others() {
    let service = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(8))
        .service(service_fn(answer));
    assert_eq!(turned_away_beside_idle_clones(service, |answer| answer.is_ok()).await, CLONES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_hold_nothing() {
    const CONNECTIONS: usize = 300;
    let admission = Admission::builder().limit(Fixed::new(1)).queue(10).build().unwrap();
    let probe = Probe::open();
    let server = Ends::new(&probe).serve(AdmissionLayer::new(&admission)).await;
    let mut connections = Vec::new();
    for index in 0..CONNECTIONS {
        let version = if index % 2 == 0 { Version::H1 } else { Version::H2 };
        connections.push(Client::connect(server.address, version).await);
    }
    // Two rounds: connections that were never used, and connections that are kept alive.
    for _ in 0..2 {
        for connection in &mut connections {
            assert_eq!(connection.answer(get("/data")).await.status(), 200);
        }
    }
    assert_eq!(admission.snapshot().rejected(), 0);
    assert_eq!(probe.peak(), 1);
    at_rest(&admission, &probe).await;
    drop(connections);
    server.stop().await;
}
