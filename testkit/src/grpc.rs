//! gRPC services without generated code, and calls of them.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::Stream;
use http::{Request, Response, uri::PathAndQuery};
use http_body::Body;
use tonic::{
    Status, Streaming,
    client::Grpc as GrpcClient,
    server::{Grpc, NamedService},
    transport::Channel,
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

type Codec = ProstCodec<String, String>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers each call of one message with what the function says.
#[derive(Clone, Debug)]
pub struct Unary<F>(pub F);

impl<F> NamedService for Unary<F> {
    const NAME: &'static str = "test.Unary";
}

impl<F, A, B> Service<Request<B>> for Unary<F>
where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<String, Status>> + Send + 'static,
    B: Body<Error: Into<BoxError> + Send> + Send + 'static,
    B::Data: Send,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.0.clone();
        Box::pin(async move {
            let answers = service_fn(move |request: tonic::Request<String>| {
                let answered = answer(request.into_inner());
                async { answered.await.map(tonic::Response::new) }
            });
            Ok(Grpc::new(Codec::default()).unary(answers, request).await)
        })
    }
}

/// Answers each call of one message with the messages that the function says.
#[derive(Clone, Debug)]
pub struct Many<F>(pub F);

impl<F, M, B> Service<Request<B>> for Many<F>
where
    F: Fn(String) -> M + Clone + Send + Sync + 'static,
    M: Stream<Item = Result<String, Status>> + Send + 'static,
    B: Body<Error: Into<BoxError> + Send> + Send + 'static,
    B::Data: Send,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.0.clone();
        Box::pin(async move {
            let answers = service_fn(move |request: tonic::Request<String>| {
                let messages = answer(request.into_inner());
                async { Ok::<_, Status>(tonic::Response::new(messages)) }
            });
            Ok(Grpc::new(Codec::default()).server_streaming(answers, request).await)
        })
    }
}

/// Where [`Many`] is served.
pub const MANY: &str = "/test.Many/Call";

/// Calls [`Many`], and returns its messages.
///
/// # Errors
///
/// What the server says, or that it can't be reached.
pub async fn call_many(channel: Channel, request: tonic::Request<String>) -> Result<Streaming<String>, Status> {
    let mut client = GrpcClient::new(channel);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(client.server_streaming(request, PathAndQuery::from_static(MANY), Codec::default()).await?.into_inner())
}

/// Calls [`Unary`]. A call that is dropped is reset.
///
/// # Errors
///
/// What the server says, or that it can't be reached.
pub async fn call(channel: Channel, request: tonic::Request<String>) -> Result<String, Status> {
    let mut client = GrpcClient::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/test.Unary/Call");
    Ok(client.unary(request, path, Codec::default()).await?.into_inner())
}
