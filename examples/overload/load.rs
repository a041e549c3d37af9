//! The load generator: sends each request of a schedule at its time, and counts how they end.
//!
//! Latency runs from the time at which a request *should* have been sent. Where the generator itself falls behind, its
//! delay is thus part of the result rather than hidden by it ("coordinated omission", a term by Gil Tene).

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tonic::{Code, transport::Channel};

use crate::{
    grpc,
    schedule::{Arrival, TENANTS},
    servers::{BoxError, TIMEOUT_HEADER},
    tally::Tally,
};

/// How many connections carry the requests. A server takes 200 requests at once on each unless told otherwise, so these
/// are enough for the generator never to wait for one.
const CONNECTIONS: usize = 16;

/// How one request ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Within the deadline.
    Answered,
    /// Not within the deadline: the client has hung up.
    Late,
    /// 429, 503 or `RESOURCE_EXHAUSTED`.
    Rejected(&'static str),
    /// In any other way, which should not happen.
    Failed(String),
}

/// How far a run is, for those who watch.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) answered: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

/// A pool of connections that stay open.
///
/// HTTP goes over HTTP/2, too: a client of HTTP/1.1 can only give up by closing its connection, and hundreds of
/// requests a second that give up would take more file descriptors than many systems allow.
pub(crate) enum Pool {
    Http(Vec<HttpClient>, SocketAddr),
    Grpc(Vec<Channel>),
}

type HttpClient = Client<HttpConnector, Empty<Bytes>>;

impl Pool {
    /// Opens all connections, so that the first requests don't pay for it.
    pub(crate) async fn http(address: SocketAddr) -> Result<Self, BoxError> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client: HttpClient = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
            let health = format!("http://{address}/healthz").parse()?;
            let status = timeout(PATIENCE, client.get(health)).await??.status();
            if status != StatusCode::OK {
                return Err(format!("GET /healthz of {address} answers {status}, not 200").into());
            }
            clients.push(client);
        }
        Ok(Self::Http(clients, address))
    }

    pub(crate) async fn grpc(address: SocketAddr) -> Result<Self, BoxError> {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint = Channel::from_shared(format!("http://{address}"))?;
            channels.push(timeout(PATIENCE, endpoint.connect()).await??);
        }
        Ok(Self::Grpc(channels))
    }

    /// Sends a request and waits for its end. Dropping the future takes the request back.
    async fn send(&self, number: usize, arrival: Arrival, deadline: Duration) -> Outcome {
        let tenant = TENANTS[arrival.tenant];
        match self {
            Self::Http(clients, address) => {
                let client = &clients[number % clients.len()];
                let request = Request::builder()
                    .uri(format!("http://{address}/takes/{}", arrival.service.as_micros()))
                    .header("x-tenant", tenant)
                    .header(TIMEOUT_HEADER, deadline.as_secs_f64().to_string())
                    .body(Empty::new());
                match request {
                    Ok(request) => http_outcome(client, request).await,
                    Err(error) => Outcome::Failed(error.to_string()),
                }
            }
            Self::Grpc(channels) => {
                let channel = channels[number % channels.len()].clone();
                match grpc::call(channel, tenant, arrival.service, deadline).await {
                    Ok(()) => Outcome::Answered,
                    Err(status) => grpc_outcome(&status),
                }
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

async fn http_outcome(client: &HttpClient, request: Request<Empty<Bytes>>) -> Outcome {
    let response = match client.request(request).await {
        Ok(response) => response,
        Err(error) => return Outcome::Failed(format!("http: {error}")),
    };
    let status = response.status();
    if let Err(error) = response.into_body().collect().await {
        return Outcome::Failed(format!("http body: {error}"));
    }
    match status {
        StatusCode::OK => Outcome::Answered,
        StatusCode::TOO_MANY_REQUESTS => Outcome::Rejected("429"),
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Rejected("503"),
        other => Outcome::Failed(format!("http: status {other}")),
    }
}

/// Client and server of tonic each watch `grpc-timeout`, so a late call may end a moment before our own deadline.
fn grpc_outcome(status: &tonic::Status) -> Outcome {
    match status.code() {
        Code::ResourceExhausted => Outcome::Rejected("RESOURCE_EXHAUSTED"),
        Code::DeadlineExceeded => Outcome::Late,
        Code::Cancelled if status.message() == "Timeout expired" => Outcome::Late,
        code => Outcome::Failed(format!("grpc: {code:?}: {}", status.message())),
    }
}

/// Sends all of `arrivals`, counted from `start`, and waits until the last one has ended: `deadline` after it was sent
/// at the latest.
pub(crate) async fn drive(
    pool: Pool,
    arrivals: Vec<Arrival>,
    phases: usize,
    start: Instant,
    deadline: Duration,
    live: Arc<Live>,
) -> Tally {
    let pool = Arc::new(pool);
    let (ended, mut endings) = mpsc::unbounded_channel();
    let mut requests = JoinSet::new();
    let send_all = async {
        for (number, arrival) in arrivals.into_iter().enumerate() {
            sleep_until(start + arrival.at).await;
            let (pool, ended) = (Arc::clone(&pool), ended.clone());
            requests.spawn(async move {
                let scheduled = start + arrival.at;
                let request = pool.send(number, arrival, deadline);
                let outcome = timeout_at(scheduled + deadline, request).await.unwrap_or(Outcome::Late);
                // The receiver goes last.
                let _ = ended.send((arrival, outcome, scheduled.elapsed()));
            });
            while requests.try_join_next().is_some() {}
        }
        drop(ended);
    };
    let count_all = async {
        let mut tally = Tally::new(phases);
        while let Some((arrival, outcome, latency)) = endings.recv().await {
            let counter = match outcome {
                Outcome::Answered => Some(&live.answered),
                Outcome::Late => Some(&live.late),
                Outcome::Rejected(_) => Some(&live.rejected),
                Outcome::Failed(_) => None,
            };
            if let Some(counter) = counter {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            tally.count(arrival, outcome, latency);
        }
        tally
    };
    tokio::join!(send_all, count_all).1
}
