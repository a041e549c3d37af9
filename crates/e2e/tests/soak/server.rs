//! The server, as a process of its own: this test binary starts itself again, and tells itself by a variable what to be.

use std::{
    mem::forget,
    net::{TcpListener as StdListener, UdpSocket},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::grpc::Served;
use admission_testkit::process::say;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Path,
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::HeaderName;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::transport::server::TcpIncoming;
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Cap, ClassLimits, DrainMode, Labels, Rate, Rules, Ticket,
    classify::RequestHead,
    limit::{Fixed, Gradient},
    percent,
    store::{AfterRestart, Claim, Claims, Leases, OnStoreFailure, RedisStore},
};

use super::{bounded, eventually, grpc::Calls, keys, ms};

/// What a server is told by its environment.
pub(crate) const ROLE: &str = "TOWER_ADMISSION_SOAK";

pub(crate) const LABEL: HeaderName = HeaderName::from_static("x-label");
pub(crate) const CLASS: HeaderName = HeaderName::from_static("x-class");

/// Handlers that run, counted by themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handlers(Arc<AtomicU64>);

impl Handlers {
    pub(crate) fn enter(&self) -> Running {
        self.0.fetch_add(1, Ordering::SeqCst);
        Running(self.clone())
    }
}

pub(crate) struct Running(Handlers);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Without a message in the output of the test.
fn fall_over() -> ! {
    resume_unwind(Box::new("on purpose"))
}

fn classify<'r>(head: &RequestHead<'r>, ticket: &mut Ticket<'r>) {
    ticket.set_partition(if head.uri().path().starts_with("/soak.") { "grpc" } else { "web" });
    match head.header(&CLASS) {
        Some("panic") => fall_over(),
        Some(class) => ticket.set_class(class),
        None => {}
    }
    if let Some(label) = head.header(&LABEL) {
        ticket.set_namespace("acme");
        ticket.set_label(label);
    }
}

/// The settings before and after a reload, which differ in all that a reload changes.
fn settings(odd: bool) -> AdmissionBuilder {
    let open = Cap::from(8).on_store_failure(OnStoreFailure::FailOpen);
    let rules = Rules::new()
        .default_limits(ClassLimits::new().max_in_flight(open))
        .class("strict", ClassLimits::new().max_in_flight(4).max_per_minute(Rate::from(600)));
    let labels = Labels::new().max_labels(500).metrics(20).cap(if odd { None } else { Some(12) });
    let settings = Admission::builder().rules(rules).labels(labels).max_wait(ms(400));
    let settings = settings.partition("web", percent(60)).partition("grpc", percent(if odd { 40 } else { 20 }));
    let settings = settings.permit_time_to_live(Duration::from_secs(30));
    if odd { settings.limit(Gradient::new().max(40)).queue(60) } else { settings.limit(Fixed::new(16)).queue(40) }
}

/// All that is replaced at once: a handle, its connection to the store, and both servers.
struct Generation {
    admission: Admission,
    leases: Leases,
    stop: watch::Sender<bool>,
    servers: [JoinHandle<()>; 2],
}

impl Generation {
    fn start(redis: &str, listeners: &[StdListener; 2], handlers: &Handlers) -> Self {
        let store = RedisStore::builder(redis, keys()).after_restart(AfterRestart::Quiet(ms(500))).build().unwrap();
        let leases = Leases::builder().expiry(ms(500)).build(Arc::new(store));
        let admission = settings(false).shared(leases.clone(), keys()).build().unwrap();
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stopped = stop.subscribe();
            async move { drop(stopped.wait_for(|stop| *stop).await) }
        };
        let [web, grpc] = listeners.each_ref().map(|it| TcpListener::from_std(it.try_clone().unwrap()).unwrap());
        let layer = AdmissionLayer::new(&admission).classify(classify);
        let app = routes(handlers).layer(layer.clone());
        let web = axum::serve(web, app).with_graceful_shutdown(stopped());
        let mut server = tonic::transport::Server::builder().layer(layer);
        let calls = server.add_service(Served(Calls(handlers.clone())));
        let grpc = calls.serve_with_incoming_shutdown(TcpIncoming::from(grpc).with_nodelay(Some(true)), stopped());
        let servers = [tokio::spawn(web.into_future().map(Result::unwrap)), tokio::spawn(grpc.map(Result::unwrap))];
        Self { admission, leases, stop, servers }
    }

    /// Lets no request begin any more, and waits for those that run; not for ever, as some mistakes never end.
    async fn end(self) -> Counts {
        self.admission.drain(DrainMode::RejectWaiting);
        self.stop.send_replace(true);
        let _ = timeout(Duration::from_secs(5), self.admission.drained()).await;
        for server in self.servers {
            bounded("a server that stops", server).await.unwrap();
        }
        Counts::of(&self.admission)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    slots: u64,
    waiters: u64,
    unended: u64,
    admitted: u64,
    /// By the shared store.
    granted: u64,
}

