//! gRPC services without generated code, and calls of them.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use http::{Request, Response, uri::PathAndQuery};
use tonic::{
    Status, Streaming,
    body::Body,
    client::Grpc as GrpcClient,
    server::{Grpc, NamedService},
    transport::Channel,
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

/// Messages are strings.
pub type Codec = ProstCodec<String, String>;

/// The methods of a service.
pub trait Methods: Clone + Send + Sync + 'static {
    /// Name of the service, as in its paths.
    const NAME: &'static str;

    /// Answers a call of the method with this name.
    fn answer(
        self,
        method: &str,
        grpc: Grpc<Codec>,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Serves methods.
#[derive(Clone, Debug)]
pub struct Served<M>(pub M);

impl<M: Methods> NamedService for Served<M> {
    const NAME: &'static str = M::NAME;
}

impl<M, B> Service<Request<B>> for Served<M>
where
    M: Methods,
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let methods = self.0.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(methods.answer(&method, Grpc::new(Codec::default()), request.map(Body::new)).await)
        })
    }
}

/// Answers each call of one message with what the function says.
#[derive(Clone, Debug)]
pub struct Unary<F>(pub F);

impl<F, A> Methods for Unary<F>
where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<String, Status>> + Send + 'static,
{
    const NAME: &'static str = "test.Unary";

    async fn answer(self, _: &str, mut grpc: Grpc<Codec>, request: Request<Body>) -> Response<Body> {
        let answers = service_fn(move |request: tonic::Request<String>| {
            let answered = self.0(request.into_inner());
            async { answered.await.map(tonic::Response::new) }
        });
        grpc.unary(answers, request).await
    }
}

/// Answers each call of one message with the messages that the function says.
#[derive(Clone, Debug)]
pub struct Many<F>(pub F);

impl<F, M> Methods for Many<F>
where
    F: Fn(String) -> M + Clone + Send + Sync + 'static,
    M: Stream<Item = Result<String, Status>> + Send + 'static,
{
    const NAME: &'static str = "test.Many";

    async fn answer(self, _: &str, mut grpc: Grpc<Codec>, request: Request<Body>) -> Response<Body> {
        let answers = service_fn(move |request: tonic::Request<String>| {
            let messages = self.0(request.into_inner());
            async { Ok::<_, Status>(tonic::Response::new(messages)) }
        });
        grpc.server_streaming(answers, request).await
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
