//! A gRPC service without generated code, and its client.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{StreamExt, stream};
use http::{Request, Response, uri::PathAndQuery};
use http_body::Body;
use tokio::time::sleep;
use tonic::{
    Status, Streaming,
    client::Grpc as GrpcClient,
    server::{Grpc, NamedService},
    transport::Endpoint,
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::{ms, server::Handlers};

type Codec = ProstCodec<String, String>;

/// `Say` answers once after some milliseconds, `Chat` answers each message until the client has no more.
#[derive(Clone, Debug)]
pub(crate) struct Calls(pub(crate) Handlers);

impl NamedService for Calls {
    const NAME: &'static str = "soak.Calls";
}

impl<B> Service<Request<B>> for Calls
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
    B::Data: Send,
{
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let handlers = self.0.clone();
        let mut grpc = Grpc::new(Codec::default());
        Box::pin(async move {
            if request.uri().path().ends_with("/Chat") {
                let chat = service_fn(move |request: tonic::Request<Streaming<String>>| {
                    let running = handlers.enter();
                    let answers = request.into_inner().then(move |message| {
                        let _running = &running;
                        async move {
                            sleep(ms(5)).await;
                            message
                        }
                    });
                    async { Ok::<_, Status>(tonic::Response::new(answers)) }
                });
                return Ok(grpc.streaming(chat, request).await);
            }
            let say = service_fn(move |request: tonic::Request<String>| {
                let handlers = handlers.clone();
                async move {
                    let _running = handlers.enter();
                    sleep(ms(20)).await;
                    Ok(tonic::Response::new(request.into_inner()))
                }
            });
            Ok(grpc.unary(say, request).await)
        })
    }
}

type Failure = Box<dyn Error + Send + Sync>;

/// Opens a connection for calls with the label of `label`, each on the same connection.
pub(crate) struct Caller(GrpcClient<tonic::transport::Channel>, String);

impl Caller {
    pub(crate) async fn connect(address: SocketAddr, label: String) -> Result<Self, Failure> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
        Ok(Self(GrpcClient::new(channel), label))
    }

    fn request<T>(&self, message: T) -> Result<tonic::Request<T>, Failure> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("x-label", self.1.parse()?);
        Ok(request)
    }

    pub(crate) async fn say(&mut self) -> Result<(), Failure> {
        let mut request = self.request("hello".to_owned())?;
        request.set_timeout(ms(300));
        self.0.ready().await?;
        self.0.unary(request, PathAndQuery::from_static("/soak.Calls/Say"), Codec::default()).await?;
        Ok(())
    }

    /// Sends messages and reads as many answers.
    pub(crate) async fn chat(&mut self, messages: usize, read: usize) -> Result<(), Failure> {
        let request = self.request(stream::iter((0..messages).map(|number| number.to_string())))?;
        self.0.ready().await?;
        let path = PathAndQuery::from_static("/soak.Calls/Chat");
        let mut answers = self.0.streaming(request, path, Codec::default()).await?.into_inner();
        for _ in 0..read {
            answers.message().await?;
        }
        Ok(())
    }
}
