//! `demo.Tasks/Start`, written by hand, so that the example needs no `protoc`.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, uri::PathAndQuery};
use tokio::time::sleep;
use tonic::{Status, body::Body, server::NamedService, transport::Channel};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

const START: &str = "/demo.Tasks/Start";

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct StartRequest {
    #[prost(uint32, tag = "1")]
    pub(crate) milliseconds: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct StartReply {}

/// The server's side: a task takes as long as it is told to.
#[derive(Clone)]
pub(crate) struct Tasks;

impl NamedService for Tasks {
    const NAME: &'static str = "demo.Tasks";
}

impl Service<Request<Body>> for Tasks {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != START {
                return Ok(Status::unimplemented(format!("there is only {START}")).into_http());
            }
            let start = service_fn(async |request: tonic::Request<StartRequest>| {
                sleep(Duration::from_millis(request.into_inner().milliseconds.into())).await;
                Ok::<_, Status>(tonic::Response::new(StartReply {}))
            });
            Ok(tonic::server::Grpc::new(ProstCodec::default()).unary(start, request).await)
        })
    }
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
