//! Uploads: what a slow client holds, and what becomes of the connection when one is refused.

use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::StatusCode,
    routing::post,
};
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceBuilder;
use tower_admission::{Admission, AdmissionLayer, Labels, classify::by_header, limit::Fixed};
use tower_http::timeout::TimeoutLayer;

use crate::support::{Client, Ends, H2, Probe, Server, at_rest, bounded, eventually};

/// Reads the whole body before it answers.
async fn read(body: Body) {
    // A client that leaves is what some of the tests are about.
    drop(to_bytes(body, usize::MAX).await);
}

/// The head of an upload of `length` bytes over HTTP/1.
fn head(length: usize, tenant: &str, more: &str) -> String {
    format!("POST /upload HTTP/1.1\r\nhost: test\r\nx-tenant: {tenant}\r\ncontent-length: {length}\r\n{more}\r\n")
}

/// Starts an upload of a megabyte, and stalls after its first bytes.
async fn stalled(server: &Server, tenant: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(format!("{}first", head(1 << 20, tenant, "")).as_bytes()).await.unwrap();
    socket
}

/// Reads one answer: its head in lower case. `None` where the connection ends before one is complete.
pub(crate) async fn answer(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let length = loop {
        let byte = bounded("the answer", socket.read_u8()).await.ok()?;
        bytes.push(byte);
        if bytes.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(bytes.clone()).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            break length.map_or(0, |length| length.parse().unwrap());
        }
    };
    let mut body = vec![0; length];
    bounded("the body", socket.read_exact(&mut body)).await.ok()?;
    Some(String::from_utf8(bytes).unwrap().to_ascii_lowercase())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_upload_holds_its_slot_until_a_timeout_inside_ends_it() {
    let app = |inner: Option<Duration>| {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
        let inner = inner.map(|after| TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, after));
        let layers =
            ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(&admission)).option_layer(inner);
        (Router::new().route("/upload", post(read)).layer(layers), admission, probe)
    };
    let (router, admission, probe) = app(None);
    let server = Server::axum(router).await;
    let slow = stalled(&server, "slow").await;
    eventually("the upload has the slot", || admission.snapshot().in_flight == 1).await;
    let mut other = TcpStream::connect(server.address).await.unwrap();
    other.write_all(head(0, "other", "").as_bytes()).await.unwrap();
    assert!(answer(&mut other).await.unwrap().starts_with("http/1.1 503"), "the slot is taken");
    assert_eq!(admission.snapshot().in_flight, 1);
    drop((slow, other));
    at_rest(&admission, &probe).await;
    server.stop().await;

    let (router, admission, probe) = app(Some(Duration::from_millis(20)));
    let server = Server::axum(router).await;
    let mut slow = stalled(&server, "slow").await;
    assert!(answer(&mut slow).await.unwrap().starts_with("http/1.1 408"));
    // Its client is still there, and holds nothing.
    at_rest(&admission, &probe).await;
    drop(slow);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_per_label_leaves_room_beside_slow_uploads() {
    for cap in [None, Some(2)] {
        let labels = cap.map_or_else(Labels::new, |cap| Labels::new().cap(cap));
        let admission = Admission::builder().limit(Fixed::new(4)).shed().labels(labels).build().unwrap();
        let layer = AdmissionLayer::new(&admission).classify(by_header("x-tenant").as_label());
        let probe = Probe::open();
        let app = Router::new().route("/upload", post(read)).layer(layer).layer(probe.arrivals());
        let server = Server::axum(app).await;
        let mut slow = Vec::new();
        for _ in 0..6 {
            slow.push(stalled(&server, "slow").await);
        }
        eventually("all uploads came", || probe.arrived() == 6 && admission.snapshot().rejected() > 0).await;
        eventually("as many run as may", || admission.snapshot().in_flight == cap.unwrap_or(4)).await;
        let mut other = TcpStream::connect(server.address).await.unwrap();
        other.write_all(head(0, "other", "").as_bytes()).await.unwrap();
        let served = answer(&mut other).await.unwrap().starts_with("http/1.1 200");
        assert_eq!(served, cap.is_some(), "without a cap the slow uploads have all slots");
        drop((slow, other));
        at_rest(&admission, &probe).await;
        server.stop().await;
    }
}

/// What a client sees of a connection on which its upload was refused.
#[derive(Debug, Eq, PartialEq)]
enum After {
    /// It takes another request.
    Open,
    /// It was closed, and the refusal did not say so.
    ClosedInSilence,
    /// It was closed, as the refusal said.
    Closed,
}

/// Uploads to a server that is full. `sent` bytes of the body come along with the head.
async fn refused(server: &Server, length: usize, sent: usize, more: &str) -> After {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let upload = [head(length, "x", more).into_bytes(), vec![b'x'; sent]].concat();
    socket.write_all(&upload).await.unwrap();
    let refusal = answer(&mut socket).await.unwrap();
    assert!(refusal.starts_with("http/1.1 503"), "{refusal}");
    let announced = refusal.contains("connection: close");
    // A body that is late stays away: whether the server meets it or has closed by then would be a race.
    let next = if sent < length { Vec::new() } else { head(0, "x", "").into_bytes() };
    let is_open = socket.write_all(&next).await.is_ok() && answer(&mut socket).await.is_some();
    match (is_open, announced) {
        (true, _) => After::Open,
        (false, false) => After::ClosedInSilence,
        (false, true) => After::Closed,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upload_leaves_an_http_1_connection_open_only_if_its_body_has_come() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let _permit = admission.try_admit(tower_admission::Ticket::new()).unwrap();
    let server = Ends::new(&Probe::open()).serve(AdmissionLayer::new(&admission)).await;
    assert_eq!(refused(&server, 0, 0, "").await, After::Open);
    assert_eq!(refused(&server, 1_000, 1_000, "").await, After::Open);
    assert_eq!(refused(&server, 1_000, 0, "").await, After::ClosedInSilence, "the body is late");
    assert_eq!(refused(&server, 1_000, 999, "").await, After::ClosedInSilence, "its last byte is late");
    assert_eq!(refused(&server, 1 << 20, 1_000, "").await, After::ClosedInSilence, "it is large");
    let expects = "expect: 100-continue\r\n";
    assert_eq!(refused(&server, 1_000, 0, expects).await, After::ClosedInSilence, "the client asked first");
    server.stop().await;
}

fn upload(parts: usize) -> Request<UnsyncBoxBody<Bytes, Infallible>> {
    // The last part never comes.
    let parts = stream::iter((0..parts).map(|_| Ok(Frame::data(Bytes::from_static(&[0; 1_000])))));
    let body = StreamBody::new(futures_util::StreamExt::chain(parts, stream::pending()));
    Request::post("/upload").body(UnsyncBoxBody::new(body)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upload_leaves_an_http_2_connection_open() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let permit = admission.try_admit(tower_admission::Ticket::new()).unwrap();
    let server = Ends::new(&Probe::open()).serve(AdmissionLayer::new(&admission)).await;
    let mut client = Client::connect(server.address, H2).await;
    for _ in 0..20 {
        assert_eq!(bounded("the refusal", client.send(upload(3))).await.unwrap().status(), 503);
    }
    drop(permit);
    eventually("the slot is free", || admission.snapshot().in_flight == 0).await;
    assert_eq!(client.get("/data").await.unwrap().status(), 200);
    drop(client);
    server.stop().await;
}
