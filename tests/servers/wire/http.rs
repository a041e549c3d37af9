//! HTTP/1 and HTTP/2, without gRPC.

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use std::time::Duration;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_admission::{
    Admission, AdmissionLayer, Cap, ClassLimits, Reason, Rejection, Rules, Ticket,
    classify::RequestHead,
    limit::Fixed,
    percent,
    response::{Grant, Rejections},
};

use super::{Full, full, is_caller_limit};
use crate::support::{Client, Ends, H1, H2, Outgoing, Probe, Server, Version, client::get, eventually};

fn request(path: &str, deadline: Option<&str>) -> Request<Outgoing> {
    let mut request = get(path);
    if let Some(deadline) = deadline {
        request.headers_mut().insert("x-deadline", deadline.parse().unwrap());
    }
    request
}

/// Sends one request to a server with this layer, and reads the answer.
async fn answer(layer: AdmissionLayer, version: Version, request: Request<Outgoing>) -> Response<Bytes> {
    let server = Ends::new(&Probe::open()).serve(layer).await;
    let answer = Client::connect(server.address, version).await.answer(request).await;
    server.stop().await;
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_is_told_why_and_when_to_come_back_for_each_reason() {
    for version in [H1, H2] {
        for reason in Reason::ALL {
            let full = Full::because_of(reason).await;
            let layer = AdmissionLayer::new(&full.admission)
                .classify(Full::classify)
                .rejections(Rejections::new().retry_after_millis())
                .deadline_header("x-deadline".parse().unwrap());
            let (head, body) = answer(layer, version, request("/", full.deadline)).await.into_parts();
            let status = if is_caller_limit(reason) { 429 } else { 503 };
            assert_eq!(head.status, status, "{reason}");
            let delays: Vec<_> = head.headers.get_all(header::RETRY_AFTER).iter().collect();
            let [delay] = delays[..] else { panic!("{reason}: {delays:?}") };
            assert!(delay.to_str().unwrap().parse::<u64>().unwrap() >= 1, "{reason}: {delay:?}");
            let millis = head.headers["retry-after-ms"].to_str().unwrap().parse::<u64>().unwrap();
            let seconds = delay.to_str().unwrap().parse::<u64>().unwrap();
            assert_eq!(millis.div_ceil(1_000), seconds, "{reason}: {millis} ms is the same, and more exact");
            assert_eq!(head.headers[header::CONTENT_TYPE], "application/problem+json", "{reason}");
            assert_eq!(head.headers[header::CACHE_CONTROL], "no-store", "{reason}");
            assert_eq!(head.headers[header::CONTENT_LENGTH], body.len().to_string(), "{reason}");
            let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(problem["reason"], reason.as_str());
            assert_eq!(problem["status"], status, "{reason}");
            for text in ["type", "title", "detail"] {
                assert!(!problem[text].as_str().unwrap().is_empty(), "{reason}: {problem}");
            }
            full.counted(reason).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_of_ones_own_replace_the_built_in_ones_where_there_is_one() {
    for version in [H1, H2] {
        let layer = AdmissionLayer::new(&full()).respond(|rejection, request| {
            let text = format!("{} for {}", rejection.reason(), request.uri().path());
            let teapot = Response::builder().status(StatusCode::IM_A_TEAPOT).header("x-own", "yes");
            (request.uri().path() != "/built-in").then(|| teapot.body(text).unwrap())
        });
        let own = answer(layer.clone(), version, request("/own", None)).await;
        assert_eq!(
            (own.status().as_u16(), &own.headers()["x-own"], &own.body()[..]),
            (418, &"yes".parse().unwrap(), &b"limit for /own"[..])
        );
        assert!(!own.headers().contains_key(header::RETRY_AFTER));
        let built_in = answer(layer, version, request("/built-in", None)).await;
        assert_eq!(built_in.status(), 503);
        assert!(built_in.headers().contains_key(header::RETRY_AFTER));
    }
}

/// What is not known at once is no answer: then the built-in one is sent, amended.
#[cfg(feature = "axum")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_what_into_response_gives_or_the_built_in_one_amended() {
    use std::io;

    use axum::{body::Body, response::IntoResponse};
    use futures_util::stream;
    use http::HeaderValue;
    for version in [H1, H2] {
        let layer = AdmissionLayer::new(&full()).respond(|_, request| {
            let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[0; 4_096])));
            Some(match request.uri().path() {
                "/json" => (StatusCode::IM_A_TEAPOT, axum::Json("busy")).into_response(),
                "/pending" => Response::new(Body::from_stream(stream::pending::<io::Result<Bytes>>())),
                "/endless" => Response::new(Body::from_stream(endless)),
                _ => return None,
            })
        });
        let layer = layer.amend(|rejection, answer| {
            answer.headers.insert("x-reason", HeaderValue::from_static(rejection.reason().as_str()));
        });
        let own = answer(layer.clone(), version, request("/json", None)).await;
        assert_eq!((own.status().as_u16(), &own.body()[..]), (418, &b"\"busy\""[..]));
        assert!(own.headers()[header::CONTENT_TYPE] == "application/json" && !own.headers().contains_key("x-reason"));
        for path in ["/pending", "/endless", "/built-in"] {
            let built_in = answer(layer.clone(), version, request(path, None)).await;
            assert!(built_in.status() == 503 && built_in.headers()["x-reason"] == "limit", "{path}: {built_in:?}");
            assert!(built_in.headers().contains_key(header::RETRY_AFTER), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_a_reason_can_be_changed_and_the_body_follows() {
    for version in [H1, H2] {
        let too_many = Rejections::new().status(Reason::Limit, StatusCode::TOO_MANY_REQUESTS);
        let answer = answer(AdmissionLayer::new(&full()).rejections(too_many), version, request("/", None)).await;
        assert_eq!(answer.status(), 429);
        let problem: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!((&problem["status"], &problem["reason"]), (&429.into(), &"limit".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overload_can_be_told_by_its_own_status_and_to_a_proxy() {
    let known = Rejections::new().overload_status(StatusCode::from_u16(529).unwrap()).envoy_overloaded();
    for (reason, status, is_overload) in
        [(Reason::Limit, 529, true), (Reason::PartitionCap, 429, false), (Reason::Draining, 503, false)]
    {
        let full = Full::because_of(reason).await;
        let layer = AdmissionLayer::new(&full.admission).classify(Full::classify);
        let plain = answer(layer.clone(), H1, request("/", None)).await;
        assert!(!plain.headers().contains_key("x-envoy-overloaded"), "{reason}");
        for rejections in [known.clone(), known.clone().bare()] {
            let answer = answer(layer.clone().rejections(rejections), H2, request("/", None)).await;
            assert_eq!(answer.status(), status, "{reason}");
            assert_eq!(
                answer.headers().get("x-envoy-overloaded").is_some_and(|it| it == "true"),
                is_overload,
                "{reason}"
            );
        }
    }
}

#[tokio::test]
async fn what_was_decided_is_left_in_extensions_where_it_is_asked_for() {
    let rules = Rules::new().default_limits(ClassLimits::new().max_in_flight(Cap::from(1).reject()));
    let admission = Admission::builder().limit(2).rules(rules).partition("shop", percent(50)).build().unwrap();
    let layer = |label: &'static str| {
        AdmissionLayer::new(&admission).classify(move |_: &RequestHead<'_>, ticket: &mut Ticket<'_>| {
            ticket.set_partition("shop");
            ticket.set_class("search");
            ticket.set_label(label);
        })
    };
    let ask = async |layer: AdmissionLayer| {
        let told = service_fn(async |request: Request<String>| {
            let mut response = Response::new(String::new());
            response.extensions_mut().extend(request.into_parts().0.extensions);
            Ok::<_, std::convert::Infallible>(response)
        });
        let answer = ServiceBuilder::new().layer(layer).service(told).oneshot(Request::new(String::new()));
        answer.await.unwrap().into_parts().0
    };
    let grant = ask(layer("a").annotate()).await.extensions.remove::<Grant>().unwrap();
    assert_eq!((grant.partition(), grant.class(), grant.label()), ("shop", Some("search"), Some("a")));
    assert_eq!(grant.waited(), Duration::ZERO);
    assert!(ask(layer("a")).await.extensions.get::<Grant>().is_none(), "it takes memory, so it was not asked for");

    let held = admission.try_admit(Ticket::new().label("a")).unwrap();
    let refused = ask(layer("a").annotate()).await;
    assert_eq!(refused.status, 429, "at once: the cap does not let it wait");
    assert_eq!(refused.extensions.get::<Rejection>().unwrap().reason(), Reason::LabelCap);
    assert!(ask(layer("a")).await.extensions.get::<Rejection>().is_none());

    let other = admission.try_admit(Ticket::new().label("b")).unwrap();
    let mut waiting = Box::pin(ask(layer("c").annotate()));
    assert!(tokio::time::timeout(Duration::from_millis(30), &mut waiting).await.is_err());
    drop((held, other));
    let waited = waiting.await.extensions.get::<Grant>().unwrap().waited();
    assert!(waited >= Duration::from_millis(30), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bare_rejections_have_a_status_and_one_header() {
    for version in [H1, H2] {
        let layer = AdmissionLayer::new(&full()).rejections(Rejections::new().bare());
        let answer = answer(layer, version, request("/", None)).await;
        assert_eq!((answer.status().as_u16(), answer.body().len()), (503, 0));
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
        for name in [header::RETRY_AFTER, header::CONTENT_TYPE] {
            assert!(!answer.headers().contains_key(&name), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_as_good_as_before_after_a_rejection() {
    let admission = Admission::builder().limit(Fixed::new(1)).shed().build().unwrap();
    let layer = AdmissionLayer::new(&admission);
    let service = service_fn(async |_: Request<hyper::body::Incoming>| {
        Ok::<_, std::convert::Infallible>(Response::new("done".to_owned()))
    });
    let server = Server::hyper(ServiceBuilder::new().layer(layer).service(service)).await;
    for version in [H1, H2] {
        let mut client = Client::connect(server.address, version).await;
        for round in 0..100 {
            let held = (round % 2 == 0).then(|| admission.try_admit(Ticket::new()).unwrap());
            assert_eq!(client.answer(get("/")).await.status(), if held.is_some() { 503 } else { 200 });
            drop(held);
            // The server lets go of the slot at its own pace.
            eventually("the slot is free", || admission.snapshot().in_flight == 0).await;
            assert!(!client.is_closed());
        }
    }
    server.stop().await;
}
