//! The server, as a process of its own: this test binary starts itself again, and tells itself by a variable what to be.

use std::{
    fmt,
    net::SocketAddr,
    num::ParseIntError,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use admission_testkit::grpc::Served;
use admission_testkit::process::{Process, say};
use axum::{Router, routing::get};
use http::Response;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::Instant,
};
use tonic::transport::server::TcpIncoming;
use tower::util::MapResponseLayer;
use tower_admission::{Admission, AdmissionLayer, DrainMode, limit::Fixed};

use crate::support::{Greeter, Probe, bounded, eventually};

/// What a server is told by its environment.
const ROLE: &str = "TOWER_ADMISSION_DRAINING";

/// How many run, and how many wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

/// A server that this test started.
#[derive(Debug)]
pub(crate) struct Full {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Full {
    pub(crate) async fn start(stack: &str, leave: &str, crowd: Crowd) -> Self {
        let Crowd { running, waiting } = crowd;
        let told = format!("{stack} {leave} {running} {waiting}");
        let mut process = Process::start("servers::draining::process::server", ROLE, &told);
        let address = process.says("listens on").await.parse().unwrap();
        Self { process, address }
    }

    pub(crate) async fn says(&mut self, what: &str) -> String {
        self.process.says(what).await
    }

    pub(crate) async fn terminate(&self) {
        self.process.signal("-TERM").await;
    }

    /// Lets those go on that run.
    pub(crate) async fn release(&mut self) {
        self.process.send("release").await;
    }

    pub(crate) async fn ends_well(self) {
        self.process.ends_well().await;
    }
}

/// How long something took in the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// By the clock.
    pub(crate) time: Duration,
    /// For how long threads of the server ran meanwhile, all together; zero where that can't be told.
    on_processor: Duration,
}

impl Took {
    /// A machine that is busy with something else lets the clock go on while the server waits for a processor. Then the
    /// time counts that it had one, as if it had one alone.
    pub(crate) fn at_most(self) -> Duration {
        if self.on_processor.is_zero() { self.time } else { self.time.min(self.on_processor) }
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.time.as_micros(), self.on_processor.as_micros())
    }
}

impl FromStr for Took {
    type Err = ParseIntError;

    fn from_str(said: &str) -> Result<Self, ParseIntError> {
        let (time, on_processor) = said.split_once(' ').unwrap_or((said, "0"));
        let micros = |word: &str| word.parse().map(Duration::from_micros);
        Ok(Self { time: micros(time)?, on_processor: micros(on_processor)? })
    }
}

/// A time, and for how long threads of this process had been running by then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    on_processor: Duration,
}

impl Moment {
    fn now() -> Self {
        Self { at: Instant::now(), on_processor: on_processor() }
    }

    fn since(self, earlier: Self) -> Took {
        Took { time: self.at - earlier.at, on_processor: self.on_processor - earlier.on_processor }
    }
}

/// Notes in the server when the last answer is made that turns somebody away.
#[derive(Clone, Debug)]
struct Ledger {
    waiting: usize,
    turned_away: Arc<AtomicUsize>,
    last: mpsc::UnboundedSender<Moment>,
}

impl Ledger {
    /// Who is told of that moment.
    fn new(waiting: usize) -> (Self, mpsc::UnboundedReceiver<Moment>) {
        let (last, all_answered) = mpsc::unbounded_channel();
        (Self { waiting, turned_away: Arc::default(), last }, all_answered)
    }

    /// Sees the answers of the layer inside of it.
    fn layer<B>(
        self,
    ) -> MapResponseLayer<impl FnOnce(Response<B>) -> Response<B> + Clone + Send + Sync + 'static + use<B>> {
        MapResponseLayer::new(move |response: Response<B>| {
            let unavailable = response.headers().get("grpc-status").is_some_and(|code| code == "14");
            let turned_away = response.status() == 503 || unavailable;
            if turned_away && self.turned_away.fetch_add(1, Ordering::SeqCst) + 1 == self.waiting {
                let _ = self.last.send(Moment::now());
            }
            response
        })
    }
}

/// For how long the threads of this process have been running, all together, as Linux counts it.
fn on_processor() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = threads.filter_map(|thread| {
        let counted = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        counted.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Not a test of its own: what the server does. Without being told, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let told: Vec<_> = told.split(' ').collect();
    let [stack, leave, running, waiting] = told[..] else { panic!("{told:?}") };
    let (running, waiting): (usize, usize) = (running.parse().unwrap(), waiting.parse().unwrap());
    let leave = if leave == "now" { DrainMode::RejectWaiting } else { DrainMode::ServeWaiting };

    let admission = Admission::builder().limit(Fixed::new(running)).queue(waiting).build().unwrap();
    let probe = Probe::closed();
    let (ledger, mut all_answered) = Ledger::new(waiting);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    say(&format!("listens on {}", listener.local_addr().unwrap()));

    let orders = probe.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert_eq!(line, "release");
            orders.release();
        }
    });
    let watched = admission.clone();
    tokio::spawn(async move {
        let full = || {
            let now = watched.snapshot();
            (now.in_flight, now.waiting) == (running, waiting)
        };
        eventually("the server is full", full).await;
        say("is full");
    });

    let stop = {
        let admission = admission.clone();
        async move {
            terminate.recv().await;
            let start = Moment::now();
            admission.drain(leave);
            let woken = Moment::now();
            say("drains");
            if leave == DrainMode::RejectWaiting {
                say(&format!("woke all within {}", woken.since(start)));
                tokio::spawn(async move {
                    let last = all_answered.recv().await.unwrap();
                    say(&format!("answered all within {}", last.since(start)));
                });
            }
        }
    };
    match stack {
        "axum" => {
            let app = Router::new()
                .route(
                    "/work",
                    get({
                        let probe = probe.clone();
                        async move || {
                            probe.run().await;
                            "done"
                        }
                    }),
                )
                .layer(AdmissionLayer::new(&admission))
                .layer(ledger.layer());
            axum::serve(listener, app).with_graceful_shutdown(stop).await.unwrap();
        }
        "tonic" => {
            let server = tonic::transport::Server::builder().max_concurrent_streams(10_000);
            let mut server = server.layer(ledger.layer()).layer(AdmissionLayer::new(&admission));
            let server = server.add_service(Served(Greeter(probe.clone())));
            server.serve_with_incoming_shutdown(TcpIncoming::from(listener), stop).await.unwrap();
        }
        other => panic!("{other}"),
    }
    bounded("the last permit", admission.drained()).await;
    assert_eq!(probe.running(), 0);
}
