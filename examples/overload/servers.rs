//! The servers under load: axum and tonic, each with a backend of its own, without protection or with it.

use std::{error::Error, net::SocketAddr, time::Duration};

use axum::{Router, extract::Path, http::StatusCode, routing::get};
use http::HeaderName;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_stream::wrappers::TcpListenerStream;
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer,
    classify::{by_header, paths},
    limit::{Aimd, Windowed},
    percent,
};

use crate::{
    backend::Backend,
    grpc::work,
    schedule::{Scenario, TENANTS},
};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// In seconds, how long the client waits. gRPC has a header of its own for that.
pub(crate) const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("x-timeout");

/// Both servers, until they are dropped.
pub(crate) struct Servers {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) backends: [Backend; 2],
    pub(crate) tasks: JoinSet<Result<(), BoxError>>,
}

/// What protects them.
pub(crate) struct Protection {
    pub(crate) http: AdaptiveConcurrencyLayer,
    pub(crate) grpc: Admission,
}

impl Protection {
    /// How these were chosen, and what other choices do to the table:
    ///
    /// - The threshold is half of the clients' patience. An answer that takes longer is about to be late, and a backend
    ///   that is slow by itself (400 ms of 500 ms) still counts as healthy. Twice the latency in calm, 200 ms, is worse:
    ///   the slow backend takes longer than that even when it is idle, so the limit falls to its floor, and a third of
    ///   the requests after the slow-down is refused until the limit has climbed again.
    /// - The limit starts at the number of workers and climbs while answers come in time. The most it may reach is what
    ///   the slowest backend that we prepare for finishes within 80 % of the patience. Without that bound, one in a
    ///   hundred answers is late when the slow-down begins.
    /// - The window is a fifth of the patience, and the limit backs off to 0.8, for a run of half a minute. The
    ///   defaults, 1 s and 0.9, make nearly the same table: the limit then climbs less in the six seconds of overload.
    /// - The calm tenants have 30 % each, the noisy one the rest. Over HTTP a request within its share gets the next freed slot, and
    ///   any other that finds none is refused. At 25 % each, the calm tenant that sends most is served 96 to 97 % of its requests: its
    ///   bursts exceed the ten slots with which the limit starts, and a server of ten slots would refuse them too.
    /// - gRPC waits, up to a tenth of the patience, and who is below its share goes first. What bounds the queue is
    ///   that wait, not its places.
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, BoxError> {
        let Scenario { workers, deadline, .. } = *scenario;
        let law = || {
            let aimd = Aimd::new(deadline / 2).initial(workers).min(workers / 4).max(most(scenario)).backoff(0.8);
            Windowed::new(aimd).min_time(deadline / 5).max_time(deadline * 2)
        };
        let shares = [10.0, 30.0, 30.0, 30.0];
        let tenants = || TENANTS.into_iter().zip(shares);
        let http = AdaptiveConcurrencyLayer::with(law(), |admission| {
            let admission = admission.name("http");
            tenants().fold(admission, |it, (tenant, share)| it.partition(tenant, percent(share)))
        })?
        .map(reads);
        let grpc = Admission::builder().name("grpc").limit(law()).queue(2_000).max_wait(deadline / 10);
        let grpc = tenants().fold(grpc, |it, (tenant, share)| it.partition(tenant, percent(share))).build()?;
        Ok(Self { http, grpc })
    }

    /// Nothing is said but how long clients wait, and the shares of the tenants.
    pub(crate) fn by_patience(scenario: &Scenario) -> Result<Self, BoxError> {
        let handle = |name| {
            let admission = Admission::builder().name(name).patience(scenario.deadline);
            TENANTS.iter().fold(admission, |it, &tenant| it.partition(tenant, percent(25.0))).build()
        };
        let http = AdaptiveConcurrencyLayer::from_handle(&handle("http-by-patience")?).map(reads);
        Ok(Self { http, grpc: handle("grpc-by-patience")? })
    }
}

/// How requests over HTTP are read.
fn reads(layer: AdmissionLayer) -> AdmissionLayer {
    layer.classify(by_header("x-tenant")).deadline_header(TIMEOUT_HEADER).exempt(paths(["/healthz"]))
}

impl Servers {
    pub(crate) async fn start(
        scenario: &Scenario,
        protection: Option<&Protection>,
        [http, grpc]: [SocketAddr; 2],
    ) -> Result<Self, BoxError> {
        let backends = [Backend::start(scenario.workers), Backend::start(scenario.workers)];
        let mut tasks = JoinSet::new();

        let usual = scenario.service;
        let run = |backend: &Backend| {
            let backend = backend.clone();
            async move |micros: u32| {
                let answer = backend.run(service_time(micros, usual)).await;
                answer.map_or((StatusCode::SERVICE_UNAVAILABLE, "stopped\n"), |()| (StatusCode::OK, "done\n"))
            }
        };
        let (plain, sized) = (run(&backends[0]), run(&backends[0]));
        let mut app = Router::new()
            .route("/work", get(async move || plain(0).await))
            .route("/takes/{microseconds}", get(async move |Path(micros): Path<u32>| sized(micros).await))
            .route("/healthz", get(async || "ok\n"));
        if let Some(protection) = protection {
            app = app.layer(protection.http.clone());
        }
        let listener = listen(http).await?;
        let http = listener.local_addr()?;
        tasks.spawn(async move { axum::serve(listener, app).await.map_err(Into::into) });

        let mut calls = work(backends[1].clone(), usual);
        if let Some(protection) = protection {
            calls = calls.layer(AdmissionLayer::new(&protection.grpc).classify(by_header("x-tenant")));
        }
        let listener = listen(grpc).await?;
        let grpc = listener.local_addr()?;
        let server = tonic::transport::Server::builder().add_routes(calls.into());
        tasks.spawn(async move { Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?) });
        Ok(Self { http, grpc, backends, tasks })
    }

    /// Ends both at once, whatever they have left to do.
    pub(crate) async fn stop(mut self) {
        self.backends.iter().for_each(Backend::stop);
        self.tasks.shutdown().await;
    }
}

/// How many requests the backend, at its slowest, finishes within 80 % of the clients' patience.
fn most(scenario: &Scenario) -> usize {
    let slowness = scenario.phases.iter().map(|phase| phase.slowness).max().unwrap_or(1);
    let slowest = (scenario.service * slowness).max(Duration::from_micros(1));
    let rounds = (scenario.deadline * 4 / 5).as_micros() / slowest.as_micros();
    scenario.workers * usize::try_from(rounds).unwrap_or(usize::MAX).clamp(1, 1_000)
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, BoxError> {
    TcpListener::bind(address).await.map_err(|error| format!("can't listen on {address}: {error}").into())
}

/// How long the work of a request takes: what it asks for, but a minute at most.
pub(crate) fn service_time(microseconds: u32, usual: Duration) -> Duration {
    match microseconds {
        0 => usual,
        some => Duration::from_micros(some.into()).min(Duration::from_secs(60)),
    }
}
