//! The server, in a process of its own: axum and tonic before one backend that goes on with what it has begun.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use admission_testkit::{
    grpc::{Served, Unary},
    process::{Process, say},
};
use axum::{Router, extract::Path, routing::get};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    time::{Instant, interval},
};
use tonic::transport::server::TcpIncoming;
use tower_admission::{
    Admission, AdmissionLayer, PartitionMode,
    classify::{by_header, classify_fn},
    limit::Fixed,
    percent,
    policy::{Abandoned, Policy},
};

use super::{
    backend::Backend,
    clients::{PATIENCE, TENANTS},
};

/// What a server is told by its environment.
const ROLE: &str = "TOWER_ADMISSION_FLOOD";

pub(crate) const WORKERS: usize = 40;

/// How long a kind of work takes.
fn takes(work: &str) -> Duration {
    Duration::from_millis(match work {
        "quick" => 20,
        "slow" => 600,
        _ => 100,
    })
}

/// Pieces of work per second.
pub(crate) const CAPACITY: f64 = 400.0;

/// What is set, in words: the partitions, the limit, and what becomes of abandoned work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) partitions: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) abandoned: &'static str,
}

/// A server that this test started.
pub(crate) struct Server {
    process: Process,
    pub(crate) web: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

/// What happened at the server since it was asked last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) seconds: f64,
    pub(crate) done: u64,
    pub(crate) inside: usize,
    pub(crate) limit: usize,
}

impl Server {
    pub(crate) async fn start(set: Set) -> Self {
        let Set { partitions, limit, abandoned } = set;
        let mut process = Process::start("flood::server::server", ROLE, &format!("{partitions} {limit} {abandoned}"));
        let said = process.says("listens on").await;
        let (web, grpc) = said.split_once(' ').unwrap();
        let (web, grpc) = (web.parse().unwrap(), grpc.parse().unwrap());
        Self { process, web, grpc }
    }

    pub(crate) async fn tell(&mut self) -> Told {
        let said = self.process.order("tell").await;
        let numbers: Vec<u64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
        let [micros, done, inside, limit] = numbers[..] else { panic!("{said}") };
        let (inside, limit) = (usize::try_from(inside).unwrap(), usize::try_from(limit).unwrap());
        Told { seconds: micros as f64 / 1e6, done, inside, limit }
    }

    pub(crate) async fn ends(self) {
        self.process.ends_well().await;
    }
}

/// The backend, and what it has to do.
#[derive(Clone)]
struct Work {
    backend: Backend,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    inside: AtomicUsize,
    most: AtomicUsize,
    done: AtomicU64,
    limit: AtomicUsize,
}

impl Work {
    /// Hands a piece of work over, and waits for it. The backend goes on though its caller waits no more.
    async fn run(&self, work: &str) {
        let (Self { backend, counts }, service) = (self.clone(), takes(work));
        let inside = counts.inside.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most.fetch_max(inside, Ordering::SeqCst);
        let goes_on = tokio::spawn(async move {
            backend.run(service).await;
            counts.inside.fetch_sub(1, Ordering::SeqCst);
            counts.done.fetch_add(1, Ordering::SeqCst);
        });
        goes_on.await.unwrap();
    }
}

fn handle(partitions: &str, limit: &str) -> Admission {
    let share = match partitions {
        "capped" => percent(25).with_mode(PartitionMode::HardCap),
        "red" => percent(50),
        _ => percent(25),
    };
    let tenants = match partitions {
        "none" => &[][..],
        "red" => &["red"],
        _ => &TENANTS[..],
    };
    let builder = match limit {
        "learned" => Admission::builder().patience(PATIENCE),
        _ => Admission::builder().patience(PATIENCE).limit(Fixed::new(WORKERS)),
    };
    tenants.iter().fold(builder, |it, &tenant| it.partition(tenant, share)).build().unwrap()
}

/// Not a test of its own: what the server does. Without being told, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let [partitions, limit, abandoned] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let admission = handle(partitions, limit);
    let work = Work { backend: Backend::start(WORKERS), counts: Arc::default() };
    let layer = AdmissionLayer::new(&admission);
    let layer = match abandoned {
        // What the server is told of abandoned work, it is told of kinds of work.
        "goes-on" => {
            let by_path = classify_fn(|request, ticket| ticket.set_class(request.uri().path()));
            layer.classify((by_header("x-tenant"), by_path))
        }
        _ => layer.classify(by_header("x-tenant")),
    };
    let [web, grpc] =
        [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    say(&format!("listens on {} {}", web.local_addr().unwrap(), grpc.local_addr().unwrap()));

    let of_web = work.clone();
    let app = Router::new().route("/{work}", get(async move |Path(work): Path<String>| of_web.run(&work).await));
    let of_grpc = work.clone();
    let calls = Served(Unary(move |message: String| {
        let work = of_grpc.clone();
        async move {
            work.run(&message).await;
            Ok(message)
        }
    }));
    // Layers of different types.
    macro_rules! serve {
        ($layer:expr) => {{
            let mut tonic = tonic::transport::Server::builder().layer($layer);
            let grpc = TcpIncoming::from(grpc).with_nodelay(Some(true));
            tokio::spawn(axum::serve(web, app.layer($layer)).into_future());
            tokio::spawn(tonic.add_service(calls).serve_with_incoming(grpc));
        }};
    }
    match abandoned {
        "unset" => serve!(layer.clone()),
        "stops" => serve!(layer.clone().policy(Policy::new().abandoned(Abandoned::Stops))),
        "goes-on" => serve!(layer.clone().policy(Policy::new().abandoned(Abandoned::GoesOn))),
        "detached" => serve!(layer.clone().detach()),
        other => panic!("{other}"),
    }

    let (watched, counts) = (admission.clone(), Arc::clone(&work.counts));
    tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            counts.limit.fetch_max(watched.snapshot().limit, Ordering::SeqCst);
        }
    });

    let mut since = Instant::now();
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await.unwrap() {
        assert_eq!(order, "tell");
        let Counts { inside, most, done, limit } = &*work.counts;
        let most = most.swap(inside.load(Ordering::SeqCst), Ordering::SeqCst);
        let (done, limit) = (done.swap(0, Ordering::SeqCst), limit.swap(admission.snapshot().limit, Ordering::SeqCst));
        say(&format!("{} {done} {most} {limit}", since.elapsed().as_micros()));
        since = Instant::now();
    }
}
