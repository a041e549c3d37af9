//! The server, as a process of its own: this test binary starts itself again, and tells itself by a variable what to be.

use std::{
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use axum::{Router, routing::get};
use http::Response;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpListener,
    process::{Child, ChildStdin, ChildStdout, Command},
    signal::unix::{SignalKind, signal},
    sync::Notify,
    time::Instant,
};
use tonic::transport::server::TcpIncoming;
use tower::util::MapResponseLayer;
use tower_admission::{Admission, AdmissionLayer, Leave, limit::Fixed};

use crate::support::{bounded, eventually, grpc::Greeter, probe::Probe};

/// What a server is told by its environment.
const ROLE: &str = "TOWER_ADMISSION_DRAINING";
/// What it says begins with this, for the harness says something too.
const SAYS: &str = "server says ";

/// How many run, and how many wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

/// A server that this test started; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) async fn start(stack: &str, leave: &str, crowd: Crowd) -> Self {
        let Crowd { running, waiting } = crowd;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "draining::process::server", "--nocapture"])
            .env(ROLE, format!("{stack} {leave} {running} {waiting}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut this = Self { child, orders, said, address: SocketAddr::from(([0; 4], 0)) };
        this.address = this.says("listens on").await.parse().unwrap();
        this
    }

    /// Waits until the server says `what`, and answers the rest of what it says.
    pub(crate) async fn says(&mut self, what: &str) -> String {
        let said = async {
            while let Some(line) = self.said.next_line().await.unwrap() {
                let rest = line.split_once(SAYS).and_then(|(_, said)| said.strip_prefix(what));
                if let Some(rest) = rest {
                    return rest.trim().to_owned();
                }
            }
            panic!("it ended before it said {what:?}");
        };
        bounded(what, said).await
    }

    /// Sends it SIGTERM.
    pub(crate) async fn terminate(&self) {
        let process = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().await.unwrap().success());
    }

    /// Lets those go on who run.
    pub(crate) async fn release(&mut self) {
        self.orders.write_all(b"release\n").await.unwrap();
    }

    /// Waits until it ended by itself.
    pub(crate) async fn ends_well(mut self) {
        // Whoever waits for orders waits in a thread that can't be told to end.
        drop(self.orders);
        let status = bounded("the process", self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
    }
}

/// Notes in the server when answers are made that turn somebody away.
#[derive(Clone, Debug)]
struct Ledger {
    start: Instant,
    drained_at: Arc<Moment>,
    last: Arc<Moment>,
    turned_away: Arc<AtomicUsize>,
    waiting: usize,
    all: Arc<Notify>,
}

impl Ledger {
    fn new(waiting: usize) -> Self {
        let (drained_at, last, turned_away) = Default::default();
        Self { start: Instant::now(), drained_at, last, turned_away, waiting, all: Arc::default() }
    }

    fn note(&self, moment: &Moment) {
        moment.micros.store(u64::try_from(self.start.elapsed().as_micros()).unwrap(), Ordering::SeqCst);
        moment.on_processor.store(on_processor(), Ordering::SeqCst);
    }

    /// Sees the answers of the layer inside of it.
    fn layer<B>(
        &self,
    ) -> MapResponseLayer<impl FnOnce(Response<B>) -> Response<B> + Clone + Send + Sync + 'static + use<B>> {
        let this = self.clone();
        MapResponseLayer::new(move |response: Response<B>| {
            let unavailable = response.headers().get("grpc-status").is_some_and(|code| code == "14");
            let turned_away = response.status() == 503 || unavailable;
            if turned_away && this.turned_away.fetch_add(1, Ordering::SeqCst) + 1 == this.waiting {
                this.note(&this.last);
                this.all.notify_one();
            }
            response
        })
    }

    /// From the call of `drain` until the last answer was made, in microseconds: by the clock, and on processors.
    async fn woken(&self) -> [u64; 2] {
        self.all.notified().await;
        let since = |of: fn(&Moment) -> &AtomicU64| {
            of(&self.last).load(Ordering::SeqCst) - of(&self.drained_at).load(Ordering::SeqCst)
        };
        [since(|it| &it.micros), since(|it| &it.on_processor)]
    }
}

/// A time, and for how long threads of this process had been running by then, all together, in microseconds.
#[derive(Debug, Default)]
struct Moment {
    micros: AtomicU64,
    on_processor: AtomicU64,
}

/// For how long the threads of this process have been running, in microseconds, as Linux counts it.
fn on_processor() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let nanos = threads.filter_map(|thread| {
        let counted = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        counted.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum::<u64>() / 1_000
}

fn say(what: &str) {
    println!("{SAYS}{what}");
}

/// Not a test of its own: what the server does. Without being told, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let told: Vec<_> = told.split(' ').collect();
    let [stack, leave, running, waiting] = told[..] else { panic!("{told:?}") };
    let (running, waiting): (usize, usize) = (running.parse().unwrap(), waiting.parse().unwrap());
    let leave = if leave == "now" { Leave::Now } else { Leave::Served };

    let admission = Admission::builder().limit(Fixed::new(running)).queue(waiting).build().unwrap();
    let (probe, ledger) = (Probe::closed(), Ledger::new(waiting));
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
        let (admission, ledger) = (admission.clone(), ledger.clone());
        async move {
            terminate.recv().await;
            ledger.note(&ledger.drained_at);
            admission.drain(leave);
            say("drains");
            if leave == Leave::Now {
                tokio::spawn(async move {
                    let [micros, on_processor] = ledger.woken().await;
                    say(&format!("woke all within {micros} {on_processor}"));
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
            let server = server.add_service(Greeter(probe.clone()));
            server.serve_with_incoming_shutdown(TcpIncoming::from(listener), stop).await.unwrap();
        }
        other => panic!("{other}"),
    }
    bounded("the last permit", admission.drained()).await;
    assert_eq!(probe.running(), 0);
}
