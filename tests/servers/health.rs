//! A gRPC health service beside a handle that leaves.

use std::time::Duration;

use admission_testkit::{Mood, Moody};
use tonic::transport::Server as Tonic;
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_check_response::ServingStatus as Told, health_client::HealthClient},
};
use tower_admission::{
    Admission, AdmissionLayer, ClassLimits, DrainMode, Reason, Rules, Ticket, classify::RequestHead, limit::Fixed,
};

use crate::support::{Server, bounded, grpc::connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_so_as_soon_as_the_handle_leaves_or_drains() {
    for drains in [false, true] {
        // The handle drains long after it leaves.
        let admission =
            Admission::builder().limit(Fixed::new(9)).drain_after(Duration::from_secs(600)).build().unwrap();
        let (reporter, service) = tonic_health::server::health_reporter();
        let leaving = admission.clone();
        let tie = tokio::spawn(async move {
            leaving.leaving().await;
            reporter.set_service_status("", ServingStatus::NotServing).await;
        });
        // The control: a health service without a tie.
        let (_reporter, untied) = tonic_health::server::health_reporter();
        let exempt = |head: &RequestHead<'_>| head.uri().path().starts_with("/grpc.health.v1.Health/");
        let layer = AdmissionLayer::new(&admission).exempt(exempt);
        let server = Server::tonic(Tonic::builder().layer(layer.clone()).add_service(service)).await;
        let control = Server::tonic(Tonic::builder().layer(layer).add_service(untied)).await;
        let mut health = HealthClient::new(connect(server.address).await);
        let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        let first = bounded("the first status", watched.message()).await.unwrap().unwrap();
        assert_eq!(first.status(), Told::Serving);
        if drains {
            admission.drain(DrainMode::RejectWaiting);
        } else {
            drop(admission.leave(DrainMode::ServeWaiting));
        }
        let next = bounded("the next status", watched.message()).await.unwrap().unwrap();
        assert_eq!(next.status(), Told::NotServing, "drains: {drains}");
        let mut untied = HealthClient::new(connect(control.address).await);
        assert_eq!(untied.check(HealthCheckRequest::default()).await.unwrap().into_inner().status(), Told::Serving);
        bounded("the tie", tie).await.unwrap();
        // It left already: nothing is waited for.
        bounded("it left", admission.leaving()).await;
        drop(watched);
        server.stop().await;
        control.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_gone_changes_nothing_of_it() {
    let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(2));
    let store = Moody::new();
    let admission = store.shared_by(Admission::builder().limit(Fixed::new(9)).rules(rules)).build().unwrap();
    let (reporter, service) = tonic_health::server::health_reporter();
    let leaving = admission.clone();
    tokio::spawn(async move {
        leaving.leaving().await;
        reporter.set_service_status("", ServingStatus::NotServing).await;
    });
    let server = Server::tonic(Tonic::builder().add_service(service)).await;
    let mut health = HealthClient::new(connect(server.address).await);
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), Told::Serving);
    drop(admission.admit(Ticket::new()).await.unwrap());
    store.is(Mood::Failing);
    let refused = admission.admit(Ticket::new()).await.unwrap_err();
    assert_eq!((refused.reason(), admission.is_ready()), (Reason::StoreUnavailable, true));
    assert_eq!(health.check(HealthCheckRequest::default()).await.unwrap().into_inner().status(), Told::Serving);
    admission.drain(DrainMode::RejectWaiting);
    let next = bounded("the next status", watched.message()).await.unwrap().unwrap();
    assert_eq!(next.status(), Told::NotServing, "the first change");
    drop((health, watched));
    server.stop().await;
}
