//! A gRPC service without generated code, and its client.

use std::{error::Error, net::SocketAddr};

use admission_testkit::grpc::{Codec, Methods};
use futures_util::{StreamExt, stream};
use http::{Request, Response, uri::PathAndQuery};
use tokio::time::sleep;
use tonic::{Status, Streaming, body::Body, client::Grpc as GrpcClient, server::Grpc, transport::Endpoint};
use tower::service_fn;

use super::{ms, server::Handlers};

/// `Say` answers once after some milliseconds, `Chat` answers each message until the client has no more.
#[derive(Clone, Debug)]
pub(crate) struct Calls(pub(crate) Handlers);

impl Methods for Calls {
    const NAME: &'static str = "soak.Calls";

    async fn answer(self, method: &str, mut grpc: Grpc<Codec>, request: Request<Body>) -> Response<Body> {
        let Self(handlers) = self;
        if method == "Chat" {
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
            return grpc.streaming(chat, request).await;
        }
        let say = service_fn(move |request: tonic::Request<String>| {
            let handlers = handlers.clone();
            async move {
                let _running = handlers.enter();
                sleep(ms(20)).await;
                Ok(tonic::Response::new(request.into_inner()))
            }
        });
        grpc.unary(say, request).await
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
