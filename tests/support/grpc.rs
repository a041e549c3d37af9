//! A gRPC service without generated code, and its client.

use std::{future::Future, net::SocketAddr, time::Duration};

use admission_testkit::grpc::{Codec, Methods, Served};
use http::{Request, Response, uri::PathAndQuery};
use tonic::{
    Code, Status,
    body::Body,
    client::Grpc as GrpcClient,
    server::Grpc,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use tower_admission::AdmissionLayer;

use super::{probe::Probe, server::Server};

pub(crate) const SAY: &str = "/test.Greeter/Say";
pub(crate) const ECHO: &str = "/test.Greeter/Echo";

/// `/test.Greeter/Say` answers when the probe lets it, `/test.Greeter/Echo` at once; `/test.Greeter/Overload` says in the
/// trailers that it is full.
#[derive(Clone, Debug)]
pub(crate) struct Greeter(pub(crate) Probe);

impl Methods for Greeter {
    const NAME: &'static str = "test.Greeter";

    async fn answer(self, method: &str, mut grpc: Grpc<Codec>, request: Request<Body>) -> Response<Body> {
        let Self(probe) = self;
        if method == "Overload" {
            let overload = service_fn(|_: tonic::Request<String>| async {
                let messages = [Ok("one".to_owned()), Err(Status::resource_exhausted("full"))];
                Ok(tonic::Response::new(tokio_stream::iter(messages)))
            });
            return grpc.server_streaming(overload, request).await;
        }
        let waits = request.uri().path() == SAY;
        let say = service_fn(move |request: tonic::Request<String>| {
            let probe = probe.clone();
            async move {
                if waits {
                    probe.run().await;
                }
                Ok(tonic::Response::new(request.into_inner()))
            }
        });
        grpc.unary(say, request).await
    }
}

/// A server of tonic with a [`Greeter`] behind this layer. The probe counts calls that arrive.
pub(crate) async fn serve(layer: AdmissionLayer, probe: &Probe) -> Server {
    let mut server = tonic::transport::Server::builder().layer(probe.arrivals()).layer(layer);
    Server::tonic(server.add_service(Served(Greeter(probe.clone())))).await
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Calls `/test.Greeter/Say`, with a `grpc-timeout` if there is one.
pub(crate) async fn say(channel: Channel, timeout: Option<Duration>) -> Result<String, Status> {
    call(channel, SAY, &[], timeout).await
}

/// Calls a method that answers once, with metadata. Starts when it is polled.
pub(crate) fn call(
    channel: Channel,
    method: &'static str,
    metadata: &[(&'static str, &str)],
    timeout: Option<Duration>,
) -> impl Future<Output = Result<String, Status>> + Send + use<> {
    let mut request = tonic::Request::new("hello".to_owned());
    for &(name, value) in metadata {
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    async move {
        let mut client = GrpcClient::new(channel);
        client.ready().await.unwrap();
        let response = client.unary(request, PathAndQuery::from_static(method), Codec::default()).await?;
        Ok(response.into_inner())
    }
}

/// Calls `/test.Greeter/Overload` and reads the stream to its end.
pub(crate) async fn overload(channel: Channel) -> Code {
    let mut client = GrpcClient::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Greeter/Overload");
    let request = tonic::Request::new("hello".to_owned());
    let mut stream = client.server_streaming(request, path, Codec::default()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().as_deref(), Some("one"));
    stream.message().await.unwrap_err().code()
}

/// Opens a connection, calls `/test.Greeter/Say` once, and closes it. Answers 200 for OK, to be compared with HTTP.
pub(crate) async fn say_once(address: SocketAddr) -> u16 {
    match say(connect(address).await, None).await {
        Ok(_) => 200,
        Err(status) => panic!("{status}"),
    }
}
