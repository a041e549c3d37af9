//! Requests from strangers, to the layer and to the introspection service.

use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    num::NonZeroU8,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use tower_admission::{
    Admission, AdmissionLayer, Labels,
    classify::{by_forwarded_ip, by_grpc_method, by_header},
    limit::Fixed,
    percent,
};
use tower_layer::Layer;
use tower_service::Service;

/// Most labels that are known.
const LABELS: usize = 8;

#[derive(Clone)]
struct Answers;

impl Service<Request<Full<Bytes>>> for Answers {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(Full::from("answer"))))
    }
}

/// Polls what needs no other task.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// The first line is the target; each further line is a header; all bytes may be anything.
fn request(data: &[u8], method: &Method) -> Option<Request<Full<Bytes>>> {
    let mut lines = data.split(|&byte| byte == b'\n');
    let target: Uri = std::str::from_utf8(lines.next()?).ok()?.parse().ok()?;
    let mut request = Request::new(Full::from(Bytes::copy_from_slice(data)));
    *request.method_mut() = method.clone();
    *request.uri_mut() = target;
    for line in lines {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]))
        else {
            continue;
        };
        if request.headers_mut().try_append(name, value).is_err() {
            return None;
        }
    }
    Some(request)
}

/// Several requests, apart by a zero byte: each is answered, no label beyond the table is known, and nothing is left.
pub fn requests(data: &[u8]) {
    let admission = Admission::builder()
        .limit(Fixed::new(4))
        .partition("a", percent(50))
        .labels(Labels::new().max_labels(LABELS).cap(2))
        .build()
        .unwrap();
    let layer = AdmissionLayer::new(&admission)
        .classify((
            by_header("x-tenant"),
            by_header("x-user").as_label(),
            by_forwarded_ip(NonZeroU8::new(2).unwrap()).as_label(),
            by_grpc_method().as_class(),
        ))
        .deadline_header(HeaderName::from_static("x-timeout"));
    let mut service = layer.layer(Answers);
    for data in data.split(|&byte| byte == 0).take(64) {
        let Some(request) = request(data, &Method::POST) else { continue };
        let response = now(service.call(request)).unwrap();
        let _body = now(response.into_body().collect());
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.waiting), (0, 0), "nothing is left");
        // Besides them the entries that further labels share, and that of requests without one.
        assert!(snapshot.labels.len() <= LABELS + 3, "{} labels are known", snapshot.labels.len());
    }
}

/// The value of `grpc-timeout`, beside a plain reading of the specification: one to eight digits and a unit.
pub fn grpc_timeout(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let plain = value.to_str().ok().and_then(|text| {
        let unit = match text.chars().next_back()? {
            'H' => 3_600_000_000_000_u64,
            'M' => 60_000_000_000,
            'S' => 1_000_000_000,
            'm' => 1_000_000,
            'u' => 1_000,
            'n' => 1,
            _ => return None,
        };
        let digits = &text[..text.len() - 1];
        let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().unwrap() * unit)
    });
    let admission = Admission::builder().limit(Fixed::new(1)).build().unwrap();
    let mut service = AdmissionLayer::new(&admission).layer(Answers);
    let mut request = Request::new(Full::from("call"));
    request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    request.headers_mut().insert("grpc-timeout", value);
    let response = now(service.call(request)).unwrap();
    let is_rejected = response.headers().contains_key("grpc-status");
    // A deadline of nothing is over; a negative one, which the specification does not know, as well.
    let is_over = plain == Some(0) || data.first() == Some(&b'-');
    assert!(!is_rejected || is_over, "{:?} is read as {plain:?} and rejected", response.headers());
    drop(response);
    assert_eq!(admission.snapshot().in_flight, 0);
}

/// A request for introspection: an answer that is no error of the server, in JSON where it says so.
pub fn introspection(data: &[u8]) {
    let admission = Admission::builder().limit(Fixed::new(4)).labels(Labels::new()).build().unwrap();
    drop(admission.try_admit(tower_admission::Ticket::new().label("label").namespace("space")));
    let mut service = admission.introspection().accept_workers("a secret of sixteen bytes or more");
    for method in [Method::GET, Method::POST, Method::HEAD] {
        let Some(mut request) = request(data, &method) else { return };
        if data.len() % 2 == 0 {
            let secret = HeaderValue::from_static("Bearer a secret of sixteen bytes or more");
            request.headers_mut().insert("authorization", secret);
        }
        let response = now(service.call(request)).unwrap();
        assert!(!response.status().is_server_error(), "{response:?}");
        let kind = response.headers().get("content-type").map(|it| it.as_bytes().to_vec());
        let body = now(response.into_body().collect()).unwrap().to_bytes();
        if kind.is_some_and(|it| it.starts_with(b"application/json")) && method != Method::HEAD && !body.is_empty() {
            serde_json::from_slice::<serde_json::Value>(&body).unwrap();
        }
    }
}
