//! An axum server whose requests need a Redis, through a pool of ten connections.
//!
//! Redis works at one request at a time. A request takes it for some milliseconds, and is worked at to its end when its
//! caller has left. Callers leave after 250 ms.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use bb8_redis::{
    RedisConnectionManager,
    bb8::Pool,
    redis::{Script, aio::MultiplexedConnection},
};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use load::{Meter, Outcome, Plan, Role, Row, Server, drive, header, most_closed, row, serve};
use pool::{Redis, glue, work};
use tokio::net::TcpListener;

const VARIANTS: [&str; 4] = ["bare", "tower", "patience", "best"];
const CONNECTIONS: u32 = 10;
/// The limit of tower's layer: twice as many as there are connections, so that each connection is used.
const TOWER: usize = 20;
/// How long a request takes Redis.
const WORK: Duration = Duration::from_millis(4);
const DEADLINE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
struct App {
    pool: Pool<RedisConnectionManager>,
    work: Script,
    times: u32,
    meter: Meter,
}

/// How many members two rankings have in common.
async fn common(State(app): State<App>) -> Result<String, StatusCode> {
    let _running = app.meter.enter();
    let mut connection = app.pool.get().await.map_err(|_| StatusCode::GATEWAY_TIMEOUT)?;
    let connection: &mut MultiplexedConnection = &mut connection;
    let common: u64 = app.work.arg(app.times).invoke_async(connection).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(common.to_string())
}

/// The server. `words` are the variant, the port of Redis, and how many times a request counts members.
async fn be_server(words: &str) {
    let [variant, port, times] = words.split(' ').collect::<Vec<_>>()[..] else { panic!("three words, not {words}") };
    let manager = RedisConnectionManager::new(format!("redis://127.0.0.1:{port}")).expect("an address");
    let pool = Pool::builder().max_size(CONNECTIONS).min_idle(CONNECTIONS).build(manager).await.expect("Redis runs");
    let meter = Meter::default();
    let app = App { pool, work: work(), times: times.parse().expect("a number"), meter: meter.clone() };
    let routes = Router::new().route("/common", get(common)).with_state(app);
    let routes = match variant {
        "bare" => routes,
        "tower" => glue::tower(routes, TOWER),
        "patience" => glue::patience(routes, DEADLINE).expect("valid settings"),
        "best" => glue::best(routes, DEADLINE, CONNECTIONS as usize).expect("valid settings"),
        _ => panic!("{variant} is none of {VARIANTS:?}"),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    serve(address, &meter).await;
}

/// Connections are opened as needed and kept.
#[derive(Clone, Debug)]
struct Callers {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
}

impl Callers {
    fn new(address: SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), address }
    }

    async fn call(self) -> Outcome {
        let request = Request::get(format!("http://{}/common", self.address)).body(Empty::new());
        let Ok(answer) = self.client.request(request.expect("a valid request")).await else { return Outcome::Failed };
        let status = answer.status();
        match answer.into_body().collect().await {
            Ok(_) if status == StatusCode::OK => Outcome::InTime(1),
            Ok(_) if status == StatusCode::SERVICE_UNAVAILABLE => Outcome::Refused,
            _ => Outcome::Failed,
        }
    }
}

/// Requests per second that the server answers where no more come than it has connections.
async fn capacity(times: u32, length: Duration) -> f64 {
    let redis = Redis::start().await;
    let server = Server::start(&format!("bare {} {times}", redis.port)).await;
    let callers = Callers::new(server.address);
    let per_second = most_closed(u64::from(CONNECTIONS), 5, length, move |_| callers.clone().call()).await;
    server.stop().await;
    redis.stop().await;
    per_second
}

async fn table(quick: bool, only: &str) {
    let times = Redis::times(WORK).await;
    let capacity = capacity(times, Duration::from_millis(if quick { 500 } else { 2_000 })).await;
    assert!(capacity > 0.0, "a request was answered");
    let plan = Plan::new(capacity, DEADLINE, quick);
    println!("Capacity: {capacity:.0} requests/s.\n\n{}", header());
    for (load, variant) in load::runs(&VARIANTS, only) {
        let mut redis = Redis::start().await;
        let server = Server::start(&format!("{variant} {} {times}", redis.port)).await;
        let callers = Callers::new(server.address);
        let tally = drive(&plan, load, |_| callers.clone().call()).await;
        let mut counters = server.stop().await;
        counters.work = redis.done().await;
        redis.stop().await;
        println!("{}", row(&Row { load, variant, plan: &plan, tally: &tally, counters }));
    }
}

#[tokio::main]
async fn main() {
    match Role::of_this_process() {
        Role::Serve(words) => be_server(&words).await,
        Role::Table { quick, only } => table(quick, &only).await,
    }
}
