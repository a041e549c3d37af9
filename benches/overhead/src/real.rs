//! Requests as clients and servers really make them: eight headers, two extensions, and three headers in the answer.
//!
//! The other lists send four headers, no extension, and get an answer without headers: a layer that looks for a header of
//! gRPC, or for an extension, finds an empty map there.

use std::{
    cell::Cell,
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, request::Parts};
use http_body::Body;
use http_body_util::{Empty, Full};
use tower::{Layer, Service, limit::ConcurrencyLimitLayer};
use tower_admission::{AdaptiveConcurrencyLayer, AdmissionLayer, limit::Fixed};

use crate::{
    contestants::{Contestant, MANY, Prepared, aimd, tower_acc},
    drive::{Answer, GROUP_HEADER, GROUPS, Incoming, send},
    rows::{admission, readme, readme_layer, two_point},
};

const BARE: &str = "real requests, bare";

const fn accepting(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: BARE, prepare }
}

pub const REAL: &[Contestant] = &[
    accepting(BARE, || real(Handler)),
    accepting("real requests, AdmissionLayer", || {
        real(AdmissionLayer::new(&admission(Fixed::new(MANY))).layer(Handler))
    }),
    accepting("real requests, AdaptiveConcurrencyLayer", || {
        real(AdaptiveConcurrencyLayer::new(aimd(MANY)).expect("valid settings").layer(Handler))
    }),
    accepting("real requests, TwoPoint", || {
        real(AdaptiveConcurrencyLayer::new(two_point()).expect("valid settings").layer(Handler))
    }),
    accepting("real requests, README settings", || real(readme_layer(&readme()).layer(Handler))),
    accepting("real requests, tower ConcurrencyLimit", || real(ConcurrencyLimitLayer::new(MANY).layer(Handler))),
    accepting("real requests, tower-acc Aimd", || real(tower_acc(MANY).layer(Handler))),
];

/// What a server puts into its requests: where they come from, and which route they matched.
#[derive(Clone)]
struct Peer(#[expect(dead_code, reason = "what it is for is no concern of this bench")] [u8; 32]);
#[derive(Clone)]
struct Route(#[expect(dead_code, reason = "what it is for is no concern of this bench")] &'static str);

thread_local! {
    /// The last request's headers and extensions, which the next one of its group gets.
    static POOL: [Cell<Option<Parts>>; GROUPS.len()] = const { [const { Cell::new(None) }; GROUPS.len()] };
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

fn headers<const N: usize>(named: [(&'static str, &'static str); N]) -> HeaderMap {
    named.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).into_iter().collect()
}

#[cold]
fn first(group: &'static str) -> Parts {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers([
        ("host", "example.org"),
        ("user-agent", "overhead/0"),
        ("accept", "*/*"),
        ("accept-encoding", "gzip, br"),
        ("content-type", "application/json"),
        ("content-length", "0"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (GROUP_HEADER, group),
    ]);
    request.extensions_mut().insert(Peer([0; 32]));
    request.extensions_mut().insert(Route("/orders/{id}"));
    request.into_parts().0
}

fn incoming() -> Incoming {
    let group = (NEXT.get() + 1) % GROUPS.len();
    NEXT.set(group);
    let parts = POOL.with(|pool| pool[group].take()).unwrap_or_else(|| first(GROUPS[group]));
    Request::from_parts(parts, Empty::new())
}

#[derive(Clone, Copy, Debug)]
struct Handler;

impl Service<Incoming> for Handler {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Incoming) -> Self::Future {
        POOL.with(|pool| pool[NEXT.get()].set(Some(request.into_parts().0)));
        let mut answer = Answer::new(Full::new(Bytes::from_static(b"hello, world")));
        *answer.headers_mut() =
            headers([("content-type", "text/plain"), ("content-length", "12"), ("etag", "\"33a64df5\"")]);
        ready(Ok(answer))
    }
}

struct Real<S>(S);

fn real<S, B>(service: S) -> Box<dyn Prepared>
where
    S: Service<Incoming, Response = http::Response<B>> + Clone + 'static,
    B: Body,
{
    Box::new(Real(service))
}

impl<S, B> Prepared for Real<S>
where
    S: Service<Incoming, Response = http::Response<B>> + Clone,
    B: Body,
{
    #[inline(never)]
    fn run(&self, count: u64) {
        for _ in 0..count {
            send(&self.0, incoming());
        }
    }

    fn sizes(&self) -> [usize; 3] {
        [size_of::<S>(), size_of::<S::Future>(), size_of::<B>()]
    }
}
