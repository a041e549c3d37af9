//! A server under admission control, its second listener for operators, and clients for both.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::get};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};
use tower_admission::{Admission, AdmissionLayer, Clock, classify::by_header, introspection::Introspection};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the operator's token is in these tests.
pub(crate) const TOKEN: &str = "a token for tests";

/// A server whose requests say in headers what they are: `x-class`, `x-namespace`, `x-label`, `x-tenant`.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) admission: Admission,
    pub(crate) app: String,
    pub(crate) admin: String,
    client: Client<HttpConnector, Full<Bytes>>,
    release: watch::Sender<bool>,
    /// How long the backend takes, in milliseconds.
    backend: Arc<AtomicU64>,
    /// Requests that don't end until they are let go.
    held: JoinSet<StatusCode>,
    /// Stopped when this is dropped.
    _servers: JoinSet<()>,
}

impl Site {
    pub(crate) async fn start(admission: &Admission) -> Self {
        Self::start_with(admission, admission.introspection().accept_workers(TOKEN)).await
    }

    pub(crate) async fn start_with(admission: &Admission, introspection: Introspection) -> Self {
        Self::start_over(admission, introspection, Router::new()).await
    }

    /// A server with more routes than those of all sites.
    pub(crate) async fn start_over(admission: &Admission, introspection: Introspection, more: Router) -> Self {
        let (release, released) = watch::channel(false);
        let backend = Arc::new(AtomicU64::new(10));
        let takes = Arc::clone(&backend);
        let classify = (
            by_header("x-class").as_class(),
            by_header("x-namespace").as_namespace(),
            by_header("x-label").as_label(),
            by_header("x-tenant"),
        );
        let app = Router::new()
            .route("/quick", get(async || "done"))
            .route("/slow", get(async || tokio::time::sleep(Duration::from_millis(40)).await))
            .route(
                "/backend",
                get(async move || tokio::time::sleep(Duration::from_millis(takes.load(Ordering::Relaxed))).await),
            )
            .route(
                "/held",
                get(async move || {
                    // The sender is gone when the test is over.
                    let _ = released.clone().wait_for(|released| *released).await;
                }),
            )
            .merge(more)
            .layer(AdmissionLayer::new(admission).classify(classify));
        let name = admission.snapshot().name;
        let admin = Router::new().nest_service("/nested", introspection.clone()).fallback_service(introspection);
        let admin = admin.route("/metrics", get(async move || scrape(&name)));
        let mut servers = JoinSet::new();
        let app = serve(&mut servers, app).await;
        let admin = serve(&mut servers, admin).await;
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self {
            admission: admission.clone(),
            app,
            admin,
            client,
            release,
            backend,
            held: JoinSet::new(),
            _servers: servers,
        }
    }

    /// From now on the backend takes so many milliseconds.
    pub(crate) fn backend_takes(&self, milliseconds: u64) {
        self.backend.store(milliseconds, Ordering::Relaxed);
    }

    /// A request to the server, answered when it has ended.
    pub(crate) fn work(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> impl Future<Output = StatusCode> + use<> {
        let request = headers
            .iter()
            .fold(Request::get(format!("{}{path}", self.app)), |it, (key, value)| it.header(*key, *value));
        let response = self.client.request(request.body(Full::default()).unwrap());
        async {
            let response = response.await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            status
        }
    }

    /// Requests one after the other, all of which must get in.
    pub(crate) async fn quick(&self, count: usize, headers: &[(&'static str, &str)]) {
        for _ in 0..count {
            assert_eq!(self.work("/quick", headers).await, StatusCode::OK);
        }
    }

    /// Requests that stay until they are [let go](Self::let_go).
    pub(crate) fn hold(&mut self, count: usize, headers: &[(&'static str, &str)]) {
        for _ in 0..count {
            let request = self.work("/held", headers);
            self.held.spawn(request);
        }
    }

    /// Lets all held requests end, and waits for them: those that still wait for a rule must not wait for ever.
    pub(crate) async fn let_go(&mut self) {
        self.release.send_replace(true);
        while let Some(status) = timeout(PATIENCE, self.held.join_next()).await.expect("somebody still waits") {
            status.unwrap();
        }
        self.release.send_replace(false);
    }

    /// What the operator is answered.
    pub(crate) async fn ask(&self, request: Request<String>) -> (StatusCode, HeaderMap, Bytes) {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.admin, parts.uri).parse().unwrap();
        let request = Request::from_parts(parts, Full::from(body));
        let (parts, body) = self.client.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, body)
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Bytes> {
        let (status, headers, body) = self.ask(Request::get(path).body(String::new()).unwrap()).await;
        let mut response = Response::new(body);
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        response
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}: {:?}", response.body());
        serde_json::from_slice(response.body()).unwrap()
    }

    /// The section of one class of a label.
    pub(crate) async fn section(&self, label: &str, class: &str) -> Value {
        self.json(&format!("/admission/labels/{label}")).await["admission"][class].take()
    }

    /// Waits until a label's section is as it should be.
    pub(crate) async fn section_when(&self, label: &str, class: &str, field: &str, value: impl Into<Value>) -> Value {
        let (value, deadline) = (value.into(), Instant::now() + PATIENCE);
        loop {
            let response = self.get(&format!("/admission/labels/{label}")).await;
            let body: Value = serde_json::from_slice(response.body()).unwrap();
            let section = &body["admission"][class];
            if section[field] == value {
                return section.clone();
            }
            assert!(Instant::now() < deadline, "{field} did not become {value}: {body:#}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A heartbeat over HTTP.
    pub(crate) async fn heartbeat(&self, body: &Value) -> StatusCode {
        let request = Request::builder().method(Method::POST).uri("/admission/workers");
        let request = request.header("authorization", format!("Bearer {TOKEN}")).body(body.to_string()).unwrap();
        self.ask(request).await.0
    }
}

/// The metrics of this process, which are recorded from the first call on.
pub(crate) fn metrics() -> &'static PrometheusHandle {
    static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();
    METRICS.get_or_init(|| {
        let times = Matcher::Suffix("_seconds".to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(times, &[0.01, 0.1, 1.0, 5.0, 10.0]).unwrap();
        builder.install_recorder().unwrap()
    })
}

/// The metrics of the handle with this name, as if each handle were in a process of its own.
fn scrape(name: &str) -> String {
    let name = format!("limiter=\"{name}\"");
    let all = metrics().render();
    all.lines().filter(|line| line.contains(&name)).map(|line| format!("{line}\n")).collect()
}

async fn serve(servers: &mut JoinSet<()>, router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    servers.spawn(async { axum::serve(listener, router).await.unwrap() });
    address
}

/// A clock that stands still: no test is to run over the edge of a minute.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(600)
    }
}
