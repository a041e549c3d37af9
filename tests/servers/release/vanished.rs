//! A thousand clients that vanish while they wait, and others that don't notice.
//!
//! Two partitions have four slots each. Those of the one are taken, so that all who come wait; the other one is used by
//! residents, who are served all the time. Work of a client that is gone must not start: where the server sees that it is
//! gone, at no time, and else not after the longest wait.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, routing::any};
use http::{Method, Request};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tower::util::MapRequestLayer;
use tower_admission::{Admission, AdmissionLayer, Permit, Ticket, classify::by_header, limit::Fixed, percent};

use super::{ATTEMPTS, LIMIT};
use crate::support::{Client, Probe, Server, Version, at_rest, bounded, client::get, eventually};

const SHARE: usize = LIMIT / 2;
const STREAMS: usize = 100;
/// How late a busy machine may be to run what has a slot.
const SLACK: Duration = Duration::from_secs(1);

/// How clients come, and how they vanish.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// HTTP/1, and the connection is closed or reset.
    GetClosed,
    GetReset,
    /// The same with a body that nobody reads: hyper doesn't look at the connection then.
    PostClosed,
    /// HTTP/2, a hundred streams on each connection: the streams are reset, or the connection is closed or reset.
    StreamsReset,
    StreamsClosed,
    StreamsKilled,
}

/// Those who wait and will vanish.
struct Vanishing {
    way: Way,
    sockets: Vec<TcpStream>,
    connections: Vec<Client>,
    streams: Vec<JoinHandle<()>>,
}

impl Vanishing {
    /// A thousand of them send their request.
    async fn come(way: Way, server: SocketAddr) -> Self {
        let mut this = Self { way, sockets: Vec::new(), connections: Vec::new(), streams: Vec::new() };
        let request = match way {
            Way::GetClosed | Way::GetReset => "GET /work HTTP/1.1\r\nhost: test\r\nx-partition: vanishing\r\n\r\n",
            Way::PostClosed => {
                "POST /work HTTP/1.1\r\nhost: test\r\nx-partition: vanishing\r\ncontent-length: 9\r\n\r\nunre"
            }
            _ => {
                this.open_streams(server).await;
                return this;
            }
        };
        for _ in 0..ATTEMPTS {
            let mut socket = TcpStream::connect(server).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            this.sockets.push(socket);
        }
        this
    }

    async fn open_streams(&mut self, server: SocketAddr) {
        for _ in 0..ATTEMPTS / STREAMS {
            let connection = match self.way {
                Way::StreamsKilled => Client::connect_to_reset(server, Version::H2).await,
                _ => Client::connect(server, Version::H2).await,
            };
            for _ in 0..STREAMS {
                let mut stream = connection.share();
                self.streams.push(tokio::spawn(async move { drop(stream.send(from("vanishing", "/work")).await) }));
            }
            self.connections.push(connection);
        }
    }

    /// All of them are gone. The connections of streams that were reset stay.
    fn vanish(self) -> Vec<Client> {
        for socket in self.sockets {
            if self.way == Way::GetReset {
                socket.set_zero_linger().unwrap();
            }
        }
        if self.way == Way::StreamsReset {
            self.streams.iter().for_each(JoinHandle::abort);
            return self.connections;
        }
        self.connections.iter().for_each(Client::kill);
        Vec::new()
    }
}

fn from(partition: &'static str, path: &str) -> Request<crate::support::Outgoing> {
    let mut request = get(path);
    request.headers_mut().insert("x-partition", partition.parse().unwrap());
    request
}

