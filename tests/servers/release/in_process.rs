//! Without a network: whoever calls may keep what is left of a response, and the slot is free all the same.

use std::{
    future::{Future, Ready},
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tower_admission::{AdmissionLayer, AdmissionService, response::AdmissionBody};
use tower_http::timeout::TimeoutLayer;

use super::{ATTEMPTS, LIMIT, all_is_given_back, eight_run};
use crate::support::{Counting, Ends, Failure, Probe, Script, bounded, poll_once};

type Limited = Counting<AdmissionService<Ends>>;
type Answer = Response<AdmissionBody<Script>>;

/// Takes one way a thousand times at once. What the attempts return is kept until after the check.
async fn a_thousand<K, F>(way: &str, attempt: impl Fn(Limited, Ends, usize) -> F)
where
    F: Future<Output = K> + Send + 'static,
    K: Send + 'static,
{
    let (admission, probe) = (eight_run(), Probe::open());
    let ends = Ends::new(&probe);
    let service = probe.arrivals().layer(AdmissionLayer::new(&admission).layer(ends.clone()));
    let attempts = (0..ATTEMPTS).map(|number| tokio::spawn(attempt(service.clone(), ends.clone(), number)));
    let kept: Vec<_> = bounded(way, join_all(attempts)).await.into_iter().map(Result::unwrap).collect();
    all_is_given_back(way, &admission, &probe).await;
    drop(kept);
}

fn request(method: Method, path: &str) -> Request<String> {
    Request::builder().method(method).uri(path).body(String::new()).unwrap()
}

async fn get(service: Limited, path: &str) -> Answer {
    service.oneshot(request(Method::GET, path)).await.unwrap()
}

/// Reads until `None`.
async fn read(mut answer: Answer) -> Answer {
    while let Some(frame) = answer.frame().await {
        frame.unwrap();
    }
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_was_read_to_its_end_holds_nothing() {
    a_thousand("end of body", async |service, _, _| read(get(service, "/data").await).await).await;
    a_thousand("empty body", async |service, _, _| read(get(service, "/empty").await).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_dropped_at_its_announced_length_holds_nothing() {
    a_thousand("content length", async |service, _, _| {
        let mut answer = get(service, "/length").await;
        while answer.body().size_hint().exact() != Some(0) {
            answer.frame().await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_says_it_has_ended_holds_nothing_although_it_was_not_read_to_none() {
    a_thousand("is_end_stream", async |service, _, _| {
        let mut answer = get(service, "/end-stream").await;
        while !answer.body().is_end_stream() {
            answer.frame().await.unwrap().unwrap();
        }
        answer
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_trailers_are_out_holds_nothing() {
    a_thousand("trailers", async |service, _, _| {
        let mut answer = get(service, "/trailers").await;
        while !answer.frame().await.unwrap().unwrap().is_trailers() {}
        answer
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_whose_body_nobody_reads_hold_nothing() {
    a_thousand("HEAD", async |service, _, _| drop(service.oneshot(request(Method::HEAD, "/data")).await)).await;
    a_thousand("204", async |service, _, _| get(service, "/no-content").await).await;
    a_thousand("304", async |service, _, _| drop(get(service, "/not-modified").await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_service_passes_and_holds_nothing() {
    a_thousand("inner error", async |service, _, _| {
        let Err(Failure) = service.oneshot(request(Method::GET, "/error")).await else { panic!("no error") };
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_fails_to_get_ready_holds_nothing() {
    #[derive(Clone)]
    struct Unready;

    impl Service<Request<String>> for Unready {
        type Response = Response<Script>;
        type Error = Failure;
        type Future = Ready<Result<Response<Script>, Failure>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
            Poll::Ready(Err(Failure))
        }

        fn call(&mut self, _: Request<String>) -> Self::Future {
            unreachable!("it was never ready")
        }
    }

    let (admission, probe) = (eight_run(), Probe::open());
    let service = probe.arrivals().layer(AdmissionLayer::new(&admission).layer(Unready));
    let attempts = (0..ATTEMPTS).map(|_| service.clone().oneshot(request(Method::GET, "/")));
    assert!(join_all(attempts).await.iter().all(Result::is_err));
    all_is_given_back("poll_ready error", &admission, &probe).await;
    assert_eq!(probe.started(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_is_dropped_before_the_head_holds_nothing() {
    a_thousand("dropped before the head", async |service, ends, number| {
        let (path, meeting) = ends.meet(number);
        tokio::select! {
            _ = get(service, &path) => panic!("it was answered"),
            reached = meeting => reached.unwrap(),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_holds_nothing() {
    // Both where the panic is caught and where it ends the task.
    a_thousand("panic in call, caught", async |mut service, _, _| {
        let call = AssertUnwindSafe(|| service.call(request(Method::GET, "/call-panic")));
        // A request that has to wait is called by the future.
        let Ok(future) = catch_unwind(call) else { return };
        assert!(AssertUnwindSafe(future).catch_unwind().await.is_err());
    })
    .await;
    a_thousand("panic in poll, caught", async |service, _, _| {
        assert!(AssertUnwindSafe(get(service, "/poll-panic")).catch_unwind().await.is_err());
    })
    .await;
    for path in ["/call-panic", "/poll-panic"] {
        a_thousand("panic that ends the task", move |service, _, _| async move {
            assert!(tokio::spawn(get(service, path)).await.unwrap_err().is_panic());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_panics_holds_nothing() {
    a_thousand("panic in a body", async |service, _, _| {
        let answer = get(service, "/body-panic").await;
        assert!(tokio::spawn(read(answer)).await.unwrap_err().is_panic());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_failed_holds_nothing() {
    a_thousand("body error", async |service, _, _| {
        let mut answer = get(service, "/body-error").await;
        while answer.frame().await.unwrap().is_ok() {}
        answer
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_dropped_midway_holds_nothing() {
    a_thousand("dropped midway", async |service, _, _| {
        let mut answer = get(service, "/endless").await;
        answer.frame().await.unwrap().unwrap();
        assert!(poll_once(&mut answer.frame()).await.is_pending());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_upgraded_holds_nothing() {
    a_thousand("101", async |service, _, _| get(service, "/upgrade").await).await;
    a_thousand("CONNECT", async |service, _, _| {
        service.oneshot(request(Method::CONNECT, "host.example:443")).await.unwrap()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_an_outer_layer_replaces_holds_nothing() {
    a_thousand("map_response", async |service, _, _| {
        let replace = |_: Answer| Response::new("something else");
        let replaced = ServiceExt::<Request<String>>::map_response(service, replace);
        replaced.oneshot(request(Method::GET, "/endless")).await.unwrap()
    })
    .await;
    a_thousand("body discarded", async |service, _, _| {
        get(service, "/endless").await.map(|_| AdmissionBody::<Script>::default())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_an_outer_layer_times_out_holds_nothing() {
    // No more at once than run, or most of them would be timed out in line.
    static TURNS: Semaphore = Semaphore::const_new(LIMIT);
    a_thousand("TimeoutLayer", async |service, _, _| {
        let _turn = TURNS.acquire().await.unwrap();
        let timeout = TimeoutLayer::with_status_code(http::StatusCode::GATEWAY_TIMEOUT, Duration::from_millis(5));
        let answer = ServiceBuilder::new().layer(timeout).service(service).oneshot(request(Method::GET, "/hang")).await;
        assert_eq!(answer.unwrap().status(), 504);
    })
    .await;
}
