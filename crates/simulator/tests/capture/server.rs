//! A server on loopback, and clients that ask for more than it can do, some of which leave.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};
use tower_admission::{
    Admission, AdmissionLayer,
    classify::by_header,
    limit::{LimitAlgorithm, Sample},
};

/// What was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A law that there are no words for.
#[derive(Debug)]
pub(crate) struct Own;

impl LimitAlgorithm for Own {
    fn limit(&self) -> usize {
        2
    }

    fn on_sample(&mut self, _: &Sample) {}
}

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const LABELS: [&str; 5] = ["capped", "heavy", "light", "nightly", "one-of-many"];
const PARTITIONS: [&str; 3] = ["web", "batch", "unknown"];

/// Sends so many requests from forty clients, and waits until the server has nothing to do any more. Every seventh request
/// is given up early, and every eleventh is answered with an overload.
pub(crate) async fn overload(admission: &Admission, requests: usize) {
    let layer = AdmissionLayer::new(admission).classify((by_header("x-tenant"), by_header("x-label").as_label()));
    let work = |status: StatusCode| async move {
        tokio::time::sleep(Duration::from_millis(4)).await;
        (status, "learned from at the head, held until the end")
    };
    let app = Router::new()
        .route("/", get(move || work(StatusCode::OK)))
        .route("/refuses", get(move || work(StatusCode::SERVICE_UNAVAILABLE)))
        .layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async { axum::serve(listener, app).await.unwrap() });

    let client: Client<HttpConnector, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut clients = JoinSet::new();
    for number in 0..40 {
        let (client, address) = (client.clone(), address.clone());
        clients.spawn(async move {
            for i in (number..requests).step_by(40) {
                let path = if i % 11 == 0 { "/refuses" } else { "/" };
                let label = LABELS[i % LABELS.len()];
                let label = if label == "one-of-many" { format!("label-{}", i % 40) } else { label.to_owned() };
                let request = Request::get(format!("{address}{path}")).header("x-label", label);
                let request = request.header("x-tenant", PARTITIONS[i / 5 % 3]).body(Empty::new()).unwrap();
                let patience = if i % 7 == 0 { Duration::from_millis(3) } else { PATIENCE };
                if let Ok(response) = timeout(patience, client.request(request)).await {
                    let _ = response.unwrap().into_body().collect().await;
                }
            }
        });
    }
    let all = async { while clients.join_next().await.is_some_and(|it| it.is_ok()) {} };
    timeout(PATIENCE, all).await.expect("the clients come to an end");
    drop(client);
    admission.drain(tower_admission::DrainMode::RejectWaiting);
    timeout(PATIENCE, admission.drained()).await.expect("nobody is left");
}
