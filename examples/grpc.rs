//! A tonic server that runs one call at a time, and what a client sees of that.
//!
//! ```text
//! cargo run --release --example grpc
//! ```

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Code, Request,
    transport::{Endpoint, Server},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower_admission::{
    Admission, AdmissionLayer,
    classify::{by_grpc_service, by_header},
    limit::Fixed,
    percent,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let admission = Admission::builder()
        .limit(Fixed::new(1))
        .shed()
        .partition("checkout", percent(60))
        .partition("grpc.health.v1.Health", percent(20))
        .build()?;
    // By the metadata `x-tenant`; calls without it by their service.
    let layer = AdmissionLayer::new(&admission).classify(by_header("x-tenant").or(by_grpc_service()));

    // The health service stands for one of yours. In earnest it would be exempt: see `AdmissionLayer::exempt`.
    let (_reporter, service) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming));

    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    let call = || {
        let mut request = Request::new(HealthCheckRequest::default());
        request.metadata_mut().insert("x-tenant", "checkout".parse()?);
        Ok::<_, tonic::metadata::errors::InvalidMetadataValue>(request)
    };

    // A stream holds its slot while it is open, and there is one slot.
    let watch = client.watch(call()?).await?;
    match client.check(call()?).await {
        Ok(_) => return Err("the second call was admitted at a limit of 1".into()),
        Err(status) => {
            assert_eq!(status.code(), Code::ResourceExhausted);
            println!("{:?}: {}", status.code(), status.message());
            println!("grpc-retry-pushback-ms: {:?}", status.metadata().get("grpc-retry-pushback-ms"));
            // `tonic_types::StatusExt::get_details_retry_info` reads it.
            let has_retry_info = String::from_utf8_lossy(status.details()).contains("google.rpc.RetryInfo");
            println!("details: {} bytes, with google.rpc.RetryInfo: {has_retry_info}", status.details().len());
        }
    }
    drop(watch);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    println!("and when the stream has ended: {:?}", client.check(call()?).await?.into_inner());
    println!("refused so far: {}", admission.snapshot().rejected());
    Ok(())
}
