//! The same paths inside an axum `Router` with three routes, in a process with two layers of different handles.

use axum::{Router, extract::Request, routing::get};
use http::Uri;
use tower::layer::util::Identity;
use tower_admission::{AdmissionLayer, limit::Fixed, response::Rejections};

use crate::{
    contestants::{Contestant, MANY, ONE, Prepared, accepts, accepts_beside, fixed, rejects_ours},
    drive::{Answer, answer, answer_to, incoming, recycle},
    rows::{admission, busy, readme, readme_layer, two_point},
};

pub const ROUTER_BARE: &str = "router";
pub const ROUTER_DROPPING: &str = "router, dropping requests";

pub const ROUTER: &[Contestant] = &[
    accepting(ROUTER_BARE, || accepts(served(routes::<true>()))),
    rejecting(ROUTER_DROPPING, || accepts(served(routes::<false>()))),
    accepting("router, a layer that does nothing", || accepts(served(routes::<true>().layer(Identity::new())))),
    accepting("router, AdmissionLayer", || accepts(layered(fixed(MANY, Rejections::new())))),
    accepting("router, TwoPoint", || accepts(layered(AdmissionLayer::new(&admission(two_point()))))),
    accepting("router, README settings", || accepts(layered(readme_layer(&readme())))),
    accepting("router, busy", || {
        let admission = admission(Fixed::new(MANY));
        let occupied = busy(&admission);
        accepts_beside(layered(AdmissionLayer::new(&admission)), occupied)
    }),
    accepting("router, one layer within another", || {
        accepts(nested(fixed(MANY, Rejections::new()), fixed(MANY, Rejections::new())))
    }),
    rejecting("router, bare rejection", || rejects_ours(layered(fixed(ONE, Rejections::new().bare())))),
    rejecting("router, rejection", || rejects_ours(layered(fixed(ONE, Rejections::new())))),
    rejecting("router, bare rejection by the inner layer", || {
        rejects_ours(nested(fixed(MANY, Rejections::new()), fixed(ONE, Rejections::new().bare())))
    }),
];

const fn accepting(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: ROUTER_BARE, prepare }
}

const fn rejecting(name: &'static str, prepare: fn() -> Box<dyn Prepared>) -> Contestant {
    Contestant { name, baseline: ROUTER_DROPPING, prepare }
}

async fn handle<const RECYCLES: bool>(request: Request) -> Answer {
    if RECYCLES {
        recycle(request);
    }
    answer()
}

/// The router as `axum::serve` has it: all layers are applied to all routes once, rather than anew for each request.
fn served(router: Router) -> Router {
    router.with_state(())
}

/// Requests of this bench go to the first of them.
fn routes<const RECYCLES: bool>() -> Router {
    Router::new()
        .route("/", get(handle::<RECYCLES>))
        .route("/orders/{id}", get(handle::<RECYCLES>))
        .route("/reports", get(handle::<RECYCLES>))
}

/// All routes behind a layer. The last one is behind a layer of another handle as well, which has served a request.
fn layered(layer: AdmissionLayer) -> Router {
    let other = fixed(MANY, Rejections::new());
    let router = Router::new()
        .route("/", get(handle::<true>))
        .route("/orders/{id}", get(handle::<true>))
        .route("/reports", get(handle::<true>).layer(other))
        .layer(layer);
    let router = served(router);
    let mut request = incoming();
    *request.uri_mut() = Uri::from_static("/reports");
    drop(answer_to(&router, request));
    router
}

/// All routes behind a layer, and within it the first one behind that of another handle.
fn nested(outer: AdmissionLayer, inner: AdmissionLayer) -> Router {
    let router = Router::new()
        .route("/", get(handle::<true>).layer(inner))
        .route("/orders/{id}", get(handle::<true>))
        .route("/reports", get(handle::<true>))
        .layer(outer);
    served(router)
}