/// Somebody of the other partition, who sends one request after the other.
struct Resident {
    served: Arc<AtomicU64>,
    leaves: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Resident {
    fn settle_down(server: SocketAddr) -> Self {
        let (served, leaves) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let task = tokio::spawn({
            let (served, leaves) = (Arc::clone(&served), Arc::clone(&leaves));
            async move {
                let mut client = Client::connect(server, Version::H1).await;
                while !leaves.load(Ordering::SeqCst) {
                    assert_eq!(client.answer(from("residents", "/home")).await.status(), 200);
                    served.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self { served, leaves, task }
    }

    /// Waits until it was served some more times, from now on.
    async fn is_served(&self) {
        let before = self.served.load(Ordering::SeqCst);
        eventually("the resident is served", || {
            assert!(!self.task.is_finished(), "the resident was not served");
            self.served.load(Ordering::SeqCst) >= before + 20
        })
        .await;
    }

    async fn leave(self) {
        self.leaves.store(true, Ordering::SeqCst);
        bounded("the resident", self.task).await.unwrap();
    }
}

/// A server, the witnesses, and all slots of the partition of those who will vanish.
struct Scene {
    admission: Admission,
    /// Counts those who arrive, and those of `/work` that start.
    arrivals: Probe,
    work: Probe,
    /// For how long those who started had been there.
    ages: Arc<Mutex<Vec<Duration>>>,
    server: Server,
    held: Vec<Permit>,
    resident: Resident,
}

impl Scene {
    async fn set(axum: bool, max_wait: Option<Duration>, work_takes: Duration) -> Self {
        let builder = Admission::builder().limit(Fixed::new(LIMIT)).queue(20_000);
        let builder = builder.partition("vanishing", percent(50).hard_cap()).partition("residents", percent(50));
        let builder = max_wait.into_iter().fold(builder, tower_admission::AdmissionBuilder::max_wait);
        let admission = builder.build().unwrap();
        let (arrivals, work) = (Probe::open(), Probe::open());
        let ages = Arc::<Mutex<Vec<Duration>>>::default();
        let handler = {
            let (work, ages) = (work.clone(), Arc::clone(&ages));
            async move |Extension(arrived): Extension<Instant>| {
                ages.lock().unwrap().push(arrived.elapsed());
                let _running = work.enter();
                sleep(work_takes).await;
            }
        };
        let app = Router::new()
            .route("/work", any(handler))
            .route("/home", any(async || "served"))
            .layer(AdmissionLayer::new(&admission).classify(by_header("x-partition")))
            .layer(arrivals.arrivals())
            .layer(MapRequestLayer::new(|mut request: Request<_>| {
                request.extensions_mut().insert(Instant::now());
                request
            }));
        let server = if axum { Server::axum(app).await } else { Server::hyper(app).await };
        let held = (0..SHARE)
            .map(|_| {
                arrivals.count_arrival();
                admission.try_admit(Ticket::new().partition("vanishing")).unwrap()
            })
            .collect();
        let resident = Resident::settle_down(server.address);
        Self { admission, arrivals, work, ages, server, held, resident }
    }

    fn vanishing<T>(&self, what: impl FnOnce(&tower_admission::snapshot::PartitionSnapshot) -> T) -> T {
        what(self.admission.snapshot().partition("vanishing").unwrap())
    }

    /// A thousand come and vanish. Until then the resident is served.
    async fn vanish(&self, way: Way) -> Vec<Client> {
        let vanishing = Vanishing::come(way, self.server.address).await;
        eventually("all have come", || {
            self.vanishing(|it| it.waiting as u64 + it.rejected.values().sum::<u64>()) == ATTEMPTS as u64
        })
        .await;
        self.resident.is_served().await;
        vanishing.vanish()
    }

    /// All slots are free again, and whoever comes now is served.
    async fn end(mut self, what: &str) {
        self.held.clear();
        self.resident.is_served().await;
        let started = self.work.started();
        let mut client = Client::connect(self.server.address, Version::H1).await;
        let mut request = from("vanishing", "/work");
        *request.method_mut() = Method::POST;
        assert_eq!(bounded("a client that stays", client.send(request)).await.unwrap().status(), 200);
        assert_eq!(self.work.started(), started + 1, "{what}");
        drop(client);
        println!(
            "{what}: {started} started, the resident was served {} times",
            self.resident.served.load(Ordering::SeqCst)
        );
        self.resident.leave().await;
        at_rest(&self.admission, &self.arrivals).await;
        self.server.stop().await;
    }
}

/// Where the server sees that a client is gone, its place is free at once: here nothing else would end the wait.
async fn gone_at_once(ways: &[Way]) {
    for &way in ways {
        for axum in [false, true] {
            let mut scene = Scene::set(axum, None, Duration::ZERO).await;
            let connections = scene.vanish(way).await;
            eventually("nobody waits", || scene.vanishing(|it| it.waiting) == 0).await;
            assert_eq!(scene.vanishing(|it| it.cancelled_waiting), ATTEMPTS as u64);
            assert_eq!(scene.admission.snapshot().partition("vanishing").unwrap().in_flight, SHARE);
            scene.resident.is_served().await;
            scene.held.clear();
            eventually("all slots are free", || scene.vanishing(|it| it.in_flight) == 0).await;
            assert_eq!(scene.work.started(), 0, "{way:?}");
            drop(connections);
            scene.end(&format!("{way:?}, axum: {axum}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_thousand_http_1_clients_that_vanished_does_not_start() {
    gone_at_once(&[Way::GetClosed, Way::GetReset]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_thousand_http_2_streams_that_vanished_does_not_start() {
    gone_at_once(&[Way::StreamsReset, Way::StreamsClosed, Way::StreamsKilled]).await;
}

/// Nobody sees that these are gone, so the longest wait has to end it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_a_thousand_clients_that_vanished_unseen_does_not_start_after_the_longest_wait() {
    for axum in [false, true] {
        let max_wait = Duration::from_secs(2);
        let mut scene = Scene::set(axum, Some(max_wait), Duration::ZERO).await;
        scene.vanish(Way::PostClosed).await;
        eventually("nobody waits", || scene.vanishing(|it| it.waiting) == 0).await;
        // The cap of the partition was in the way, so it is named.
        assert_eq!(scene.vanishing(|it| it.rejected["partition_cap"]), ATTEMPTS as u64);
        scene.resident.is_served().await;
        scene.held.clear();
        eventually("all slots are free", || scene.vanishing(|it| it.in_flight) == 0).await;
        assert_eq!(scene.work.started(), 0);
        scene.end(&format!("PostClosed, axum: {axum}")).await;
    }
}

/// The same while slots come free: whose turn comes in time is started, as nobody knows that its client is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_clients_that_vanished_unseen_none_is_started_late() {
    let max_wait = Duration::from_secs(2);
    let mut scene = Scene::set(true, Some(max_wait), Duration::from_millis(50)).await;
    scene.vanish(Way::PostClosed).await;
    scene.held.clear();
    eventually("nobody waits or runs", || scene.vanishing(|it| it.waiting + it.in_flight) == 0).await;
    let timed_out = scene.vanishing(|it| it.rejected.values().sum::<u64>());
    assert_eq!(scene.work.started() + timed_out, ATTEMPTS as u64);
    assert!(scene.work.peak() <= SHARE && timed_out > 0);
    let oldest = scene.ages.lock().unwrap().iter().max().copied().unwrap_or_default();
    assert!(oldest < max_wait + SLACK, "one was started after {oldest:?}");
    scene.end(&format!("oldest {oldest:?}")).await;
}

/// The control: without a bound all of this work is done, for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_longest_wait_the_work_of_clients_that_vanished_unseen_is_all_done() {
    let mut scene = Scene::set(true, None, Duration::ZERO).await;
    scene.vanish(Way::PostClosed).await;
    scene.resident.is_served().await;
    assert_eq!(scene.vanishing(|it| it.waiting), ATTEMPTS);
    scene.held.clear();
    eventually("all are started", || scene.work.started() == ATTEMPTS as u64).await;
    scene.end("no bound").await;
}
