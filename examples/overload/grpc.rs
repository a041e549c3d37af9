//! `demo.Work/Run`, written by hand, so that the example needs no `protoc`. `demo.proto` says the same for others.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, uri::PathAndQuery};
use tokio::time::Instant;
use tonic::{Status, body::Body, server::NamedService, transport::Channel};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::{backend::Backend, servers::service_time};

const RUN: &str = "/demo.Work/Run";

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct RunRequest {
    #[prost(uint32, tag = "1")]
    pub(crate) microseconds: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct RunReply {
    #[prost(uint32, tag = "1")]
    pub(crate) microseconds: u32,
}

/// The server's side.
#[derive(Clone)]
pub(crate) struct Work {
    backend: Backend,
    /// The work of those who don't say how much they want.
    usual: Duration,
}

impl Work {
    pub(crate) const fn new(backend: Backend, usual: Duration) -> Self {
        Self { backend, usual }
    }

    async fn run(self, request: tonic::Request<RunRequest>) -> Result<tonic::Response<RunReply>, Status> {
        let begin = Instant::now();
        let service = service_time(request.into_inner().microseconds, self.usual);
        self.backend.run(service).await.ok_or_else(|| Status::unavailable("the backend was stopped"))?;
        let microseconds = u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX);
        Ok(tonic::Response::new(RunReply { microseconds }))
    }
}

impl NamedService for Work {
    const NAME: &'static str = "demo.Work";
}

impl Service<Request<Body>> for Work {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let work = self.clone();
        Box::pin(async move {
            if request.uri().path() != RUN {
                return Ok(Status::unimplemented(format!("there is only {RUN}")).into_http());
            }
            let run = service_fn(move |request| work.clone().run(request));
            Ok(tonic::server::Grpc::new(ProstCodec::default()).unary(run, request).await)
        })
    }
}

/// The client's side: one call that ends after `timeout`, which the server is told as `grpc-timeout`.
pub(crate) async fn call(
    channel: Channel,
    tenant: &'static str,
    service: Duration,
    timeout: Duration,
) -> Result<(), Status> {
    let microseconds = u32::try_from(service.as_micros()).unwrap_or(u32::MAX);
    let mut request = tonic::Request::new(RunRequest { microseconds });
    request.set_timeout(timeout);
    request.metadata_mut().insert("x-tenant", tonic::metadata::MetadataValue::from_static(tenant));
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<RunRequest, RunReply>::default();
    client.unary(request, PathAndQuery::from_static(RUN), codec).await.map(drop)
}
