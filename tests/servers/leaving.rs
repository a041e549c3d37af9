//! An instance leaves a group behind a load balancer that notices late: no client is refused.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::grpc::{MANY, Many, Served, call_many};
use axum::{Router, body::Body, extract::Request, routing::get};
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header::CONNECTION};
use http_body_util::BodyExt;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tower::util::MapRequestLayer;
use tower_admission::{Admission, AdmissionLayer, DrainMode, Ticket, limit::Fixed};

use crate::support::{Client, Server, Version, bounded, grpc::connect};

/// Times of the page about Kubernetes, a tenth of each.
const PROPAGATION: Duration = Duration::from_millis(500);
const SHUTDOWN: Duration = Duration::from_millis(800);
const DRAIN: Duration = Duration::from_millis(1_600);

/// One instance, with what it was told.
struct Instance {
    admission: Admission,
    server: Server,
}

impl Instance {
    async fn start(drain_after: Duration, begun: Arc<AtomicU64>) -> Self {
        let admission = Admission::builder().limit(Fixed::new(50)).drain_after(drain_after).build().unwrap();
        let quick = || async {
            // The work that is modelled.
            sleep(Duration::from_millis(5)).await;
            "done"
        };
        let pieces = || async {
            Body::from_stream(stream::unfold(0, |sent| async move {
                sleep(Duration::from_millis(30)).await;
                (sent < 20).then(|| (Ok::<_, std::convert::Infallible>(Bytes::from_static(b"piece")), sent + 1))
            }))
        };
        let messages = |_: String| {
            stream::unfold(0, |sent| async move {
                sleep(Duration::from_millis(30)).await;
                (sent < 20).then(|| (Ok("piece".to_owned()), sent + 1))
            })
        };
        let app = Router::new()
            .route("/", get(quick))
            .route("/stream", get(pieces))
            .route_service(MANY, Served(Many(messages)))
            .layer(MapRequestLayer::new(move |request: Request| {
                begun.fetch_add(1, Ordering::SeqCst);
                request
            }));
        let server = Server::axum(app.layer(AdmissionLayer::new(&admission))).await;
        Self { admission, server }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    KeepAlive,
    Http2,
    Streaming,
}

/// What clients saw.
#[derive(Debug, Default)]
struct Seen {
    answered: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    /// Streams over gRPC that came to their ends.
    streamed: AtomicU64,
    /// Calls and requests that were not taken since the connection ended.
    went_away: AtomicU64,
    /// Requests and calls that reached a handler.
    begun: Arc<AtomicU64>,
    /// Answers that told the client to close, and connections to the instance that leaves.
    closes: AtomicU64,
}

/// Which of both instances the load balancer knows of.
struct Balancer {
    addresses: [std::net::SocketAddr; 2],
    has_noticed: AtomicBool,
}

impl Balancer {
    /// Each client takes both in turns, so that half of each kind are at either instance, however their tasks are scheduled.
    fn pick(&self, turn: &mut usize) -> std::net::SocketAddr {
        *turn += 1;
        self.addresses[if self.has_noticed.load(Ordering::SeqCst) { 1 } else { *turn % 2 }]
    }
}

/// Whether a request never left the client, or crossed the server's word that it goes away. A server doesn't look at a stream
/// that it doesn't name there (RFC 9113, 6.8), so such a request is safe to send again.
fn was_not_taken(error: &hyper::Error) -> bool {
    let of_http_2 = std::error::Error::source(error).and_then(|it| it.downcast_ref::<h2::Error>());
    let goes_away = |it: &h2::Error| it.is_go_away() && it.is_remote() && it.reason() == Some(h2::Reason::NO_ERROR);
    error.is_canceled() || of_http_2.is_some_and(goes_away)
}

/// A client that keeps its connection until it is told to close it.
async fn ask_again_and_again(
    kind: Kind,
    mut turn: usize,
    balancer: Arc<Balancer>,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
) {
    let version = if matches!(kind, Kind::Http2) { Version::H2 } else { Version::H1 };
    let path = if matches!(kind, Kind::Streaming) { "/stream" } else { "/" };
    let count = |what: &AtomicU64| what.fetch_add(1, Ordering::Relaxed);
    let mut client = None;
    while !stop.load(Ordering::SeqCst) {
        let mut open = match client.take() {
            Some(open) => open,
            None => Client::connect(balancer.pick(&mut turn), version).await,
        };
        // A connection that the server has closed by now takes no request: another one is opened, and none is lost.
        if open.ready().await.is_err() {
            continue;
        }
        let asked = open.get(path).await;
        let Ok(response) =
            asked.inspect_err(|it| _ = count(if was_not_taken(it) { &seen.went_away } else { &seen.broken }))
        else {
            continue;
        };
        let closes = response.headers().get(CONNECTION).is_some_and(|it| it == "close");
        assert!(!(closes && version == Version::H2), "HTTP/2 has no such header");
        let status = response.status();
        match response.into_body().collect().await {
            Ok(_) if status == StatusCode::OK => count(&seen.answered),
            Ok(_) => count(&seen.refused),
            Err(_) => count(&seen.broken),
        };
        if closes {
            count(&seen.closes);
        } else {
            client = Some(open);
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// The same over gRPC: calls that are answered with a stream, over a connection that is kept until the server closes it.
async fn stream_again_and_again(mut turn: usize, balancer: Arc<Balancer>, seen: Arc<Seen>, stop: Arc<AtomicBool>) {
    let count = |what: &AtomicU64| what.fetch_add(1, Ordering::Relaxed);
    let mut channel = None;
    while !stop.load(Ordering::SeqCst) {
        let open = match channel.take() {
            Some(open) => open,
            None => connect(balancer.pick(&mut turn)).await,
        };
        match call_many(open.clone(), tonic::Request::new(String::new())).await {
            Ok(mut messages) => {
                let mut got = 0;
                let ended = loop {
                    match messages.message().await {
                        Ok(Some(_)) => got += 1,
                        Ok(None) => break got == 20,
                        Err(_) => break false,
                    }
                };
                count(if ended { &seen.streamed } else { &seen.broken });
                channel = Some(open);
            }
            // The server said on the connection that it goes away, and took this call no more: it is safe to send it elsewhere.
            Err(status) if std::error::Error::source(&status).is_some_and(|it| it.is::<tonic::transport::Error>()) => {
                count(&seen.went_away);
            }
            Err(_) => {
                count(&seen.refused);
            }
        }
    }
}

/// Lets the first of two instances leave, under load. Returns what clients saw.
async fn leave(drain_after: Duration) -> Arc<Seen> {
    let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
    let first = Instance::start(drain_after, Arc::clone(&seen.begun)).await;
    let second = Instance::start(DRAIN, Arc::clone(&seen.begun)).await;
    let addresses = [first.server.address, second.server.address];
    let balancer = Arc::new(Balancer { addresses, has_noticed: AtomicBool::new(false) });
    let mut clients = JoinSet::new();
    for kind in [Kind::KeepAlive, Kind::Http2, Kind::Streaming] {
        for number in 0..6 {
            let client = ask_again_and_again(kind, number, Arc::clone(&balancer), Arc::clone(&seen), Arc::clone(&stop));
            clients.spawn(client);
        }
    }
    for number in 0..6 {
        clients.spawn(stream_again_and_again(number, Arc::clone(&balancer), Arc::clone(&seen), Arc::clone(&stop)));
    }
    bounded("load on both", async {
        while seen.answered.load(Ordering::SeqCst) < 200 || seen.streamed.load(Ordering::SeqCst) < 6 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(first.admission.is_ready() && seen.closes.load(Ordering::SeqCst) == 0);

    let start = Instant::now();
    let left = first.admission.leave(DrainMode::ServeWaiting);
    assert!(!first.admission.is_ready());
    tokio::time::sleep_until(start + PROPAGATION).await;
    balancer.has_noticed.store(true, Ordering::SeqCst);
    tokio::time::sleep_until(start + SHUTDOWN).await;
    let stopped = tokio::spawn(first.server.stop());
    bounded("the end of admission", left).await;
    assert!(start.elapsed() >= drain_after);
    let refused = first.admission.try_admit(Ticket::new()).unwrap_err();
    assert_eq!(refused.reason(), tower_admission::Reason::Draining);
    bounded("the last request", first.admission.drained()).await;
    stopped.await.unwrap();
    stop.store(true, Ordering::SeqCst);
    while let Some(ended) = bounded("a client", clients.join_next()).await {
        ended.unwrap();
    }
    second.server.stop().await;
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_refused_that_could_have_been_served() {
    let seen = leave(DRAIN).await;
    println!("readiness first: {seen:?}");
    let [answered, refused, broken, closes] =
        [&seen.answered, &seen.refused, &seen.broken, &seen.closes].map(|it| it.load(Ordering::SeqCst));
    let [streamed, went_away] = [&seen.streamed, &seen.went_away].map(|it| it.load(Ordering::SeqCst));
    assert!(answered > 500 && closes > 3 && streamed > 12, "{seen:?}");
    // Each connection ends once, and nothing was begun of what was not taken.
    assert!(went_away <= 6, "{seen:?}");
    assert_eq!(seen.begun.load(Ordering::SeqCst), answered + streamed, "{seen:?}");
    assert_eq!((refused, broken), (0, 0), "of {answered} requests: {seen:?}");

    // The control: admission that ends with readiness.
    let seen = leave(Duration::ZERO).await;
    println!("at once: {seen:?}");
    assert!(seen.refused.load(Ordering::SeqCst) > 20, "{seen:?}");
}
