//! The same ways on real connections: hyper in both versions, axum, and tonic.

use std::{convert::Infallible, net::SocketAddr};

use axum::Router;
use futures_util::future::join_all;
use http::{Method, Request};
use http_body_util::BodyExt;
use tonic::service::Routes;
use tower::util::MapErr;
use tower_admission::{Admission, AdmissionLayer};

use super::{ATTEMPTS, all_is_given_back, eight_run};
use crate::support::{Client, Ends, Failure, Probe, Server, Version, bounded, client::empty, client::get};

const WORKERS: usize = 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stack {
    Axum,
    Hyper,
    Tonic,
}

impl Stack {
    pub(super) async fn serve(self, ends: &Ends, admission: &Admission) -> Server {
        let (arrivals, layer) = (ends.probe.arrivals(), AdmissionLayer::new(admission));
        let router = Router::new().fallback_service(infallible(ends.clone()));
        match self {
            Self::Axum => Server::axum(router.layer(layer).layer(arrivals)).await,
            Self::Hyper => ends.clone().serve(layer).await,
            Self::Tonic => {
                let mut server = tonic::transport::Server::builder().layer(arrivals).layer(layer);
                Server::tonic(server.add_routes(Routes::from(router))).await
            }
        }
    }
}

/// For axum, whose services don't fail.
pub(super) fn infallible(ends: Ends) -> MapErr<Ends, fn(Failure) -> Infallible> {
    MapErr::new(ends, |Failure| unreachable!("it was not asked to fail"))
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Reads the answer to its end.
    Read(&'static str, &'static str, u16),
    /// Gets an error, before the head or after it.
    Fail(&'static str),
    /// Leaves as soon as the handler has started.
    LeaveBeforeHead,
    /// Leaves after the first frame.
    LeaveMidway,
    /// Upgrades the connection, and closes it.
    Upgrade,
    /// Opens a tunnel, and closes it.
    Connect,
}

const EVERYWHERE: [Way; 14] = [
    Way::Read("GET", "/data", 200),
    Way::Read("GET", "/empty", 200),
    Way::Read("GET", "/length", 200),
    Way::Read("GET", "/end-stream", 200),
    Way::Read("GET", "/trailers", 200),
    Way::Read("HEAD", "/data", 200),
    Way::Read("GET", "/no-content", 204),
    Way::Read("GET", "/not-modified", 304),
    Way::Fail("/call-panic"),
    Way::Fail("/poll-panic"),
    Way::Fail("/body-panic"),
    Way::Fail("/body-error"),
    Way::LeaveBeforeHead,
    Way::LeaveMidway,
];

struct Worker {
    client: Client,
    server: SocketAddr,
    version: Version,
    ends: Ends,
}

impl Worker {
    async fn attempt(&mut self, way: Way, name: String) {
        if self.client.is_closed() {
            self.reconnect().await;
        }
        match way {
            Way::Read(method, path, status) => {
                let mut request = get(path);
                *request.method_mut() = method.parse().unwrap();
                let answer = self.client.send(request).await.unwrap();
                assert_eq!(answer.status(), status);
                // Over HTTP/2 hyper sends the body that a handler gives to HEAD, and its client refuses it.
                let read = answer.into_body().collect().await;
                assert!(read.is_ok() || method == "HEAD");
            }
            Way::Fail(path) => {
                if let Ok(answer) = self.client.get(path).await {
                    assert!(answer.into_body().collect().await.is_err());
                }
                self.leave().await;
            }
            Way::LeaveBeforeHead => {
                let (path, meeting) = self.ends.meet(name);
                tokio::select! {
                    answer = self.client.get(&path) => panic!("it was answered: {answer:?}"),
                    reached = meeting => reached.unwrap(),
                }
                self.leave().await;
            }
            Way::LeaveMidway => {
                let mut answer = self.client.get("/endless").await.unwrap();
                answer.frame().await.unwrap().unwrap();
                drop(answer);
                self.leave().await;
            }
            Way::Upgrade => {
                let mut request = get("/upgrade");
                request.headers_mut().insert("connection", "upgrade".parse().unwrap());
                request.headers_mut().insert("upgrade", "test".parse().unwrap());
                let answer = self.client.send(request).await.unwrap();
                assert_eq!(answer.status(), 101);
                drop(hyper::upgrade::on(answer).await.unwrap());
                self.reconnect().await;
            }
            Way::Connect => {
                let request = Request::builder().method(Method::CONNECT).uri("host.example:443").body(empty());
                let answer = self.client.send(request.unwrap()).await.unwrap();
                assert_eq!(answer.status(), 200);
                drop(hyper::upgrade::on(answer).await.unwrap());
                self.leave().await;
            }
        }
    }

    /// In HTTP/2 a stream is left by dropping it, in HTTP/1 only the connection can be.
    async fn leave(&mut self) {
        if self.version == Version::H1 {
            self.client.kill();
            self.reconnect().await;
        }
    }

    async fn reconnect(&mut self) {
        self.client = Client::connect(self.server, self.version).await;
    }
}

async fn a_thousand(stack: Stack, version: Version, way: Way) {
    let (admission, probe) = (eight_run(), Probe::open());
    let ends = Ends::new(&probe);
    let server = stack.serve(&ends, &admission).await;
    // HTTP/2 connections are shared by five workers each.
    let mut connections: Vec<Client> = Vec::new();
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        if version == Version::H1 || worker % 5 == 0 {
            connections.push(Client::connect(server.address, version).await);
        }
        let client = match version {
            Version::H1 => connections.remove(0),
            Version::H2 => connections[connections.len() - 1].share(),
        };
        let mut one = Worker { client, server: server.address, version, ends: ends.clone() };
        workers.push(tokio::spawn(async move {
            for attempt in 0..ATTEMPTS / WORKERS {
                one.attempt(way, format!("{worker}-{attempt}")).await;
            }
        }));
    }
    for worker in bounded(&format!("{stack:?} {version:?} {way:?}"), join_all(workers)).await {
        worker.unwrap();
    }
    all_is_given_back(&format!("{stack:?} {version:?} {way:?}"), &admission, &probe).await;
    drop(connections);
    server.stop().await;
}

async fn everywhere(stack: Stack, version: Version) {
    for way in EVERYWHERE {
        a_thousand(stack, version, way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_given_back_once_on_hyper_with_http_1() {
    everywhere(Stack::Hyper, Version::H1).await;
    for way in [Way::Fail("/error"), Way::Upgrade, Way::Connect] {
        a_thousand(Stack::Hyper, Version::H1, way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_given_back_once_on_hyper_with_http_2() {
    everywhere(Stack::Hyper, Version::H2).await;
    for way in [Way::Fail("/error"), Way::Connect] {
        a_thousand(Stack::Hyper, Version::H2, way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_given_back_once_on_axum_with_http_1() {
    everywhere(Stack::Axum, Version::H1).await;
    for way in [Way::Upgrade, Way::Connect] {
        a_thousand(Stack::Axum, Version::H1, way).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_given_back_once_on_tonic() {
    everywhere(Stack::Tonic, Version::H2).await;
}
