//! One request after another through a service, each on a fresh clone, each body read to its end.
//!
//! The headers of a request live on the heap. The bare handler puts them back for the next request, so a contestant
//! that lets requests through adds nothing to what making them costs. One that turns requests away drops them and has
//! to pay for new ones: it is compared with a bare handler that drops them too.

use std::{
    cell::Cell,
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::{Empty, Full};
use tower::Service;

/// The header that says which group of callers a request belongs to.
pub const GROUP_HEADER: &str = "x-workload";
/// The groups, one after the other. One header map is kept for each.
pub const GROUPS: [&str; 4] = ["checkout", "search", "reports", "batch"];

pub type Incoming = Request<Empty<Bytes>>;
pub type Answer = Response<Full<Bytes>>;

struct Pool {
    next: Cell<usize>,
    headers: [Cell<Option<HeaderMap>>; GROUPS.len()],
}

thread_local! {
    static POOL: Pool = const { Pool { next: Cell::new(0), headers: [const { Cell::new(None) }; GROUPS.len()] } };
}

/// What an HTTP client of no particular kind sends.
fn headers(group: &'static str) -> HeaderMap {
    HeaderMap::from_iter(
        [("host", "example.org"), ("user-agent", "overhead/0"), ("accept", "*/*"), (GROUP_HEADER, group)]
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
    )
}

/// The next request, of the next group.
#[must_use]
pub fn incoming() -> Incoming {
    let mut request = Request::new(Empty::new());
    *request.headers_mut() = POOL.with(|pool| {
        let group = (pool.next.get() + 1) % GROUPS.len();
        pool.next.set(group);
        pool.headers[group].take().unwrap_or_else(|| headers(GROUPS[group]))
    });
    request
}

/// Keeps the headers of the last request for the next one of its group.
pub fn recycle<B>(request: Request<B>) {
    let (parts, _) = request.into_parts();
    POOL.with(|pool| pool.headers[pool.next.get()].set(Some(parts.headers)));
}

/// What every handler answers.
#[must_use]
pub fn answer() -> Answer {
    Response::new(Full::new(Bytes::from_static(b"hello, world")))
}

/// Sends this many requests through clones of `service`.
#[inline(never)]
pub fn requests<S, B>(service: &S, count: u64)
where
    S: Service<Incoming, Response = Response<B>> + Clone,
    B: Body,
{
    for _ in 0..count {
        send(service, incoming());
    }
}

/// One request. Its answer has been read and dropped afterwards, and so has an error.
#[inline(always)]
pub(crate) fn send<S, B>(service: &S, request: Incoming)
where
    S: Service<Incoming, Response = Response<B>> + Clone,
    B: Body,
{
    let mut context = Context::from_waker(Waker::noop());
    let request = black_box(request);
    let mut service = service.clone();
    let Poll::Ready(ready) = service.poll_ready(&mut context) else { panic!("a service of this bench isn't ready") };
    if ready.is_err() {
        return;
    }
    let future = pin!(service.call(request));
    let Poll::Ready(result) = future.poll(&mut context) else { panic!("a service of this bench doesn't answer") };
    if let Ok(response) = result {
        read(response, &mut context);
    }
}

/// Reads a body as hyper does: its size first, then frames until it says that it has ended.
#[inline(always)]
fn read<B: Body>(response: Response<B>, context: &mut Context<'_>) {
    let (parts, body) = response.into_parts();
    black_box(parts.status);
    let mut body = pin!(body);
    black_box(body.size_hint());
    while !body.is_end_stream() {
        match body.as_mut().poll_frame(context) {
            Poll::Ready(Some(frame)) => drop(black_box(frame)),
            Poll::Ready(None) => break,
            Poll::Pending => panic!("a body of this bench isn't ready"),
        }
    }
}

/// The answer to one request, not read yet: whoever keeps it occupies a slot.
#[must_use]
pub fn unread<S, B>(service: &S) -> Response<B>
where
    S: Service<Incoming, Response = Response<B>> + Clone,
{
    answer_to(service, incoming())
}

/// The answer to this request, not read yet.
#[must_use]
pub fn answer_to<S, B>(service: &S, request: Incoming) -> Response<B>
where
    S: Service<Incoming, Response = Response<B>> + Clone,
{
    let mut context = Context::from_waker(Waker::noop());
    let future = pin!(service.clone().call(request));
    match future.poll(&mut context) {
        Poll::Ready(Ok(response)) => response,
        _ => panic!("the first request of this bench is turned away"),
    }
}

/// A clone that is ready: in tower's own limits this is who occupies a slot.
#[must_use]
pub fn reserved<S>(service: &S) -> S
where
    S: Service<Incoming> + Clone,
{
    let mut service = service.clone();
    let ready = service.poll_ready(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ready, Poll::Ready(Ok(()))), "the first slot of this bench is taken");
    service
}
