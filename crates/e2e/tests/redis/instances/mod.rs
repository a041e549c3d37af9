//! Several instances of a real server under rules that one Redis counts for all of them.

mod caps;
mod config;
mod lost;
mod outage;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Extension, Router, routing::get};
use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Rules, Ticket,
    classify::RequestHead,
    limit::Fixed,
    permit::LeaseLost,
    store::{Leases, LeasesBuilder, RedisStore},
};

use crate::redis::support::{keys, ledger::Ledger, server::Server, shared};

/// One instance: a server with a handle, a store and a connection of its own.
struct Instance {
    address: SocketAddr,
    admission: Admission,
    task: JoinHandle<()>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a handler does: it is counted as running until it is told to go on.
#[derive(Clone)]
struct Work {
    ledger: Ledger,
    go_on: watch::Sender<bool>,
}

impl Work {
    fn new(bound: i64) -> Self {
        Self { ledger: Ledger::new(bound), go_on: watch::Sender::new(false) }
    }

    async fn run(&self, lost: Option<LeaseLost>) -> &'static str {
        let _entry = self.ledger.enter();
        let mut go_on = self.go_on.subscribe();
        let lost = async {
            match &lost {
                Some(lost) => lost.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = go_on.wait_for(|go_on| *go_on) => "done",
            () = lost => "lost",
        }
    }
}

const CLASS: HeaderName = HeaderName::from_static("x-class");
const LABEL: HeaderName = HeaderName::from_static("x-label");

fn classify<'r>(head: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
    if let Some(class) = head.header(&CLASS) {
        ticket.set_class(class);
    }
    if let Some(label) = head.header(&LABEL) {
        ticket.set_namespace("acme");
        ticket.set_label(label);
    }
}

fn settings(rules: Rules) -> AdmissionBuilder {
    Admission::builder().limit(Fixed::new(100)).queue(1_000).rules(rules)
}

impl Instance {
    async fn start(settings: AdmissionBuilder, leases: Leases, work: &Work) -> Self {
        Self::of(settings.shared(leases, keys()).build().unwrap(), work).await
    }

    async fn of(admission: Admission, work: &Work) -> Self {
        let work = work.clone();
        let handler = async move |lost: Option<Extension<LeaseLost>>| work.run(lost.map(|lost| lost.0)).await;
        let layer = AdmissionLayer::new(&admission).classify(classify);
        let app = Router::new().route("/work", get(handler.clone()).post(handler)).route_layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { address, admission, task }
    }

    /// Three of them, each with a store of its own.
    async fn three(server: &Server, rules: &Rules, leases: LeasesBuilder, work: &Work) -> Vec<Self> {
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(Self::start(settings(rules.clone()), leases.clone().build(shared(server.store())), work).await);
        }
        all
    }

    fn running(&self) -> usize {
        self.admission.snapshot().in_flight
    }
}

type Web = Client<HttpConnector, Empty<Bytes>>;

fn web() -> Web {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn get_work(web: &Web, to: SocketAddr, class: &str, label: &str) -> Response<Bytes> {
    let request = Request::get(format!("http://{to}/work")).header("x-class", class).header("x-label", label);
    send(web, request.body(Empty::new()).unwrap()).await
}

async fn send(web: &Web, request: Request<Empty<Bytes>>) -> Response<Bytes> {
    let (head, body) = web.request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

/// A request on its way.
fn spawn_work(web: &Web, to: SocketAddr, class: &str, label: &str) -> JoinHandle<Response<Bytes>> {
    let (web, class, label) = (web.clone(), class.to_owned(), label.to_owned());
    tokio::spawn(async move { get_work(&web, to, &class, &label).await })
}

/// What a rejection says in its problem details.
fn reason(response: &Response<Bytes>) -> String {
    let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    problem["reason"].as_str().unwrap().to_owned()
}

fn leases() -> LeasesBuilder {
    Leases::builder().expiry(Duration::from_secs(5))
}

/// A store with the time limit that is the default.
fn impatient(server: &Server) -> Arc<dyn tower_admission::store::Store> {
    let builder = RedisStore::builder(&server.url(), keys());
    shared(builder.after_restart(tower_admission::store::AfterRestart::Grant).build().unwrap())
}

const OK: StatusCode = StatusCode::OK;
