//! `demo.Tasks/Start`, written by hand, so that the example needs no `protoc`.

use std::{convert::Infallible, time::Duration};

use http::uri::PathAndQuery;
use tokio::time::sleep;
use tonic::{Status, server::Grpc, service::Routes, transport::Channel};
use tonic_prost::ProstCodec;
use tower::service_fn;

const START: &str = "/demo.Tasks/Start";

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct StartRequest {
    #[prost(uint32, tag = "1")]
    pub(crate) milliseconds: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct StartReply {}

/// The server's side: a task takes as long as it is told to.
pub(crate) fn tasks() -> Routes {
    let answer = async |request: axum::extract::Request| {
        let start = service_fn(async |request: tonic::Request<StartRequest>| {
            sleep(Duration::from_millis(request.into_inner().milliseconds.into())).await;
            Ok::<_, Status>(tonic::Response::new(StartReply {}))
        });
        Ok::<_, Infallible>(Grpc::new(ProstCodec::default()).unary(start, request).await)
    };
    axum::Router::new().route_service(START, service_fn(answer)).into()
}

/// The client's side: one call, which waits for as long as it takes.
pub(crate) async fn call(channel: Channel, work: Duration) -> Result<(), Status> {
    let milliseconds = u32::try_from(work.as_millis()).unwrap_or(u32::MAX);
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<StartRequest, StartReply>::default();
    client.unary(tonic::Request::new(StartRequest { milliseconds }), PathAndQuery::from_static(START), codec).await?;
    Ok(())
}
