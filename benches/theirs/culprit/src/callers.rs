//! The callers: many that leave soon, and a few that are patient.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use load::Outcome;
use tokio::time::sleep;

/// A patient caller that is refused comes back after this time.
const BACKOFF: Duration = Duration::from_millis(100);

/// What became of the requests of some callers.
#[derive(Debug, Default)]
struct Counts {
    /// Those that were sent, each time they were.
    sent: AtomicU64,
    /// Those that were answered by what they asked for.
    served: AtomicU64,
    /// Those that the server began and ended.
    ended: AtomicU64,
}

/// Connections are opened as needed and kept. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Callers {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
    counts: Arc<Counts>,
}

impl Callers {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), address, counts: Arc::default() }
    }

    /// The same, which count for themselves.
    pub(crate) fn others(&self) -> Self {
        Self { counts: Arc::default(), ..self.clone() }
    }

    /// How many requests were sent, were answered by what they asked for, and were ended.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let Counts { sent, served, ended } = &*self.counts;
        [sent, served, ended].map(|count| count.load(Relaxed))
    }

    pub(crate) async fn call(self, path: &'static str) -> Outcome {
        self.counts.sent.fetch_add(1, Relaxed);
        let request = Request::get(format!("http://{}{path}", self.address)).body(Empty::new());
        let Ok(answer) = self.client.request(request.expect("a valid request")).await else { return Outcome::Failed };
        let status = answer.status();
        let is_whole = answer.into_body().collect().await.is_ok();
        match status {
            StatusCode::OK if is_whole => {
                self.counts.served.fetch_add(1, Relaxed);
                Outcome::InTime(1)
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Outcome::Refused,
            StatusCode::GATEWAY_TIMEOUT => {
                self.counts.ended.fetch_add(1, Relaxed);
                Outcome::Failed
            }
            _ => Outcome::Failed,
        }
    }

    /// The same until it is not refused any more.
    pub(crate) async fn insist(self, path: &'static str) -> Outcome {
        loop {
            match self.clone().call(path).await {
                Outcome::Refused => sleep(BACKOFF).await,
                other => return other,
            }
        }
    }
}
