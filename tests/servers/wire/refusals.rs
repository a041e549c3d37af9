//! What holds for all refusals, and for requests that are too late when they come.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use tower::{Layer, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Cap, ClassLimits, DrainMode, Rules, Ticket, WhenFull, limit::Fixed, response::Rejections,
};

use super::full;
use crate::support::{Client, H1, H2, Probe, Server, Version, client::get};

/// Sends one request to a server with this layer whose requests are counted by the probe.
async fn answer(
    layer: &AdmissionLayer,
    probe: &Probe,
    version: Version,
    (method, headers): (Method, &[(&'static str, &str)]),
) -> Response<Bytes> {
    let probe = probe.clone();
    let service = service_fn(move |_: Request<hyper::body::Incoming>| {
        drop(probe.enter());
        async { Ok::<_, Infallible>(Response::new("done".to_owned())) }
    });
    let server = Server::hyper(layer.layer(service)).await;
    let mut request = get("/test.Greeter/Say");
    *request.method_mut() = method;
    for &(name, value) in headers {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = Client::connect(server.address, version).await.answer(request).await;
    server.stop().await;
    answer
}

fn is_kept_out_of_caches(headers: &HeaderMap) -> bool {
    let values: Vec<_> = headers.get_all(header::CACHE_CONTROL).iter().collect();
    values == ["no-store"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_post_is_answered_as_grpc() {
    let layer = AdmissionLayer::new(&full());
    let grpc: &[_] = &[("content-type", "application/grpc")];
    for version in [H1, H2] {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
            let answer = answer(&layer, &Probe::open(), version, (method.clone(), grpc)).await;
            assert_eq!(answer.status(), 503, "{method} {version:?}");
            assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json", "{method}");
            assert!(is_kept_out_of_caches(answer.headers()), "{method}: {:?}", answer.headers());
            assert!(!answer.headers().contains_key("grpc-status"), "{method}");
            assert_eq!(answer.body().is_empty(), method == Method::HEAD, "{method}");
        }
        let call = answer(&layer, &Probe::open(), version, (Method::POST, grpc)).await;
        assert_eq!((call.status().as_u16(), &call.headers()["grpc-status"]), (200, &"8".parse().unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_refused_is_kept_out_of_caches_and_says_nothing_of_the_request() {
    let nothing = ClassLimits::new().max_in_flight(Cap::from(1).when_full(WhenFull::RespondEmpty));
    let empty = Admission::builder().rules(Rules::new().default_limits(nothing)).build().unwrap();
    let permit = empty.try_admit(Ticket::new()).unwrap();
    let draining = Admission::builder().build().unwrap();
    draining.drain(DrainMode::RejectWaiting);
    let teapot = |with: &'static str| {
        AdmissionLayer::new(&full()).respond(move |_, _| {
            let teapot = Response::builder().status(418);
            let teapot = if with.is_empty() { teapot } else { teapot.header(header::CACHE_CONTROL, with) };
            Some(teapot.body(Bytes::new()).unwrap())
        })
    };
    let cases = [
        (AdmissionLayer::new(&full()), 503),
        (AdmissionLayer::new(&full()).rejections(Rejections::new().bare()), 503),
        (AdmissionLayer::new(&empty), 204),
        (AdmissionLayer::new(&empty).rejections(Rejections::new().bare()), 204),
        (AdmissionLayer::new(&draining), 503),
        (teapot(""), 418),
        (teapot("no-store"), 418),
    ];
    let sent =
        [("content-type", "application/grpc"), ("cache-control", "max-age=9"), ("cookie", "id=7"), ("x-own", "")];
    for (layer, status) in cases {
        for version in [H1, H2] {
            let get = answer(&layer, &Probe::open(), version, (Method::GET, &sent)).await;
            assert_eq!(get.status(), status);
            let call = answer(&layer, &Probe::open(), version, (Method::POST, &sent)).await;
            assert!(call.headers().contains_key("grpc-status"), "{status}: an answer of HTTP to gRPC: {call:?}");
            for headers in [get.headers(), call.headers()] {
                assert!(is_kept_out_of_caches(headers), "{status}: {headers:?}");
                assert!(!["cookie", "x-own"].iter().any(|sent| headers.contains_key(*sent)), "{status}: {headers:?}");
            }
            assert_ne!(get.headers().get(header::CONTENT_TYPE), Some(&"application/grpc".parse().unwrap()), "{status}");
        }
    }
    // An answer that says how it is to be stored is left as it is.
    let own = answer(&teapot("max-age=1"), &Probe::open(), H1, (Method::GET, &[])).await;
    assert_eq!(own.headers()[header::CACHE_CONTROL], "max-age=1");
    drop(permit);
}

fn with_timeout(admission: &Admission) -> AdmissionLayer {
    AdmissionLayer::new(admission).deadline_header("x-timeout".parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_late_when_it_comes_is_not_served() {
    let idle = Admission::builder().limit(Fixed::new(10)).queue(10).build().unwrap();
    for (admission, version) in [(&idle, H1), (&idle, H2), (&full(), H1)] {
        let layer = with_timeout(admission);
        for timeout in ["-1", " -1 ", "-0.001", "0", "-0", "-inf", "-1e300"] {
            let probe = Probe::open();
            let answer = answer(&layer, &probe, version, (Method::GET, &[("x-timeout", timeout)])).await;
            assert_eq!((answer.status().as_u16(), probe.started()), (503, 0), "{timeout:?}");
            let problem: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!(problem["reason"], "deadline", "{timeout:?}");
        }
        for timeout in ["0S", "0n", "00000000H", "-1S", "-99999999m"] {
            let probe = Probe::open();
            let headers: &[_] = &[("content-type", "application/grpc"), ("grpc-timeout", timeout)];
            let answer = answer(&layer, &probe, version, (Method::POST, headers)).await;
            assert_eq!((&answer.headers()["grpc-status"], probe.started()), (&"4".parse().unwrap(), 0), "{timeout:?}");
            let message = answer.headers()["grpc-message"].to_str().unwrap();
            assert!(message.starts_with("deadline: "), "{message}");
        }
    }
    assert_eq!(idle.snapshot().admitted(), 0);
}

/// The control: what is not a number, or is far away, is no deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_time_limit_keeps_nobody_out() {
    let layer = with_timeout(&Admission::builder().build().unwrap());
    for timeout in ["", "soon", "NaN", "-NaN", "-", "inf", "1e300", "30", "0.5"] {
        let answer = answer(&layer, &Probe::open(), H1, (Method::GET, &[("x-timeout", timeout)])).await;
        assert_eq!(answer.status(), 200, "{timeout:?}");
    }
    for timeout in ["-S", "-", "--1S", "-1", "1.5S"] {
        let answer = answer(&layer, &Probe::open(), H1, (Method::POST, &[("grpc-timeout", timeout)])).await;
        assert_eq!(answer.status(), 200, "{timeout:?}");
    }
}
