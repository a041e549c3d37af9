//! An axum server whose callers wait for a second at most, which runs up to 100 requests at once, and keeps 60 % for checkout.
//!
//! ```text
//! cargo run --release --example quickstart
//! curl -i -H 'x-tenant: checkout' http://127.0.0.1:3000/work
//! cargo run -p tower-admission-cli -- watch
//! ```
//!
//! Operators find all about it on a listener of their own: a page at <http://127.0.0.1:9901/admission/ui>, JSON at
//! `/admission`, and `/admission/ready` for a load balancer.

use std::time::Duration;

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tower_admission::{
    Admission, AdmissionLayer,
    classify::{by_header, paths},
    limit::Fixed,
    percent,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let admission = Admission::builder()
        .patience(Duration::from_secs(1))
        .limit(Fixed::new(100))
        .partition("checkout", percent(60))
        .partition("batch", percent(20).hard_cap())
        .build()?;
    let layer = AdmissionLayer::new(&admission).classify(by_header("x-tenant")).exempt(paths(["/healthz"]));

    let app = Router::new()
        .route("/work", get(async || tokio::time::sleep(Duration::from_millis(100)).await))
        .route("/healthz", get(async || "ok"))
        .layer(layer);
    // JSON, a page and the readiness, for operators alone.
    let admin = Router::new().fallback_service(admission.introspection());

    let app = axum::serve(TcpListener::bind("127.0.0.1:3000").await?, app);
    let admin = axum::serve(TcpListener::bind("127.0.0.1:9901").await?, admin);
    tokio::try_join!(app.into_future(), admin.into_future())?;
    Ok(())
}
