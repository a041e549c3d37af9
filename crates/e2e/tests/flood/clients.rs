//! Callers: three tenants that don't change, and a noisy tenant.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use admission_testkit::{bounded, grpc};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tonic::transport::{Channel, Endpoint};

/// The tenants. The first is noisy.
pub(crate) const TENANTS: [&str; 4] = ["noisy", "red", "green", "blue"];
/// The usual work, of 100 ms.
const WORK: &str = "work";
/// How long callers wait for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// What each of the three sends per second: three quarters of its share.
const RATE: f64 = 75.0;
const CONNECTIONS: usize = 600;
const LEAVERS: usize = 100;
/// Time after which a caller leaves early.
const LEAVES_AFTER: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    Http,
    Grpc,
}

fn request(to: SocketAddr, tenant: &str, work: &str) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("http://{to}/{work}")).header("host", to.to_string());
    request.header("x-tenant", tenant).body(Empty::new()).unwrap()
}

/// A way to call, over connections that are kept.
#[derive(Clone)]
pub(crate) enum Caller {
    Http(Box<Client<HttpConnector, Empty<Bytes>>>, SocketAddr),
    Grpc(Channel),
}

impl Caller {
    pub(crate) async fn of(to: SocketAddr, over: Over) -> Self {
        match over {
            Over::Http => Self::Http(Box::new(Client::builder(TokioExecutor::new()).build_http()), to),
            Over::Grpc => {
                let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
                Self::Grpc(bounded("a connection", endpoint.connect()).await.unwrap())
            }
        }
    }

    /// Whether a call was served.
    pub(crate) async fn is_served(&self, tenant: &'static str, work: &str) -> bool {
        match self {
            Self::Http(client, to) => {
                let Ok(answer) = client.request(request(*to, tenant, work)).await else { return false };
                let is_ok = answer.status() == StatusCode::OK;
                is_ok && answer.into_body().collect().await.is_ok()
            }
            Self::Grpc(channel) => {
                let mut request = tonic::Request::new(work.to_owned());
                request.metadata_mut().insert("x-tenant", tenant.parse().unwrap());
                grpc::call(channel.clone(), request).await.is_ok()
            }
        }
    }
}

/// What became of the requests of each tenant.
#[derive(Debug, Default)]
struct Tally {
    counts: AtomicBool,
    sent: [AtomicU64; 4],
    served: [AtomicU64; 4],
    /// Requests that had no answer within the patience of their caller; all others that were not served were refused.
    unanswered: AtomicU64,
}

/// The three tenants that don't change: an open load, which comes whether or not it is answered.
pub(crate) struct Others {
    tally: Arc<Tally>,
    arrivals: JoinSet<JoinSet<()>>,
    over: Arc<AtomicBool>,
}

impl Others {
    pub(crate) fn call(to: SocketAddr, over: Over) -> Self {
        let (tally, is_over) = (Arc::<Tally>::default(), Arc::new(AtomicBool::new(false)));
        let mut arrivals = JoinSet::new();
        for (number, tenant) in TENANTS.into_iter().enumerate().skip(1) {
            let (tally, is_over) = (Arc::clone(&tally), Arc::clone(&is_over));
            arrivals.spawn(async move {
                let client = Caller::of(to, over).await;
                let mut random = fastrand::Rng::with_seed(number as u64);
                let (mut calls, mut at) = (JoinSet::new(), Instant::now());
                while !is_over.load(Ordering::SeqCst) {
                    // 1 - x is never 0.
                    at += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / RATE);
                    sleep_until(at).await;
                    while calls.try_join_next().is_some() {}
                    let (client, tally) = (client.clone(), Arc::clone(&tally));
                    let counts = tally.counts.load(Ordering::SeqCst);
                    calls.spawn(async move {
                        let served = timeout(PATIENCE, client.is_served(tenant, WORK)).await;
                        if counts {
                            tally.sent[number].fetch_add(1, Ordering::SeqCst);
                            tally.served[number].fetch_add((served == Ok(true)).into(), Ordering::SeqCst);
                            tally.unanswered.fetch_add(served.is_err().into(), Ordering::SeqCst);
                        }
                    });
                }
                calls
            });
        }
        Self { tally, arrivals, over: is_over }
    }

    /// Requests that are sent from now on count.
    pub(crate) fn count_from_now(&self) {
        self.tally.counts.store(true, Ordering::SeqCst);
    }

    /// Ends the load, and returns the part of the requests that were served in time, of the tenant that fared worst; and how many
    /// of all tenants had no answer in time.
    pub(crate) async fn worst_off(mut self) -> (f64, u64) {
        self.over.store(true, Ordering::SeqCst);
        while let Some(calls) = bounded("the load", self.arrivals.join_next()).await {
            bounded("the last calls", calls.unwrap().join_all()).await;
        }
        let Tally { sent, served, unanswered, .. } = &*self.tally;
        let parts = (1..4).map(|it| {
            let sent = sent[it].load(Ordering::SeqCst);
            assert!(sent > 100, "{sent} were sent");
            served[it].load(Ordering::SeqCst) as f64 / sent as f64
        });
        (parts.fold(1.0, f64::min), unanswered.load(Ordering::SeqCst))
    }
}

/// What the noisy tenant does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callers {
    /// Sends the next request as soon as there is an answer, whatever it says.
    Flood,
    /// Leaves after 10 ms, and comes again.
    Leave,
}

/// The noisy tenant, until it is dropped.
pub(crate) struct Noisy {
    sent: Arc<AtomicU64>,
    _callers: JoinSet<()>,
}

impl Noisy {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

impl Callers {
    pub(crate) async fn call(self, to: SocketAddr, over: Over) -> Noisy {
        let (sent, mut callers) = (Arc::<AtomicU64>::default(), JoinSet::new());
        let count = if matches!(self, Self::Flood) { CONNECTIONS } else { LEAVERS };
        for _ in 0..count {
            let sent = Arc::clone(&sent);
            match (self, over) {
                (Self::Flood, _) => drop(callers.spawn(async move {
                    loop {
                        flood(to, &sent).await;
                    }
                })),
                (Self::Leave, Over::Http) => drop(callers.spawn(async move {
                    loop {
                        let _left = timeout(LEAVES_AFTER, flood(to, &sent)).await;
                    }
                })),
                (Self::Leave, Over::Grpc) => {
                    let client = Caller::of(to, over).await;
                    callers.spawn(async move {
                        loop {
                            sent.fetch_add(1, Ordering::SeqCst);
                            // A call that is refused at once is not sent again at once: that is what the flood does.
                            let begin = Instant::now();
                            let _left = timeout(LEAVES_AFTER, client.is_served(TENANTS[0], WORK)).await;
                            sleep(LEAVES_AFTER.saturating_sub(begin.elapsed())).await;
                        }
                    });
                }
            }
        }
        Noisy { sent, _callers: callers }
    }
}

/// Sends requests over one connection for as long as it is there.
async fn flood(to: SocketAddr, sent: &AtomicU64) {
    let Ok(stream) = TcpStream::connect(to).await else { return };
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else { return };
    let calls = async {
        loop {
            sent.fetch_add(1, Ordering::SeqCst);
            let Ok(answer) = sender.send_request(request(to, TENANTS[0], WORK)).await else { return };
            if answer.into_body().collect().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = calls => {}
        _ = connection => {}
    }
}
