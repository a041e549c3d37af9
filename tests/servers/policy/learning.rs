//! What moves an adaptive limit on a server, and what must not.

use std::{convert::Infallible, time::Duration};

use admission_testkit::grpc::Served;
use axum::{
    Router,
    http::StatusCode,
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tower::util::MapRequestLayer;
use tower_admission::{
    Admission, AdmissionLayer, Rejection, Ticket,
    classify::RequestHead,
    limit::{Aimd, Fixed, Limit},
    policy::{Policy, SampleAt},
};

use crate::support::{Client, Greeter, Probe, Server, Version, bounded, client, eventually, grpc, is_idle};

const LIMIT: usize = 20;

/// Each sample that is slow or an overload lowers the limit; none can raise it.
fn adaptive(threshold: Duration) -> Admission {
    let law = Limit::per_sample(Aimd::new(threshold).initial(LIMIT).max(LIMIT));
    Admission::builder().limit(law).queue(100).build().unwrap()
}

/// No request is this slow.
const NEVER: Duration = Duration::from_secs(600);

/// Ten uploads at once whose bodies trickle; answers the limit afterwards.
async fn limit_after_slow_uploads(policy: Option<Policy>) -> usize {
    let admission = adaptive(Duration::from_millis(5));
    let app = Router::new().route("/", post(async |body: Bytes| body.len().to_string()));
    let policy = MapRequestLayer::new(move |mut request: Request<axum::body::Body>| {
        policy.map(|policy| request.extensions_mut().insert(policy));
        request
    });
    let server = Server::axum(app.layer(AdmissionLayer::new(&admission)).layer(policy)).await;
    let address = server.address;
    let uploads = (0..10).map(|_| {
        tokio::spawn(async move {
            let (sender, pieces) = mpsc::channel::<Bytes>(1);
            let body =
                StreamBody::new(ReceiverStream::new(pieces).map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
            let mut request = client::get("/");
            *request.method_mut() = Method::POST;
            *request.body_mut() = body.boxed_unsync();
            tokio::spawn(async move {
                for _ in 0..5 {
                    sleep(Duration::from_millis(10)).await;
                    if sender.send(Bytes::from_static(b"piece")).await.is_err() {
                        return;
                    }
                }
            });
            let mut client = Client::connect(address, Version::H1).await;
            assert_eq!(client.answer(request).await.body(), "25");
        })
    });
    for upload in bounded("the uploads", join_all(uploads)).await {
        upload.unwrap();
    }
    eventually("all is given back", || is_idle(&admission.snapshot())).await;
    assert_eq!(admission.snapshot().admitted(), 10);
    server.stop().await;
    admission.snapshot().limit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_uploads_are_no_congestion() {
    assert_eq!(limit_after_slow_uploads(None).await, LIMIT);
}

/// The control: what would happen if the time of uploads were learned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_uploads_collapse_the_limit_where_a_policy_says_to_learn_from_them() {
    assert!(limit_after_slow_uploads(Some(Policy::new().sample_at(SampleAt::ResponseHead))).await <= LIMIT / 2);
}

/// Ten requests to a server with this app, one after the other; all are answered with 503.
async fn ten_unavailable(app: Router) {
    let server = Server::axum(app).await;
    let mut client = Client::connect(server.address, Version::H1).await;
    for _ in 0..10 {
        assert_eq!(client.answer(client::get("/")).await.status(), 503);
    }
    drop(client);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_of_a_handle_within_are_not_learned_as_overloads() {
    let own_answer = |_: &Rejection, _: &RequestHead<'_>| {
        Some(http::Response::builder().status(StatusCode::SERVICE_UNAVAILABLE).body(Bytes::new()).unwrap())
    };
    for answers_itself in [false, true] {
        let (outer, inner) = (adaptive(NEVER), Admission::builder().limit(Fixed::new(1)).shed().build().unwrap());
        let held = inner.try_admit(Ticket::new()).unwrap();
        let within = AdmissionLayer::new(&inner);
        let within = if answers_itself { within.respond(own_answer) } else { within };
        let app = Router::new().route("/", get(async || "done"));
        ten_unavailable(app.layer(within).layer(AdmissionLayer::new(&outer))).await;
        let snapshot = outer.snapshot();
        assert_eq!((snapshot.limit, snapshot.partitions[0].overloads), (LIMIT, 0));
        assert_eq!(snapshot.partitions[0].ignored, 10);
        assert_eq!(inner.snapshot().rejected(), 10);
        drop(held);
    }
}

/// The same for gRPC, whose rejections say RESOURCE_EXHAUSTED.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_of_a_handle_within_are_not_learned_as_overloads_in_grpc_either() {
    let (outer, inner) = (adaptive(NEVER), Admission::builder().limit(Fixed::new(1)).shed().build().unwrap());
    let held = inner.try_admit(Ticket::new()).unwrap();
    let mut server =
        tonic::transport::Server::builder().layer(AdmissionLayer::new(&outer)).layer(AdmissionLayer::new(&inner));
    let server = Server::tonic(server.add_service(Served(Greeter(Probe::open())))).await;
    let channel = grpc::connect(server.address).await;
    for _ in 0..10 {
        grpc::say(channel.clone(), None).await.unwrap_err();
    }
    assert_eq!((outer.snapshot().limit, inner.snapshot().rejected()), (LIMIT, 10));
    drop((held, channel));
    server.stop().await;
}

/// The control: the same answer from the service itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overloads_of_the_service_itself_lower_the_limit() {
    let outer = adaptive(NEVER);
    let app = Router::new().route("/", get(async || StatusCode::SERVICE_UNAVAILABLE));
    ten_unavailable(app.layer(AdmissionLayer::new(&outer))).await;
    assert!(outer.snapshot().limit < LIMIT);
    assert_eq!(outer.snapshot().partitions[0].overloads, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overload_that_shows_only_in_the_trailers_lowers_the_limit() {
    let admission = adaptive(NEVER);
    let server = grpc::serve(AdmissionLayer::new(&admission), &Probe::open()).await;
    let channel = grpc::connect(server.address).await;
    for _ in 0..10 {
        grpc::say(channel.clone(), None).await.unwrap();
    }
    assert_eq!(admission.snapshot().limit, LIMIT, "the control: calls that go well");
    for _ in 0..10 {
        assert_eq!(grpc::overload(channel.clone()).await, tonic::Code::ResourceExhausted);
    }
    eventually("all is given back", || is_idle(&admission.snapshot())).await;
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.partitions[0].successes, snapshot.partitions[0].late_overloads), (20, 10));
    assert!(snapshot.limit <= LIMIT / 2, "{}", snapshot.limit);
    drop(channel);
    server.stop().await;
}
