//! An axum server with server-sent events: one call in ten subscribes, is greeted, and stays for five seconds in which nothing happens.
//!
//! A subscription costs as much as a call, and then nothing but its slot. So the server can serve its capacity of both.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    response::{
        Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use load::{Meter, Outcome, Plan, Role, Running, Slots, compare, serve};
use pool::glue;
use tokio::{net::TcpListener, time::timeout};
use tower_admission::{
    Admission, AdmissionLayer,
    policy::{Policy, SampleAt},
};

const VARIANTS: [&str; 4] = ["bare", "tower", "heads", "patience"];
const SLOTS: usize = 8;
const WORK: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(250);
const SUBSCRIBED: Duration = Duration::from_secs(5);
/// The limit of tower's layer: what keeps the slots busy, and no more.
const TOWER: usize = 20;

async fn call(State((slots, meter)): State<(Slots, Meter)>) -> &'static str {
    let _running = meter.enter();
    slots.work().await;
    "done"
}

async fn events(State((slots, meter)): State<(Slots, Meter)>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let running: Running = meter.enter();
    slots.work().await;
    let hello = stream::iter([Ok(Event::default().data("hello"))]).chain(stream::pending());
    Sse::new(hello.inspect(move |_| _ = &running)).keep_alive(KeepAlive::default())
}

async fn be_server(variant: &str) {
    let meter = Meter::default();
    // Open subscriptions cost nothing.
    let slots = Slots::new(SLOTS, WORK, u64::MAX, &meter);
    let routes = Router::new().route("/call", get(call)).route("/events", get(events));
    let routes = routes.with_state((slots, meter.clone()));
    let routes = match variant {
        "bare" => routes,
        "tower" => glue::tower(routes, TOWER),
        "patience" => glue::patience(routes, DEADLINE).expect("valid settings"),
        // A law that learns from heads, as that of each peer does, behind a limit that counts bodies.
        "heads" => {
            let admission = Admission::builder().patience(DEADLINE).build().expect("valid settings");
            let policy = Policy::new().sample_at(SampleAt::ResponseHead);
            routes.layer(AdmissionLayer::new(&admission).policy(policy))
        }
        _ => panic!("{variant} is none of {VARIANTS:?}"),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    serve(address, &meter).await;
}

type Caller = (Client<HttpConnector, Empty<Bytes>>, SocketAddr);

/// A call, or a subscription, which is answered with its head and goes on.
async fn ask(caller: Arc<Caller>, number: u64) -> Outcome {
    let (client, address) = &*caller;
    let subscribes = number.is_multiple_of(10);
    let path = if subscribes { "events" } else { "call" };
    let request = Request::get(format!("http://{address}/{path}")).body(Empty::new()).expect("a valid request");
    let Ok(answer) = client.request(request).await else { return Outcome::Failed };
    match answer.status() {
        StatusCode::OK if subscribes => {
            tokio::spawn(timeout(SUBSCRIBED, answer.into_body().collect()));
            Outcome::InTime(1)
        }
        StatusCode::OK if answer.into_body().collect().await.is_ok() => Outcome::InTime(1),
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Refused,
        _ => Outcome::Failed,
    }
}

#[tokio::main]
async fn main() {
    match Role::of_this_process() {
        Role::Serve(variant) => be_server(&variant).await,
        Role::Table { quick, only } => {
            let plan = Plan::new(SLOTS as f64 / WORK.as_secs_f64(), DEADLINE, quick);
            let connect = async |_, address| (Client::builder(TokioExecutor::new()).build_http(), address);
            compare(&plan, &only, &VARIANTS, connect, ask).await;
        }
    }
}
