//! The address of a client behind a proxy, whatever the client sends itself.

use std::{convert::Infallible, net::SocketAddr, num::NonZeroU8};

use axum::{Router, routing::get};
use futures_util::FutureExt;
use http::{HeaderValue, Request, Response};
use tokio::task::JoinHandle;
use tower::{Layer, service_fn};
use tower_admission::{Admission, AdmissionLayer, Labels, classify::by_forwarded_ip, limit::Fixed};

use crate::support::{Client, H1, H2, Probe, Server, Version, at_rest, client::get as request, eventually};

/// Each address may have one request in flight.
fn handle() -> Admission {
    Admission::builder().limit(Fixed::new(10)).shed().labels(Labels::new().cap(1)).build().unwrap()
}

fn layer(admission: &Admission) -> AdmissionLayer {
    AdmissionLayer::new(admission).classify(by_forwarded_ip(NonZeroU8::MIN).as_label())
}

/// An axum server that knows the address of each connection. `/held` runs until the probe is released.
async fn axum(admission: &Admission, probe: &Probe) -> Server {
    let held = probe.clone();
    let app = Router::new()
        .route("/held", get(async move || held.run().await))
        .fallback(async || ())
        .layer(layer(admission))
        .layer(probe.arrivals())
        .into_make_service_with_connect_info::<SocketAddr>();
    Server::start(|listener, stopped| async move {
        axum::serve(listener, app).with_graceful_shutdown(stopped.map(drop)).await.unwrap();
    })
    .await
}

/// The same without axum: the address of the connection is not known.
async fn hyper(admission: &Admission, probe: &Probe) -> Server {
    let held = probe.clone();
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let held = held.clone();
        async move {
            if request.uri().path() == "/held" {
                held.run().await;
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    Server::hyper(probe.arrivals().layer(layer(admission).layer(service))).await
}

/// Sends one request with these lines of `X-Forwarded-For`; answers its status.
fn send(server: &Server, version: Version, path: &str, lines: &[&[u8]]) -> JoinHandle<u16> {
    let mut request = request(path);
    for line in lines {
        request.headers_mut().append("x-forwarded-for", HeaderValue::from_bytes(line).unwrap());
    }
    let address = server.address;
    tokio::spawn(async move { Client::connect(address, version).await.send(request).await.unwrap().status().as_u16() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_not_text_neither_free_a_client_of_its_bounds_nor_bind_another() {
    let many = format!("{}1.2.3.4", "6.6.6.6, ".repeat(1_000));
    let same: [&[&[u8]]; 6] = [
        &[b"1.2.3.4"],
        &[b"\xff", b"1.2.3.4"],
        &[b"6.6.6.6, \xfe\xff ,\t1.2.3.4:80 "],
        &[b"5.6.7.8, , ,,[1.2.3.4]"],
        &[b"unknown, _hidden, for=6.6.6.6", b"", b"::ffff:1.2.3.4"],
        &[many.as_bytes()],
    ];
    let others: [&[&[u8]]; 3] =
        [&[b"\xff, 5.6.7.8"], &[b"1.2.3.4", b"\xff, 5.6.7.8"], &[b"1.2.3.4, \xff, [2001:db8::1]:443"]];
    for (is_axum, version) in [(true, H1), (true, H2), (false, H1), (false, H2)] {
        let (admission, probe) = (handle(), Probe::closed());
        let server = if is_axum { axum(&admission, &probe).await } else { hyper(&admission, &probe).await };
        let first = send(&server, version, "/held", &[b"\xff, 1.2.3.4"]);
        eventually("the first request runs", || probe.running() == 1).await;
        for lines in same {
            assert_eq!(
                send(&server, version, "/", lines).await.unwrap(),
                429,
                "axum: {is_axum}, {version:?}: {lines:?}"
            );
        }
        for lines in others {
            assert_eq!(
                send(&server, version, "/", lines).await.unwrap(),
                200,
                "axum: {is_axum}, {version:?}: {lines:?}"
            );
            eventually("the slot is free", || admission.snapshot().in_flight == 1).await;
        }
        probe.release();
        assert_eq!(first.await.unwrap(), 200);
        at_rest(&admission, &probe).await;
        server.stop().await;
    }
}

#[cfg(feature = "axum")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_proxy_names_no_address_the_connection_counts() {
    let (admission, probe) = (handle(), Probe::closed());
    let server = axum(&admission, &probe).await;
    let first = send(&server, H1, "/held", &[b"1.2.3.4, unknown"]);
    eventually("the first request runs", || probe.running() == 1).await;
    assert!(admission.label("", "127.0.0.1").is_some_and(|label| label.in_flight == 1));
    for lines in [&[][..], &[&b"1.2.3.4, "[..]], &[b"1.2.3.4, \xff"], &[b"1.2.3.4,5.6.7.8.9"]] {
        assert_eq!(send(&server, H1, "/", lines).await.unwrap(), 429, "{lines:?}");
    }
    probe.release();
    assert_eq!(first.await.unwrap(), 200);
    at_rest(&admission, &probe).await;
    server.stop().await;
}
