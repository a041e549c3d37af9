//! Streams that send nothing for a while, in front of hyper: whether they leave calls a slot.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use tower::{ServiceBuilder, service_fn};
use tower_admission::{
    Admission, AdmissionLayer,
    limit::TwoPoint,
    policy::{Policy, SampleAt},
};

use crate::support::{Client, Probe, Server, Version, at_rest, bounded, eventually_async, get_once};

const LIMIT: usize = 4;
const PATIENCE: Duration = Duration::from_millis(300);

/// As many subscriptions as there are slots, each with an event and nothing after it. Returns whether a call is answered beside them
/// within ten times as long as callers wait. While no stream outlasts them none is, as the control shows.
async fn is_served_beside(version: Version, sample_at: SampleAt) -> bool {
    let law = TwoPoint::new().initial(LIMIT).max(LIMIT * 4);
    let (admission, probe) = (Admission::builder().patience(PATIENCE).limit(law).build().unwrap(), Probe::open());
    let handler = service_fn(|request: Request<Incoming>| async move {
        let events = if request.uri().path() == "/events" { usize::MAX } else { 0 };
        let event = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"event")))]);
        Ok::<_, Infallible>(Response::new(StreamBody::new(event.chain(stream::pending().take(events)))))
    });
    let layer = AdmissionLayer::new(&admission).policy(Policy::new().sample_at(sample_at));
    let server = Server::hyper(ServiceBuilder::new().layer(probe.arrivals()).layer(layer).service(handler)).await;
    let mut readers = Vec::new();
    for _ in 0..LIMIT {
        let mut client = Client::connect(server.address, version).await;
        let answer = bounded("the head", client.get("/events")).await.unwrap();
        assert_eq!(answer.status(), 200);
        readers.push((client, answer));
    }
    let served =
        eventually_async("a call is served", async || get_once(server.address, version, "/".to_owned()).await == 200);
    let is_served = tokio::time::timeout(PATIENCE * 10, served).await.is_ok();
    assert_eq!(admission.snapshot().in_flight, LIMIT, "no stream was ended for that");
    drop(readers);
    at_rest(&admission, &probe).await;
    server.stop().await;
    is_served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_streams_leave_calls_a_slot_once_they_outlast_the_patience_of_callers() {
    for version in [Version::H1, Version::H2] {
        assert!(is_served_beside(version, SampleAt::BodyEndOrDeadline).await, "{version:?}");
        assert!(!is_served_beside(version, SampleAt::ResponseHead).await, "{version:?}: the control");
    }
}
