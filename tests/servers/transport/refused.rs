//! Uploads that were refused and go on; and those that ask first.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Duration, timeout},
};
use tower::{ServiceBuilder, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, ClassLimits, Permit, Rules, Ticket, classify::by_header, limit::Fixed,
};

use super::read_all;
use crate::servers::uploads::answer;
use crate::support::{Server, bounded, eventually};

const PIECE: usize = 1 << 16;
const PIECES: usize = 1_024;
/// What fits into the buffers of two sockets and the window of a stream; the whole upload has four times as much.
const BOUND: usize = PIECE * PIECES / 4;

/// Refuses with 503, or with 429 the class that has a bound of its own; all others it reads to their end.
async fn serve() -> (Server, Admission, Permit) {
    let one =
        ClassLimits::new().max_in_flight(tower_admission::Cap::from(1).when_full(tower_admission::WhenFull::Reject));
    let rules = Rules::new().class("bounded", one);
    let admission = Admission::builder().limit(Fixed::new(2)).shed().rules(rules).build().unwrap();
    let held = admission.try_admit(Ticket::new().class("bounded")).unwrap();
    let layer = AdmissionLayer::new(&admission).classify(by_header("x-class").as_class());
    let server = Server::hyper(ServiceBuilder::new().layer(layer).service(service_fn(read_all))).await;
    (server, admission, held)
}

/// Sends a large body over HTTP/1, whatever the server says; answers how many bytes went out, and the answer's head.
async fn push_http_1(address: SocketAddr, class: &str) -> (usize, Option<String>) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let length = PIECE * PIECES;
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\nx-class: {class}\r\ncontent-length: {length}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![0; PIECE];
    let mut sent = 0;
    for _ in 0..PIECES {
        // An error where the server has closed the connection; neither an error nor progress where it does not read.
        match timeout(Duration::from_secs(2), socket.write_all(&piece)).await {
            Ok(Ok(())) => sent += PIECE,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    (sent, answer(&mut socket).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upload_over_http_1_is_not_read_to_its_end() {
    let (server, admission, held) = serve().await;
    let other = admission.try_admit(Ticket::new()).unwrap();
    for (class, status) in [("bounded", "429"), ("plain", "503")] {
        let (sent, head) = push_http_1(server.address, class).await;
        println!("{class}: {sent} of {} bytes went out, {:?}", PIECE * PIECES, head.as_deref().map(|it| &it[..12]));
        assert!(sent < BOUND, "{sent} bytes went out");
        assert!(head.is_none_or(|head| head.contains(status)), "or a reset overtook it");
    }
    drop(other);
    // The class is full, the server is not.
    let (sent, head) = push_http_1(server.address, "bounded").await;
    assert!(sent < BOUND && head.is_none_or(|head| head.contains("429")));
    // The control: one that is not refused is read to its end.
    let (sent, head) = push_http_1(server.address, "plain").await;
    assert_eq!(sent, PIECE * PIECES);
    assert!(head.unwrap().contains("200"));
    drop(held);
    eventually("all slots are back", || admission.snapshot().in_flight == 0).await;
    server.stop().await;
}

/// Sends as much of a large body over one stream as the server takes; answers that, and the status.
async fn push_http_2(sender: &mut client::SendRequest<Bytes>, class: &str) -> (usize, u16) {
    let request = Request::post("http://x/").header("x-class", class).body(()).unwrap();
    let (answer, mut body) = sender.clone().ready().await.unwrap().send_request(request, false).unwrap();
    let pushing = async {
        let mut sent = 0;
        for piece in 0..PIECES {
            body.reserve_capacity(PIECE);
            while body.capacity() < PIECE {
                match timeout(Duration::from_secs(2), std::future::poll_fn(|cx| body.poll_capacity(cx))).await {
                    Ok(Some(Ok(_))) => {}
                    _ => return sent,
                }
            }
            if body.send_data(vec![0; PIECE].into(), piece + 1 == PIECES).is_err() {
                break;
            }
            sent += PIECE;
        }
        sent
    };
    let (sent, answer) = tokio::join!(pushing, bounded("the answer", answer));
    (sent, answer.unwrap().status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upload_over_http_2_is_stopped_and_the_connection_serves_the_next() {
    let (server, admission, held) = serve().await;
    let other = admission.try_admit(Ticket::new()).unwrap();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(async { drop(connection.await) });
    for _ in 0..5 {
        let (sent, status) = push_http_2(&mut sender, "plain").await;
        println!("{sent} of {} bytes went out, {status}", PIECE * PIECES);
        assert!(sent < BOUND && status == 503, "{sent} bytes went out, {status}");
    }
    drop(other);
    let (sent, status) = push_http_2(&mut sender, "bounded").await;
    assert!(sent < BOUND && status == 429, "{sent} bytes went out, {status}");
    // The control, on the same connection.
    assert_eq!(push_http_2(&mut sender, "plain").await, (PIECE * PIECES, 200));
    drop((sender, held));
    bounded("the connection", connection).await.unwrap();
    eventually("all slots are back", || admission.snapshot().in_flight == 0).await;
    server.stop().await;
}

/// `100 Continue` says that the body is wanted: by a handler that reads, so not before there is a slot, and not if none comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_first_is_told_to_go_on_when_it_has_a_slot() {
    let admission = Admission::builder().limit(Fixed::new(1)).queue(10).build().unwrap();
    let layer = AdmissionLayer::new(&admission);
    let server = Server::hyper(ServiceBuilder::new().layer(layer).service(service_fn(read_all))).await;
    let held = admission.try_admit(Ticket::new()).unwrap();
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    eventually("it waits", || admission.snapshot().waiting == 1).await;
    let nothing = socket.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "no answer while it waits");
    drop(held);
    assert_eq!(super::read_until(&mut socket, "\r\n\r\n").await, "http/1.1 100 continue\r\n\r\n");
    assert_eq!(admission.snapshot().in_flight, 1);
    socket.write_all(b"hello").await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 200"));
    // The connection takes another request.
    socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 200"));

    // And without a slot there is no word to go on, but the refusal.
    admission.drain(tower_admission::DrainMode::RejectWaiting);
    socket.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 503"));
    drop(socket);
    eventually("all slots are back", || admission.snapshot().in_flight == 0).await;
    server.stop().await;
}

/// The control: a handler that is asked before admission lets the body come, and is refused afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_outside_that_reads_the_body_makes_clients_send_what_is_refused() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let _held = admission.try_admit(Ticket::new()).unwrap();
    let inner = ServiceBuilder::new().layer(AdmissionLayer::new(&admission)).service(service_fn(
        |request: Request<http_body_util::Full<Bytes>>| async move {
            Ok::<_, std::convert::Infallible>(Response::new(request.into_body()))
        },
    ));
    let reads_first = service_fn(move |request: Request<Incoming>| {
        let mut inner = inner.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let answer = tower::Service::call(&mut inner, Request::from_parts(head, body.into())).await;
            Ok::<_, hyper::Error>(answer.unwrap_or_else(|never| match never {}))
        }
    });
    let server = Server::hyper(reads_first).await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n").await.unwrap();
    assert_eq!(super::read_until(&mut socket, "\r\n\r\n").await, "http/1.1 100 continue\r\n\r\n");
    socket.write_all(b"hello").await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 503"));
    drop(socket);
    server.stop().await;
}
