//! `demo.Work/Run`, written by hand, so that the example needs no `protoc`. `demo.proto` says the same for others.

use std::{convert::Infallible, time::Duration};

use axum::{Router, extract::Request};
use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::{Status, server::Grpc, transport::Channel};
use tonic_prost::ProstCodec;
use tower::service_fn;

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

/// The server's side; `usual` is the work of a call that doesn't say how much it wants.
pub(crate) fn work(backend: Backend, usual: Duration) -> Router {
    let run = move |request: tonic::Request<RunRequest>| {
        let (backend, begin) = (backend.clone(), Instant::now());
        async move {
            let service = service_time(request.into_inner().microseconds, usual);
            backend.run(service).await.ok_or_else(|| Status::unavailable("the backend was stopped"))?;
            let microseconds = u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX);
            Ok::<_, Status>(tonic::Response::new(RunReply { microseconds }))
        }
    };
    let answer = move |request: Request| {
        let run = service_fn(run.clone());
        async { Ok::<_, Infallible>(Grpc::new(ProstCodec::default()).unary(run, request).await) }
    };
    Router::new().route_service(RUN, service_fn(answer))
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
