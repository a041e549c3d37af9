//! Tunnels: WebSockets and the like, CONNECT, and CONNECT with a protocol over HTTP/2.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use h2::{client, ext::Protocol};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, split},
    net::TcpStream,
    task::JoinHandle,
};
use tower::{ServiceBuilder, service_fn};
use tower_admission::{Admission, AdmissionLayer, Permit, Ticket, limit::Fixed};

use crate::support::{Client, Probe, Server, Version, at_rest, bounded, client::empty, client::get, eventually};

const TUNNELS: usize = 40;

/// Sends back what comes, for as long as something comes.
async fn echo(upgraded: Upgraded, permit: Option<Permit>) {
    let (mut from, mut to) = split(TokioIo::new(upgraded));
    // A client that is killed is what the tests are about.
    let _ = copy(&mut from, &mut to).await;
    drop(permit);
}

/// Takes every tunnel. `tunnels` counts them, where there is one.
async fn serve(admission: &Admission, probe: &Probe, tunnels: Option<Admission>) -> Server {
    let tunnels = Arc::new(tunnels);
    let handler = service_fn(move |mut request: Request<Incoming>| {
        let tunnels = Arc::clone(&tunnels);
        async move {
            let mut answer = Response::new(Empty::<Bytes>::new());
            let permit = match &*tunnels {
                Some(tunnels) => match tunnels.try_admit(Ticket::new()) {
                    Ok(permit) => Some(permit),
                    Err(_) => {
                        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                        return Ok::<_, Infallible>(answer);
                    }
                },
                None => None,
            };
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                if let Ok(upgraded) = upgraded.await {
                    echo(upgraded, permit).await;
                }
            });
            if request.method() != Method::CONNECT {
                *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
                answer.headers_mut().insert("upgrade", "test".parse().unwrap());
            }
            Ok(answer)
        }
    });
    let layers = ServiceBuilder::new().layer(probe.arrivals()).layer(AdmissionLayer::new(admission));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().enable_connect_protocol();
    Server::hyper_by(builder, layers.service(handler)).await
}

/// A tunnel, at the side of the client.
struct Tunnel {
    io: TokioIo<Upgraded>,
    client: Client,
}

impl Tunnel {
    async fn open(server: &Server, connect: bool, version: Version) -> Result<Self, u16> {
        let mut client = Client::connect(server.address, version).await;
        let request = if connect {
            Request::builder().method(Method::CONNECT).uri("host.example:443").body(empty()).unwrap()
        } else {
            let mut request = get("/socket");
            request.headers_mut().insert("connection", "upgrade".parse().unwrap());
            request.headers_mut().insert("upgrade", "test".parse().unwrap());
            request
        };
        let answer = bounded("the head", client.send(request)).await.unwrap();
        if answer.status() == 503 {
            return Err(503);
        }
        assert_eq!(answer.status(), if connect { 200 } else { 101 });
        Ok(Self { io: TokioIo::new(hyper::upgrade::on(answer).await.unwrap()), client })
    }

    async fn works(&mut self) {
        self.io.write_all(b"hello").await.unwrap();
        self.io.flush().await.unwrap();
        let mut echoed = [0; 5];
        bounded("the echo", self.io.read_exact(&mut echoed)).await.unwrap();
        assert_eq!(&echoed, b"hello");
    }
}

const KINDS: [(bool, Version); 3] = [(false, Version::H1), (true, Version::H1), (true, Version::H2)];

/// With one slot: each tunnel gives it back with its head, and goes on for as long as the client wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnels_hold_no_slot() {
    for (connect, version) in KINDS {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).queue(1).build().unwrap(), Probe::open());
        let server = serve(&admission, &probe, None).await;
        let mut tunnels = Vec::new();
        for _ in 0..TUNNELS {
            tunnels.push(Tunnel::open(&server, connect, version).await.ok().unwrap());
        }
        eventually("the slot is back", || admission.snapshot().in_flight == 0).await;
        for tunnel in tunnels.iter().take(TUNNELS / 2) {
            tunnel.client.kill();
        }
        for tunnel in tunnels.iter_mut().skip(TUNNELS / 2) {
            tunnel.works().await;
        }
        assert_eq!(admission.snapshot().admitted(), TUNNELS as u64);
        drop(tunnels);
        at_rest(&admission, &probe).await;
        server.stop().await;
    }
}

