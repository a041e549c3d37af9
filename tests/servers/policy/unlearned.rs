//! A policy that forbids learning holds for every way in which a request can end.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::task::yield_now;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer,
    limit::{Aimd, Limit},
    policy::{Policy, ReleaseAt, SampleAt},
};

use crate::support::{Client, Server, Version, bounded, client, eventually, is_idle};

const LIMIT: usize = 200;

/// Each sample lowers the limit: all are slower than this.
fn adaptive() -> Admission {
    let law = Limit::per_sample(Aimd::new(Duration::from_nanos(1)).initial(LIMIT).max(LIMIT));
    Admission::builder().limit(law).build().unwrap()
}

/// How a request ends without a head, or after one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The client leaves before the service answers.
    Leaves,
    /// The same, while the service is not ready yet.
    LeavesEarly,
    ServiceFails,
    NeverReady,
    ServicePanics,
    /// The body is dropped before its end.
    BodyDropped,
    BodyFails,
}

const ENDS: [End; 7] = [
    End::Leaves,
    End::LeavesEarly,
    End::ServiceFails,
    End::NeverReady,
    End::ServicePanics,
    End::BodyDropped,
    End::BodyFails,
];

#[derive(Clone)]
struct Ending(End);

type Failing = http_body_util::combinators::UnsyncBoxBody<Bytes, &'static str>;

impl Service<Request<Full<Bytes>>> for Ending {
    type Response = Response<Failing>;
    type Error = &'static str;
    type Future = futures_util::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        match self.0 {
            End::LeavesEarly => std::task::Poll::Pending,
            End::NeverReady => std::task::Poll::Ready(Err("never ready")),
            _ => std::task::Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        let end = self.0;
        Box::pin(async move {
            yield_now().await;
            match end {
                End::Leaves => std::future::pending().await,
                End::ServiceFails => Err("it failed"),
                End::ServicePanics => panic!("it panicked"),
                _ => {
                    let first = Ok(Frame::data(Bytes::from_static(b"a piece")));
                    let more = Frame::data(Bytes::from_static(b"another"));
                    let second = if end == End::BodyFails { Err("it broke") } else { Ok(more) };
                    let frames = futures_util::stream::iter([first, second]);
                    Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
                }
            }
        })
    }
}

/// The limit after ten requests that end in this way under this policy.
async fn limit_after(end: End, policy: Policy) -> usize {
    let admission = adaptive();
    let service = AdmissionLayer::new(&admission).policy(policy).layer(Ending(end));
    for _ in 0..10 {
        let request = service.clone().oneshot(Request::new(Full::default()));
        match end {
            End::Leaves | End::LeavesEarly => {
                let request = tokio::spawn(request);
                eventually("it runs", || admission.snapshot().in_flight == 1).await;
                yield_now().await;
                request.abort();
                drop(request.await);
            }
            End::ServicePanics => drop(tokio::spawn(request).await.unwrap_err()),
            End::BodyDropped => drop(request.await.unwrap().into_body().frame().await),
            End::BodyFails => drop(request.await.unwrap().into_body().collect().await.unwrap_err()),
            End::ServiceFails | End::NeverReady => drop(request.await.unwrap_err()),
        }
    }
    let snapshot = admission.snapshot();
    assert!(is_idle(&snapshot), "{end:?}: {snapshot:?}");
    assert_eq!(snapshot.admitted(), 10, "{end:?}");
    snapshot.limit
}

#[tokio::test]
async fn nothing_is_learned_however_a_request_ends_where_a_policy_says_so() {
    for end in ENDS {
        for learn in [SampleAt::Never, SampleAt::OverloadOnly] {
            let limit = limit_after(end, Policy::new().sample_at(learn)).await;
            assert_eq!(limit, LIMIT, "{end:?} under {learn:?}");
        }
        // The control: the same is learned from where nothing forbids it. A panic is never learned from.
        let limit = limit_after(end, Policy::new().sample_at(SampleAt::BodyEnd)).await;
        assert_eq!(limit == LIMIT, end == End::ServicePanics, "{end:?}: the control ends at {limit}");
    }
}

/// The head has said that it was an overload: that its body was dropped does not make it anything else.
#[tokio::test]
async fn what_the_head_says_counts_although_the_body_is_dropped() {
    for (status, overloads, ignored) in [(503, 1, 0), (500, 0, 1)] {
        let admission = adaptive();
        let answer = service_fn(move |_: Request<Full<Bytes>>| async move {
            let body = Full::new(Bytes::from_static(b"why"));
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        });
        let policy = Policy::new().sample_at(SampleAt::BodyEnd).release_at(ReleaseAt::BodyEnd);
        let service = AdmissionLayer::new(&admission).policy(policy).layer(answer);
        drop(service.oneshot(Request::new(Full::default())).await.unwrap());
        let counts = &admission.snapshot().partitions[0];
        assert_eq!((counts.overloads, counts.ignored, counts.cancelled), (overloads, ignored, 0), "{status}");
    }
}

/// A real server: long polls whose clients hang up, and uploads of unknown length whose clients do.
async fn limit_after_hang_ups(learn: Option<SampleAt>, uploads: bool) -> usize {
    let admission = adaptive();
    let layer = AdmissionLayer::new(&admission);
    let layer = learn.into_iter().fold(layer, |layer, learn| layer.policy(Policy::new().sample_at(learn)));
    let app = axum::Router::new()
        .route("/", axum::routing::get(std::future::pending::<()>))
        .route("/", axum::routing::post(async |body: Bytes| body.len().to_string()));
    let server = Server::axum(app.layer(layer)).await;
    for _ in 0..10 {
        let mut request = client::get("/");
        if uploads {
            *request.method_mut() = Method::POST;
            let piece = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"piece")));
            let pieces = futures_util::stream::iter([piece]);
            let endless = StreamBody::new(futures_util::StreamExt::chain(pieces, futures_util::stream::pending()));
            *request.body_mut() = endless.boxed_unsync();
        }
        let mut client = Client::connect(server.address, Version::H2).await;
        let mut answer = Box::pin(client.send(request));
        bounded("it runs", async {
            while admission.snapshot().in_flight == 0 {
                assert!(answer.as_mut().now_or_never().is_none(), "there is no answer");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        drop(answer);
        client.kill();
        eventually("the slot is given back", || is_idle(&admission.snapshot())).await;
    }
    assert_eq!(admission.snapshot().admitted(), 10);
    server.stop().await;
    admission.snapshot().limit
}

#[tokio::test]
async fn long_polls_and_uploads_whose_clients_hang_up_leave_the_limit_alone() {
    assert_eq!(limit_after_hang_ups(Some(SampleAt::Never), false).await, LIMIT, "long polls under SampleAt::Never");
    assert_eq!(
        limit_after_hang_ups(Some(SampleAt::OverloadOnly), false).await,
        LIMIT,
        "long polls under SampleAt::OverloadOnly"
    );
    assert_eq!(limit_after_hang_ups(None, true).await, LIMIT, "uploads of unknown length");
    // The controls: the time that their clients waited is learned.
    assert!(limit_after_hang_ups(None, false).await < LIMIT / 2);
    assert!(limit_after_hang_ups(Some(SampleAt::BodyEnd), false).await < LIMIT / 2);
}
