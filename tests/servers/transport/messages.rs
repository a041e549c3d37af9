//! What HTTP says besides heads and bodies: trailers of both directions, and answers without a body.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tower::{ServiceBuilder, service_fn};
use tower_admission::{Admission, AdmissionLayer, limit::Fixed};

use crate::servers::uploads::answer;
use crate::support::{Client, Ends, Probe, Server, Version, at_rest, bounded, client::get};

type Outgoing = UnsyncBoxBody<Bytes, Infallible>;

const ROUNDS: usize = 20;

fn trailers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([("x-checksum".parse().unwrap(), value.parse().unwrap())])
}

fn body(text: &'static str, checksum: &str) -> Outgoing {
    let frames = [Ok(Frame::data(Bytes::from_static(text.as_bytes()))), Ok(Frame::trailers(trailers(checksum)))];
    UnsyncBoxBody::new(StreamBody::new(futures_util::stream::iter(frames)))
}

/// Answers with the trailers of the request in its own.
async fn echo(request: Request<Incoming>) -> Result<Response<Outgoing>, Infallible> {
    let collected = request.into_body().collect().await.unwrap();
    let checksum = collected.trailers().map_or("none", |trailers| trailers["x-checksum"].to_str().unwrap()).to_owned();
    assert_eq!(collected.to_bytes(), "up");
    let mut answer = Response::new(body("down", &checksum));
    answer.headers_mut().insert("trailer", "x-checksum".parse().unwrap());
    Ok(answer)
}

/// Of the one slot that there is, each request finds that the one before has given it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trailers_pass_the_layer_in_both_directions() {
    for version in [Version::H1, Version::H2] {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
        let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(&admission));
        let server = Server::hyper(layers.service(service_fn(echo))).await;
        let mut client = Client::connect(server.address, version).await;
        for round in 0..ROUNDS {
            let mut request = Request::post("/").body(body("up", &round.to_string())).unwrap();
            request.headers_mut().insert("te", "trailers".parse().unwrap());
            request.headers_mut().insert("trailer", "x-checksum".parse().unwrap());
            let answer = bounded("the answer", client.send(request)).await.unwrap();
            assert_eq!(answer.status(), 200, "{version:?}: the slot is back");
            let collected = answer.into_body().collect().await.unwrap();
            assert_eq!(collected.trailers(), Some(&trailers(&round.to_string())), "{version:?}");
            assert_eq!(collected.to_bytes(), "down");
            at_rest(&admission, &probe).await;
        }
        // The control: without trailers of the request there is none that could have come back.
        let mut request = Request::post("/").body(UnsyncBoxBody::new(http_body_util::Full::from("up"))).unwrap();
        request.headers_mut().insert("te", "trailers".parse().unwrap());
        let collected = client.send(request).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers("none")), "{version:?}");
        drop(client);
        server.stop().await;
    }
}

/// With one slot and no queue: each of these gives its slot back before the next request comes on the same connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_without_a_body_give_their_slots_back_and_leave_the_connection_open() {
    let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
    let server = Ends::new(&probe).serve(AdmissionLayer::new(&admission)).await;
    let paths =
        [("HEAD", "/data", 200), ("HEAD", "/length", 200), ("GET", "/no-content", 204), ("GET", "/not-modified", 304)];
    // Raw: what follows a head would be taken for the next answer, were it not empty.
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..ROUNDS {
        for (method, path, status) in paths {
            socket.write_all(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            let head = super::read_until(&mut socket, "\r\n\r\n").await;
            assert!(head.starts_with(&format!("http/1.1 {status}")), "{method} {path}: {head}");
            at_rest(&admission, &probe).await;
        }
    }
    socket.write_all(b"GET /length HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 200"), "the control: one with a body");
    drop(socket);
    let mut client = Client::connect(server.address, Version::H2).await;
    for _ in 0..ROUNDS {
        for (method, path, status) in paths {
            let mut request = get(path);
            *request.method_mut() = method.parse().unwrap();
            let answer = bounded("the answer", client.send(request)).await.unwrap();
            assert_eq!(answer.status(), status, "{method} {path}");
            // hyper sends a body that a handler gives to HEAD over HTTP/2, and its client refuses it.
            let _ = bounded("its end", answer.into_body().collect()).await;
            at_rest(&admission, &probe).await;
        }
    }
    drop(client);
    server.stop().await;
}

/// A refusal of HEAD has no body either, and the next request on the connection is read from its first byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_head_has_no_body() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let held = admission.try_admit(tower_admission::Ticket::new()).unwrap();
    let server = Ends::new(&Probe::open()).serve(AdmissionLayer::new(&admission)).await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..ROUNDS {
        socket.write_all(b"HEAD /data HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let head = super::read_until(&mut socket, "\r\n\r\n").await;
        assert!(head.starts_with("http/1.1 503"), "{head}");
    }
    let mut client = Client::connect(server.address, Version::H2).await;
    for _ in 0..ROUNDS {
        let mut request = get("/data");
        *request.method_mut() = Method::HEAD;
        let answer = bounded("the refusal", client.answer(request)).await;
        assert!(answer.status() == 503 && answer.body().is_empty());
    }
    drop(held);
    socket.write_all(b"GET /length HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(answer(&mut socket).await.unwrap().starts_with("http/1.1 200"));
    assert_eq!(client.get("/length").await.unwrap().status(), 200);
    drop((socket, client));
    server.stop().await;
}