/// As the guarantees say: a permit that the handler takes and the task of the tunnel holds counts them, the killed ones as
/// well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnels_are_counted_by_a_permit_of_their_own() {
    for (connect, version) in KINDS {
        let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).queue(1).build().unwrap(), Probe::open());
        let counted = Admission::builder().limit(Fixed::new(TUNNELS)).shed().build().unwrap();
        let server = serve(&admission, &probe, Some(counted.clone())).await;
        let mut tunnels = Vec::new();
        for _ in 0..TUNNELS {
            tunnels.push(Tunnel::open(&server, connect, version).await.ok().unwrap());
        }
        assert_eq!(counted.snapshot().in_flight, TUNNELS);
        assert_eq!(Tunnel::open(&server, connect, version).await.err(), Some(503), "one more");
        for tunnel in tunnels.drain(..TUNNELS / 2) {
            tunnel.client.kill();
        }
        eventually("the killed are gone", || counted.snapshot().in_flight == TUNNELS / 2).await;
        Tunnel::open(&server, connect, version).await.ok().unwrap().works().await;
        for tunnel in &mut tunnels {
            tunnel.works().await;
        }
        drop(tunnels);
        eventually("none is left", || counted.snapshot().in_flight == 0).await;
        at_rest(&admission, &probe).await;
        server.stop().await;
    }
}

async fn h2_client(server: &Server) -> (client::SendRequest<Bytes>, JoinHandle<()>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (sender, mut connection) = client::handshake(stream).await.unwrap();
    // The server says first that it knows the protocol.
    let mut settings = sender.clone();
    let known = async {
        while !settings.is_extended_connect_protocol_enabled() {
            settings = settings.ready().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    bounded("the settings", async {
        tokio::select! {
            ended = &mut connection => panic!("{ended:?}"),
            () = known => {}
        }
    })
    .await;
    (sender, tokio::spawn(async { drop(connection.await) }))
}

/// How WebSockets are opened over HTTP/2 (RFC 8441): streams of one connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tunnels_of_a_protocol_over_http_2_hold_no_slot() {
    let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).queue(1).build().unwrap(), Probe::open());
    let server = serve(&admission, &probe, None).await;
    let (sender, connection) = h2_client(&server).await;
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        let mut request = Request::builder().method(Method::CONNECT).uri("http://x/socket").body(()).unwrap();
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        let (answer, body) = sender.clone().ready().await.unwrap().send_request(request, false).unwrap();
        let answer = bounded("the head", answer).await.unwrap();
        assert_eq!(answer.status(), 200);
        tunnels.push((body, answer.into_body()));
    }
    eventually("the slot is back", || admission.snapshot().in_flight == 0).await;
    for (number, (mut to, mut from)) in tunnels.into_iter().enumerate() {
        if number % 2 == 0 {
            to.send_reset(h2::Reason::CANCEL);
        } else {
            to.send_data(Bytes::from_static(b"hello"), false).unwrap();
            assert_eq!(bounded("the echo", from.data()).await.unwrap().unwrap(), "hello");
        }
    }
    assert_eq!(admission.snapshot().admitted(), TUNNELS as u64);
    drop(sender);
    connection.abort();
    at_rest(&admission, &probe).await;
    server.stop().await;
}

/// The control: without a slot there is no tunnel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_waits_for_its_slot_as_others_do() {
    let (admission, probe) = (Admission::builder().limit(Fixed::new(1)).shed().build().unwrap(), Probe::open());
    let server = serve(&admission, &probe, None).await;
    let held = admission.try_admit(Ticket::new()).unwrap();
    probe.count_arrival();
    for (connect, version) in KINDS {
        assert_eq!(Tunnel::open(&server, connect, version).await.err(), Some(503));
    }
    drop(held);
    at_rest(&admission, &probe).await;
    server.stop().await;
}
