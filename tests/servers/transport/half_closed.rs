//! HTTP/1 clients that close their half of the connection, and still read.

use std::time::Duration;

use hyper_util::{rt::TokioExecutor, server::conn::auto};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceBuilder;
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use super::is_served;
use crate::support::{Ends, Probe, Server, at_rest, bounded, eventually, is_idle};

const CLIENTS: usize = 50;

async fn serve(half_close: bool, max_wait: Duration) -> (Server, Admission, Probe) {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(CLIENTS).max_wait(max_wait).build().unwrap();
    let probe = Probe::closed();
    let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(&admission));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().half_close(half_close);
    let server = Server::hyper_by(builder, layers.service(Ends::new(&probe))).await;
    (server, admission, probe)
}

/// Sends a request, and closes that direction once the request is there.
async fn ask(server: &Server, probe: &Probe) -> TcpStream {
    let before = probe.arrived();
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    eventually("it came", || probe.arrived() > before).await;
    socket.shutdown().await.unwrap();
    socket
}

async fn rest(mut socket: TcpStream) -> String {
    let mut text = String::new();
    // Nothing, or a reset, where the server gave up.
    let _ = bounded("the answer", socket.read_to_string(&mut text)).await;
    text
}

/// As hyper and axum come: a half that is closed is a client that left, as it nearly always is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_closed_connection_is_one_that_was_left() {
    let (server, admission, probe) = serve(false, Duration::from_secs(600)).await;
    for _ in 0..CLIENTS {
        let socket = ask(&server, &probe).await;
        assert_eq!(rest(socket).await, "");
    }
    eventually("none is left", || is_idle(&admission.snapshot())).await;
    probe.release();
    assert!(is_served(server.address, "/data").await);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// Where a server is told to serve them, they hold slots and places as others do, and are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_closed_connections_are_served_where_the_server_is_told_to() {
    let (server, admission, probe) = serve(true, Duration::from_secs(600)).await;
    let mut sockets = Vec::new();
    for _ in 0..CLIENTS {
        sockets.push(ask(&server, &probe).await);
    }
    eventually("one runs and the others wait", || {
        let now = admission.snapshot();
        (now.in_flight, now.waiting) == (1, CLIENTS - 1)
    })
    .await;
    probe.release();
    for socket in sockets {
        let answer = rest(socket).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(probe.peak(), 1);
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// The price: a server that serves halves doesn't see that a client is gone. The longest wait and the end of the handler
/// are what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_halves_are_served_a_client_that_is_gone_is_not_noticed() {
    let (server, admission, probe) = serve(true, Duration::from_millis(300)).await;
    let mut sockets = Vec::new();
    for _ in 0..CLIENTS {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        sockets.push(socket);
    }
    eventually("all have come", || probe.arrived() == CLIENTS as u64 && probe.running() == 1).await;
    drop(sockets);
    eventually("no waiter is left", || admission.snapshot().waiting == 0).await;
    let now = admission.snapshot();
    assert_eq!(
        (now.in_flight, now.rejected()),
        (1, CLIENTS as u64 - 1),
        "each waited to the end, and the handler runs"
    );
    probe.release();
    eventually("the slot is back", || admission.snapshot().in_flight == 0).await;
    at_rest(&admission, &probe).await;
    server.stop().await;
}
