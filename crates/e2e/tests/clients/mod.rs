//! Clients of others: what they make of a refusal, and of a report of the load.

mod curl;
mod grpcio;
mod http;
mod openai;
mod orca;
mod otlp;
mod python;
mod reqwest;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ::http::{Request, Response};
use tokio::net::TcpListener;
use tonic::{
    body::Body,
    server::NamedService,
    transport::server::{Server, TcpIncoming},
};
use tower::{Service, ServiceBuilder};
use tower_admission::{Admission, AdmissionLayer};

/// Serves under admission control, until the test ends. Returns where, and the number of requests that came.
async fn serve<S>(admission: &Admission, service: S, with_details: bool) -> (SocketAddr, Arc<AtomicU64>)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = std::convert::Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counts = Arc::clone(&came);
    let layer = ServiceBuilder::new()
        .map_request(move |request: Request<Body>| {
            counts.fetch_add(1, Ordering::SeqCst);
            request
        })
        .map_response(move |mut response: Response<_>| {
            if !with_details {
                response.headers_mut().remove("grpc-status-details-bin");
            }
            response
        })
        .layer(AdmissionLayer::new(admission))
        .into_inner();
    let server = Server::builder().layer(layer).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    (address, came)
}
