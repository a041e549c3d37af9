//! Rapid reset: streams that are opened and reset at once, by the thousand.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use http::Request;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tower::{Service, service_fn};
use tower_admission::{
    Admission, AdmissionBuilder, AdmissionLayer, Outcome,
    limit::{Limit, LimitAlgorithm, Sample},
    policy::{Abandoned, Policy},
};

use crate::support::frames::{
    ACK, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, fields, frame,
};
use crate::support::{Client, Ends, Probe, Server, Version, at_rest, bounded, client::get};

const CONNECTIONS: usize = 4;
/// How many streams a server of hyper lets a client have at a time, unless told otherwise.
const STREAMS: usize = 200;
const BATCH: usize = 50;
/// `CANCEL`.
const REASON: [u8; 4] = [0, 0, 0, 8];

/// When a stream is reset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    /// In the same breath: the server finds both frames in one read.
    AtOnce,
    /// When the server has answered a ping that came after the request, and so has called the service.
    Later,
}

/// 4,000 streams, or what `RESETS` says.
fn attempts() -> usize {
    std::env::var("RESETS").ok().and_then(|count| count.parse().ok()).unwrap_or(4_000)
}

/// Opens and resets streams on one connection until there were `most` or the server has enough; answers how many.
async fn reset(address: SocketAddr, when: When, most: usize) -> usize {
    let block = fields(&[(":method", "GET"), (":scheme", "http"), (":path", "/hang"), (":authority", "test")]);
    let (mut from, mut to) = TcpStream::connect(address).await.unwrap().into_split();
    let (pongs, mut ponged) = watch::channel(0_usize);
    let reader = tokio::spawn(async move {
        let mut head = [0; 9];
        // Ends with the connection.
        while from.read_exact(&mut head).await.is_ok() {
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            if from.read_exact(&mut vec![0; length]).await.is_err() {
                break;
            }
            if head[3] == PING && head[4] & ACK == ACK {
                pongs.send_modify(|count| *count += 1);
            }
        }
    });
    let start = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    let mut sent = 0;
    let mut is_open = to.write_all(&start).await.is_ok();
    for batch in 0..most.div_ceil(BATCH) {
        let streams = (0..BATCH).map(|stream| u32::try_from(2 * (batch * BATCH + stream) + 1).unwrap());
        let open = |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &block);
        let close = |stream| frame(RST_STREAM, 0, stream, &REASON);
        let concat = |frames: &mut dyn Iterator<Item = BytesMut>| {
            frames.fold(BytesMut::new(), |mut all, one| {
                all.extend_from_slice(&one);
                all
            })
        };
        if when == When::AtOnce {
            let frames = concat(&mut streams.flat_map(|stream| [open(stream), close(stream)]));
            is_open &= to.write_all(&frames).await.is_ok();
        } else {
            is_open &= to.write_all(&concat(&mut streams.clone().map(open))).await.is_ok();
            is_open &= to.write_all(&frame(PING, 0, 0, &[7; 8])).await.is_ok();
            is_open &= bounded("a ping", ponged.wait_for(|pongs| *pongs > batch)).await.is_ok();
            is_open &= to.write_all(&concat(&mut streams.map(close))).await.is_ok();
        }
        if !is_open {
            break;
        }
        sent += BATCH;
    }
    // What was sent is read before the connection ends, unless the server has ended it.
    if is_open && to.write_all(&frame(PING, 0, 0, &[8; 8])).await.is_ok() {
        let before = *ponged.borrow();
        let _ = bounded("the last ping", ponged.wait_for(|pongs| *pongs > before)).await;
    }
    reader.abort();
    sent.max(1)
}

/// All streams, over as many connections as the server closes. Answers how many connections that took.
async fn storm(address: SocketAddr, when: When) -> usize {
    let mut connections = JoinSet::new();
    let opened = Arc::new(AtomicUsize::new(0));
    for _ in 0..CONNECTIONS {
        let opened = Arc::clone(&opened);
        connections.spawn(async move {
            let mut left = attempts() / CONNECTIONS;
            while left > 0 {
                opened.fetch_add(1, Ordering::Relaxed);
                left = left.saturating_sub(reset(address, when, left).await);
            }
        });
    }
    bounded("the storm", connections.join_all()).await;
    opened.load(Ordering::Relaxed)
}

/// A client that behaves, beside the others: how many answers it got, and the longest that it waited for one.
struct Neighbour(Arc<AtomicBool>, JoinHandle<(usize, Duration)>);

impl Neighbour {
    fn move_in(address: SocketAddr) -> Self {
        let leaves = Arc::<AtomicBool>::default();
        let told = Arc::clone(&leaves);
        let task = tokio::spawn(async move {
            let mut client = Client::connect(address, Version::H2).await;
            let (mut served, mut longest) = (0, Duration::ZERO);
            while !told.load(Ordering::SeqCst) || served < 20 {
                let begin = Instant::now();
                assert_eq!(client.answer(get("/data")).await.status(), 200);
                (served, longest) = (served + 1, longest.max(begin.elapsed()));
            }
            (served, longest)
        });
        Self(leaves, task)
    }