impl Counts {
    fn of(admission: &Admission) -> Self {
        let now = admission.snapshot();
        let ended: u64 = now.partitions.iter().map(|it| it.successes + it.overloads + it.cancelled + it.ignored).sum();
        let (slots, waiters) = (now.in_flight as u64, (now.waiting + now.at_gate) as u64);
        Self {
            slots,
            waiters,
            unended: now.admitted() - ended,
            admitted: now.admitted(),
            granted: now.store.map_or(0, |it| it.granted),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            slots: self.slots + other.slots,
            waiters: self.waiters + other.waiters,
            unended: self.unended + other.unended,
            admitted: self.admitted + other.admitted,
            granted: self.granted + other.granted,
        }
    }
}

fn routes(handlers: &Handlers) -> Router {
    let [work, upload, fall, chunks] = [(); 4].map(|()| handlers.clone());
    Router::new()
        .route(
            "/takes/{millis}",
            get(async move |Path(millis): Path<u64>| {
                let _running = work.enter();
                sleep(ms(millis.min(1_000))).await;
                "done"
            }),
        )
        .route(
            "/upload",
            post(async move |body: Body| {
                let _running = upload.enter();
                // A body that comes too slowly is given up, as a server should.
                let _ = timeout(ms(300), to_bytes(body, 1 << 20)).await;
            }),
        )
        .route(
            "/panic",
            get(async move || -> &'static str {
                let _running = fall.enter();
                fall_over()
            }),
        )
        .route(
            "/chunks",
            get(async move || {
                let running = chunks.enter();
                Body::from_stream(stream::iter(0..30).then(move |_| {
                    let _running = &running;
                    sleep(ms(5)).map(|()| Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 4_096])))
                }))
            }),
        )
}

/// Tries until it works: others have all slots, or the store is quiet for a while after it came up.
async fn insist<T, E>(mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let succeeds = async {
        loop {
            match attempt().await {
                Ok(value) => break value,
                Err(_) => sleep(ms(10)).await,
            }
        }
    };
    bounded("a slot or a lease to keep", succeeds).await
}

/// What a server that makes a mistake keeps for ever.
async fn keep(mistake: &str, generation: &Generation) {
    match mistake {
        "slot" => forget(insist(|| generation.admission.admit(Ticket::new())).await),
        "task" => drop(tokio::spawn(std::future::pending::<()>())),
        "socket" => forget(UdpSocket::bind("127.0.0.1:0").unwrap()),
        "memory" => forget(vec![1_u8; 8 << 20]),
        // Taken again when it is lost: on a slow machine the store may be away for longer than a lease lives.
        "key" => {
            let (leases, name) = (generation.leases.clone(), keys().cap("acme", "label", "reserved"));
            let claims = Claims::new(vec![Claim::cap(name, 9.try_into().unwrap())]).unwrap();
            drop(tokio::spawn(async move {
                loop {
                    if let Ok(held) = leases.wait(&claims).await {
                        held.lost().await;
                    }
                    sleep(ms(10)).await;
                }
            }));
        }
        _ => {}
    }
}

/// Not a test of its own: what the server does. Without being told, nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let (redis, mistake) = told.split_once(' ').unwrap();
    let listeners = [(); 2].map(|()| {
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    });
    let handlers = Handlers::default();
    let mut generation = Generation::start(redis, &listeners, &handlers);
    let (mut before, mut reloads) = (Counts::default(), 0_u32);
    let [web, grpc] = listeners.each_ref().map(|it| it.local_addr().unwrap());
    say(&format!("{web} {grpc}"));
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await.unwrap() {
        match order.as_str() {
            "reload" => {
                reloads += 1;
                generation.admission.reload(settings(reloads % 2 == 1)).unwrap();
                // What is there after the first round is what others are compared with.
                if reloads > 1 {
                    keep(mistake, &generation).await;
                }
                say("reloaded");
            }
            "replace" => {
                let next = Generation::start(redis, &listeners, &handlers);
                before = before.and(std::mem::replace(&mut generation, next).end().await);
                say("replaced");
            }
            "tell" => {
                let Counts { slots, waiters, unended, admitted, granted } =
                    before.and(Counts::of(&generation.admission));
                let labels = generation.admission.snapshot().labels_known;
                let (running, tasks) =
                    (handlers.0.load(Ordering::SeqCst), Handle::current().metrics().num_alive_tasks());
                say(&format!("{slots} {waiters} {running} {unended} {tasks} {labels} {admitted} {granted}"));
            }
            other => panic!("{other}"),
        }
    }
    if mistake == "none" {
        let left = generation.end().await;
        assert_eq!((left.slots, left.waiters, left.unended), (0, 0, 0), "{left:?}");
        eventually("no handler is left", || handlers.0.load(Ordering::SeqCst) == 0).await;
    }
}
