//! The flood, and what it reports.

use std::{convert::Infallible, fmt, iter::Skip, iter::StepBy, net::SocketAddr, ops::Range, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use metrics_util::debugging::DebuggingRecorder;
use serde::{Deserialize, Serialize};
use tokio::task::yield_now;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_admission::{Admission, AdmissionLayer, Labels, classify::by_header, limit::Fixed};

use crate::support::{Client, H1, Outgoing, Server, alone::resident, client::get, eventually};

/// So many callers at once: some run, and the others wait in line.
const CALLERS: usize = 32;
const LIMIT: usize = 8;
/// After so many the tables are full, and nothing should grow any more.
const WARM_UP: u64 = 25_000;

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Flood {
    /// Through a server on loopback, rather than in process.
    pub(super) server: bool,
    pub(super) keys: u64,
    pub(super) max_labels: usize,
}

/// What is left behind.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Report {
    /// How much larger the resident memory is than after the warm-up, at most, in MiB.
    pub(super) grown: f64,
    pub(super) labels: usize,
    /// How many series of metrics there were after the warm-up, and are in the end.
    pub(super) series_before: usize,
    pub(super) series: usize,
}

impl Flood {
    pub(super) async fn run(self) -> Report {
        let labels = Labels::new().max_labels(self.max_labels).max_wait(Duration::from_secs(3_600));
        let admission = Admission::builder().limit(Fixed::new(LIMIT)).queue(1_000).labels(labels).build().unwrap();
        let (label, namespace) = (by_header("x-label").as_label(), by_header("x-namespace").as_namespace());
        let (run, class) = (by_header("x-run").as_run(), by_header("x-class").as_class());
        let layer = AdmissionLayer::new(&admission).classify((label, namespace, run, class));
        let service = layer.layer(service_fn(answer::<Outgoing>));
        let server = Server::hyper(layer.layer(service_fn(answer::<Incoming>))).await;

        let send = async |keys: Range<u64>| {
            let callers = (0..CALLERS).map(|caller| {
                let keys = keys.clone().skip(caller).step_by(CALLERS);
                if self.server {
                    tokio::spawn(over_a_connection(server.address, keys))
                } else {
                    tokio::spawn(in_process(service.clone(), keys))
                }
            });
            join_all(callers).await.into_iter().for_each(Result::unwrap);
        };
        send(0..WARM_UP).await;
        let (before, series_before) = (resident(), series(&admission));
        let mut most = before;
        let step = (self.keys / 10).max(1);
        let mut sent = WARM_UP;
        while sent < self.keys {
            let end = (sent + step).min(self.keys);
            send(sent..end).await;
            most = most.max(resident());
            sent = end;
        }
        eventually("all have left", || admission.snapshot().in_flight == 0).await;
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.admitted(), snapshot.rejected()), (self.keys.max(WARM_UP), 0));
        assert!(snapshot.partitions[0].queued > self.keys / 100, "hardly anybody waited: {snapshot:?}");
        server.stop().await;
        Report { grown: most - before, labels: snapshot.labels.len(), series_before, series: series(&admission) }
    }
}

/// What one caller sends.
type Keys = StepBy<Skip<Range<u64>>>;

/// All names that a request can bring are new ones.
fn request(key: u64) -> Request<Outgoing> {
    let mut request = get("/");
    let headers = request.headers_mut();
    for name in ["x-label", "x-run", "x-class"] {
        headers.insert(name, format!("{name}-of-a-stranger-{key}").parse().unwrap());
    }
    // Half of them share a namespace, the others have one each.
    if key.is_multiple_of(2) {
        headers.insert("x-namespace", format!("namespace-{key}").parse().unwrap());
    }
    request
}

async fn answer<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    drop(request);
    // Others get the chance to arrive meanwhile, and have to wait.
    yield_now().await;
    Ok(Response::new(Full::from("done")))
}

async fn in_process<S>(service: S, keys: Keys)
where
    S: Service<Request<Outgoing>, Response: fmt::Debug, Error = Infallible> + Clone,
{
    for key in keys {
        drop(service.clone().oneshot(request(key)).await.unwrap());
    }
}

async fn over_a_connection(server: SocketAddr, keys: Keys) {
    let mut client = Client::connect(server, H1).await;
    for key in keys {
        client.answer(request(key)).await;
    }
}

/// How many series of metrics there are.
fn series(admission: &Admission) -> usize {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || admission.publish_metrics());
    recorder.snapshotter().snapshot().into_vec().len()
}