    async fn leave(self) -> (usize, Duration) {
        self.0.store(true, Ordering::SeqCst);
        bounded("the neighbour", self.1).await.unwrap()
    }
}

/// A storm of resets beside a neighbour; nothing may be left of it. Answers how many requests of the storm started, and how
/// many ran at once.
async fn endure(admission: &Admission, when: When) -> (u64, usize) {
    let probe = Probe::open();
    // The work ends with its request. Were that not said, the slots would be held for most of the patience.
    let stops = Policy::new().abandoned(Abandoned::Stops);
    let server = Ends::new(&probe).serve(AdmissionLayer::new(admission).policy(stops)).await;
    let limit = admission.snapshot().limit;
    let neighbour = Neighbour::move_in(server.address);
    let connections = storm(server.address, when).await;
    let (served, longest) = neighbour.leave().await;
    at_rest(admission, &probe).await;
    let (after, started, peak) = (admission.snapshot().limit, probe.started() - served as u64, probe.peak());
    println!(
        "{when:?}: {} streams on {connections} connections, {started} started, at most {peak} at once, limit {limit} to \
         {after}; {served} answers beside them, {longest:?} at the most",
        attempts(),
    );
    assert_eq!(probe.running(), 0);
    assert!(peak <= CONNECTIONS * STREAMS + 1, "{peak} ran at once");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    server.stop().await;
    (started, peak)
}

/// Where callers are known to have time, as most are. What law there is, is that of the test, or the one that learns.
fn patient() -> AdmissionBuilder {
    Admission::builder().patience(Duration::from_secs(30))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_leak_no_slot() {
    // Learned, by the law that is the default. Requests that were reset at once never came to the layer.
    let learned = patient().build().unwrap();
    let limit = learned.snapshot().limit;
    endure(&learned, When::AtOnce).await;
    assert!(learned.snapshot().limit.abs_diff(limit) <= 1, "{}", learned.snapshot().limit);
    // Those that were reset later did have slots, all that there were. So this limit was met, and may be moved by what the
    // neighbour's requests then take.
    let (started, _) = endure(&patient().build().unwrap(), When::Later).await;
    assert!(started > 0, "some were reset while they ran");
}

/// A law that counts what it is told of requests that were given up, and may take fright at it.
#[derive(Debug)]
struct Told {
    limit: usize,
    is_nervous: bool,
    given_up: Arc<AtomicUsize>,
    timed: Arc<AtomicUsize>,
}

impl LimitAlgorithm for Told {
    fn limit(&self) -> usize {
        self.limit
    }

    fn on_sample(&mut self, sample: &Sample) {
        if sample.outcome == Outcome::Cancelled {
            self.given_up.fetch_add(1, Ordering::SeqCst);
            self.timed.fetch_add(usize::from(sample.rtt.is_some()), Ordering::SeqCst);
            if self.is_nervous {
                self.limit = (self.limit / 2).max(1);
            }
        }
    }
}

/// No law is told a round-trip time of requests that were reset. The control is a law that takes fright at resets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_were_reset_bring_no_round_trip_times_and_move_no_limit() {
    for (is_nervous, after) in [(false, 20), (true, 1)] {
        let (given_up, timed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let law = Told { limit: 20, is_nervous, given_up: Arc::clone(&given_up), timed: Arc::clone(&timed) };
        let admission = patient().limit(Limit::per_sample(law)).build().unwrap();
        let (_, peak) = endure(&admission, When::Later).await;
        assert!(peak <= 20, "{peak} ran at once");
        assert!(given_up.load(Ordering::SeqCst) > 0);
        assert_eq!(timed.load(Ordering::SeqCst), 0);
        assert_eq!(admission.snapshot().limit, after);
    }
}

/// The control: the same storm leaves slots behind where a count is not undone by `Drop`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets_leave_slots_behind_where_dropped_futures_are_forgotten() {
    let running = Arc::<AtomicUsize>::default();
    let (mut inner, counted) = (Ends::new(&Probe::open()), Arc::clone(&running));
    let forgets = service_fn(move |request: Request<Incoming>| {
        let (answer, running) = (inner.call(request), Arc::clone(&counted));
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            let answer = answer.await;
            running.fetch_sub(1, Ordering::SeqCst);
            answer
        }
    });
    let server = Server::hyper(forgets).await;
    storm(server.address, When::Later).await;
    let left = running.load(Ordering::SeqCst);
    println!("{left} of {} are left behind", attempts());
    assert!(left > 0);
    server.stop().await;
}
