//! The servers that are compared.

use std::{mem, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_admission::{
    AdaptiveConcurrencyLayer, Admission, AdmissionLayer, Ticket,
    classify::by_header,
    limit::{Aimd, Fixed},
    percent,
    response::Rejections,
};

/// A server without this crate and the same one with it.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    /// Names of apps.
    pub(crate) without: &'static str,
    pub(crate) with: &'static str,
    /// Whether both refuse all requests.
    pub(crate) refuses: bool,
    /// Requests per second with the layer, in terms of those without: at least so much.
    pub(crate) target: Option<f64>,
}

pub(crate) const PAIRS: &[Pair] = &[
    // What comes out other than 1 here is what this bench can't tell.
    accepting("nothing", "bare", None),
    accepting("AdmissionLayer", "fixed limit", Some(0.97)),
    accepting("AdaptiveConcurrencyLayer", "adaptive limit", Some(0.97)),
    accepting("README settings", "readme", Some(0.97)),
    Pair { name: "rejection", without: "handler's 503", with: "rejection", refuses: true, target: Some(0.95) },
    Pair {
        name: "bare rejection",
        without: "handler's bare 503",
        with: "bare rejection",
        refuses: true,
        target: Some(0.95),
    },
];

const fn accepting(name: &'static str, with: &'static str, target: Option<f64>) -> Pair {
    Pair { name, without: "bare", with, refuses: false, target }
}

/// More than there are connections.
const MANY: usize = 1_000;

/// The app of this name.
pub(crate) async fn app(name: &str) -> Router {
    match name {
        "bare" => routes(),
        "fixed limit" => routes().layer(AdmissionLayer::new(&fixed(MANY))),
        "adaptive limit" => {
            let law = Aimd::new(Duration::from_secs(5)).initial(MANY).max(MANY);
            routes().layer(AdaptiveConcurrencyLayer::new(law).expect("valid settings"))
        }
        "readme" => routes().layer(readme()),
        "handler's 503" => refusing_handlers(&refusals(false)).await,
        "handler's bare 503" => refusing_handlers(&refusals(true)).await,
        "rejection" => routes().layer(refusals(false)),
        "bare rejection" => routes().layer(refusals(true)),
        _ => panic!("no app is called {name:?}"),
    }
}

/// Requests of this bench go to the first of them.
fn routes() -> Router {
    let hello = get(async || "hello, world");
    Router::new().route("/", hello.clone()).route("/orders/{id}", hello.clone()).route("/reports", hello)
}

fn fixed(limit: usize) -> Admission {
    Admission::builder().limit(Fixed::new(limit)).shed().build().expect("valid settings")
}

/// What the first example of the project's README sets, with a limit that never binds here.
fn readme() -> AdmissionLayer {
    let admission = Admission::builder()
        .limit(Aimd::new(Duration::from_millis(250)).initial(MANY))
        .queue(400)
        .max_wait(Duration::from_secs(10))
        .partition("checkout", percent(60))
        .partition("search", percent(10))
        .partition("reports", percent(10))
        .partition("batch", percent(20).hard_cap())
        .build()
        .expect("valid settings");
    AdmissionLayer::new(&admission).classify(by_header("x-tenant"))
}

/// A layer that refuses everything: its only slot is taken for as long as the process lasts.
fn refusals(bare: bool) -> AdmissionLayer {
    let admission = fixed(1);
    mem::forget(admission.try_admit(Ticket::new()).expect("there is a slot"));
    let rejections = if bare { Rejections::new().bare() } else { Rejections::new() };
    AdmissionLayer::new(&admission).rejections(rejections)
}

/// Handlers that answer what the layer would.
async fn refusing_handlers(layer: &AdmissionLayer) -> Router {
    let refused = routes().layer(layer.clone()).oneshot(Request::new(Body::empty())).await;
    let (head, body) = refused.expect("infallible").into_parts();
    assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE);
    let body: Bytes = body.collect().await.expect("it is there").to_bytes();
    let handler = if body.is_empty() {
        get(async || (StatusCode::SERVICE_UNAVAILABLE, [(CACHE_CONTROL, "no-store")]))
    } else {
        get(move || {
            let body = body.clone();
            async move { refuse(body) }
        })
    };
    Router::new().route("/", handler.clone()).route("/orders/{id}", handler.clone()).route("/reports", handler)
}

fn refuse(body: Bytes) -> Response {
    let headers = [(RETRY_AFTER, "1"), (CONTENT_TYPE, "application/problem+json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response()
}
