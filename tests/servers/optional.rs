//! A layer that is there only if settings say so: the answers have one type of body in both cases.

use axum::{Router, body::Body, response::Response, routing::get};
use http::{Request, StatusCode};
use tower::{ServiceBuilder, ServiceExt, util::option_layer};
use tower_admission::{Admission, AdmissionLayer, Ticket};

#[tokio::test]
async fn a_layer_under_option_layer_refuses_or_is_not_there() {
    for (is_there, expected) in [(true, StatusCode::SERVICE_UNAVAILABLE), (false, StatusCode::OK)] {
        let admission = Admission::builder().limit(1).shed().build().unwrap();
        let _held = admission.try_admit(Ticket::new()).unwrap();
        let layer = is_there.then(|| {
            let with_one_body = |answer: Response<_>| answer.map(Body::new);
            ServiceBuilder::new().map_response(with_one_body).layer(AdmissionLayer::new(&admission))
        });
        let app: Router = Router::new().route("/", get(async || "ok")).layer(option_layer(layer));
        let answer = app.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), expected);
    }
}
