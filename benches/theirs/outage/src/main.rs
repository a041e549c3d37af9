//! Nine points of the map of the second stable state, on real servers: an axum server loses eleven of its sixteen workers for ten
//! seconds, while callers come back once after they gave up.
//!
//! The map itself is made by the simulator, in its example `second_state`. Work goes on when its caller has left, so without a limit
//! the workers are kept busy by calls that no caller waits for, also when all workers are back.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{Router, extract::State, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use load::{Meter, Outcome, Plan, Role, Server, drive, serve};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tower_admission::{Admission, AdmissionLayer};

const WORKERS: u32 = 16;
const LOST: u32 = 11;
const WORK: Duration = Duration::from_millis(50);
const OUTAGE: Duration = Duration::from_secs(10);
/// Seconds before the outage, and after it.
const BEFORE: u64 = 10;
const AFTER: u64 = 40;
const LOADS: [f64; 3] = [0.6, 0.75, 0.9];
/// How long callers wait, in service times.
const PATIENCE: [u32; 3] = [6, 15, 40];
/// A caller that gave up, or was refused, comes back once after this time, more or less.
const BACKOFF: f64 = 0.1;

#[derive(Clone, Debug)]
struct App {
    workers: Arc<Semaphore>,
    meter: Meter,
}

/// A call: a worker works at it, whether or not its caller still waits.
async fn work(State(app): State<App>) {
    let _running = app.meter.enter();
    let work = tokio::spawn(async move {
        let _worker = app.workers.acquire().await.expect("it is never closed");
        sleep(WORK.mul_f64(0.5 + fastrand::f64())).await;
        app.meter.worked(1);
    });
    work.await.expect("it does not panic");
}

/// Most workers are gone for some time.
async fn lose(State(app): State<App>) {
    tokio::spawn(async move {
        let _lost = app.workers.acquire_many(LOST).await.expect("it is never closed");
        sleep(OUTAGE).await;
    });
}

/// The server. `kind` is "bare", or how long callers wait in milliseconds, which is all that the layer is told.
async fn be_server(kind: &str) {
    let meter = Meter::default();
    let app = App { workers: Arc::new(Semaphore::new(WORKERS as usize)), meter: meter.clone() };
    let calls = Router::new().route("/work", get(work));
    let calls = match kind.parse() {
        Ok(patience) => {
            let admission =
                Admission::builder().patience(Duration::from_millis(patience)).build().expect("valid settings");
            calls.layer(AdmissionLayer::new(&admission))
        }
        Err(_) => calls,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let routes = calls.route("/lose", get(lose)).with_state(app);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    serve(address, &meter).await;
}

/// The callers of a server, and how many of them were answered in time in each second.
#[derive(Debug)]
struct Callers {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
    patience: Duration,
    begin: Instant,
    good: Vec<AtomicU32>,
}

impl Callers {
    async fn get(&self, path: &str) -> bool {
        let request = Request::get(format!("http://{}{path}", self.address)).body(Empty::new()).expect("a request");
        let Ok(answer) = self.client.request(request).await else { return false };
        let is_ok = answer.status() == StatusCode::OK;
        answer.into_body().collect().await.is_ok() && is_ok
    }

    async fn call(self: Arc<Self>) -> Outcome {
        for attempt in 0..2 {
            if attempt > 0 {
                sleep(Duration::from_secs_f64(BACKOFF * (0.5 + fastrand::f64()))).await;
            }
            if timeout(self.patience, self.get("/work")).await == Ok(true) {
                let second = usize::try_from(self.begin.elapsed().as_secs()).unwrap_or(usize::MAX);
                if let Some(good) = self.good.get(second) {
                    good.fetch_add(1, Relaxed);
                }
                return Outcome::InTime(1);
            }
        }
        Outcome::Late
    }
}

/// One point: the service times from the end of the outage until five seconds in a row have nine tenths of what was sent, if that
/// happens, and the part of what was sent in the last ten seconds that was answered in time.
async fn point(load: f64, service_times: u32, has_layer: bool) -> (Option<u64>, f64) {
    let patience = WORK * service_times;
    let kind = if has_layer { patience.as_millis().to_string() } else { "bare".to_owned() };
    let server = Server::start(&kind).await;
    let seconds = BEFORE + OUTAGE.as_secs() + AFTER;
    let callers = Arc::new(Callers {
        client: Client::builder(TokioExecutor::new()).build_http(),
        address: server.address,
        patience,
        begin: Instant::now(),
        good: (0..seconds).map(|_| AtomicU32::new(0)).collect(),
    });
    let capacity = f64::from(WORKERS) / WORK.as_secs_f64();
    // Callers give up by themselves.
    let length = Duration::from_secs(seconds);
    let plan = Plan { capacity, work: 1.0, deadline: length, warm_up: Duration::ZERO, length };
    let outage = tokio::spawn({
        let callers = Arc::clone(&callers);
        async move {
            sleep(Duration::from_secs(BEFORE)).await;
            assert!(callers.get("/lose").await, "the server answers");
        }
    });
    drive(&plan, load, |_| Arc::clone(&callers).call()).await;
    outage.await.expect("the workers were lost");
    server.stop().await;
    let good: Vec<f64> = callers.good.iter().map(|it| f64::from(it.load(Relaxed))).collect();
    let after = &good[usize::try_from(BEFORE + OUTAGE.as_secs()).unwrap_or_default()..];
    let sent = load * capacity;
    let well = after.windows(5).position(|five| five.iter().sum::<f64>() >= 0.9 * 5.0 * sent);
    let per_second = u64::try_from(Duration::from_secs(1).as_millis() / WORK.as_millis()).unwrap_or_default();
    let last = after.iter().rev().take(10).sum::<f64>() / (10.0 * sent);
    (well.and_then(|second| u64::try_from(second).ok()).map(|second| second * per_second), last)
}

async fn table() {
    println!("| load | callers wait | without: well after | at the end | with patience: well after | at the end |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for load in LOADS {
        let mut points = JoinSet::new();
        for (number, patience) in PATIENCE.into_iter().enumerate() {
            points.spawn(async move {
                (number, patience, point(load, patience, false).await, point(load, patience, true).await)
            });
        }
        let mut points = points.join_all().await;
        points.sort_unstable_by_key(|(number, ..)| *number);
        for (_, patience, without, with) in points {
            let cells = [without, with].map(|(well, last)| {
                let well = well.map_or("never".to_owned(), |times| format!("{times} service times"));
                format!("{well} | {:.0} %", last * 100.0)
            });
            println!("| {load} | {patience} service times | {} | {} |", cells[0], cells[1]);
        }
    }
}

#[tokio::main]
async fn main() {
    match Role::of_this_process() {
        Role::Serve(kind) => be_server(&kind).await,
        Role::Table { .. } => table().await,
    }
}
