//! A server of HTTP that refuses, and notes when requests came.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    routing::{get, post},
};
use http::Request;
use tokio::{net::TcpListener, time::Instant};
use tower::ServiceBuilder;
use tower_admission::{Admission, AdmissionLayer, ClassLimits, Rate, Rules, limit::Fixed, response::Rejections};

/// A server with so many starts per minute, evenly spaced: a request that comes earlier is refused, and told when the next start is.
pub(super) struct Refusing {
    pub(super) admission: Admission,
    pub(super) address: SocketAddr,
    came: Arc<Mutex<Vec<Instant>>>,
}

impl Refusing {
    /// Starts it. Its answers come without these headers.
    pub(super) async fn start(per_minute: u32, without: &'static [&'static str]) -> Self {
        let rules = Rules::new().default_limits(ClassLimits::new().max_per_minute(Rate::from(per_minute).smooth()));
        let admission = Admission::builder().limit(Fixed::new(9)).rules(rules).build().unwrap();
        let came = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&came);
        let message = serde_json::json!({ "role": "assistant", "content": "served" });
        let choice = serde_json::json!({ "index": 0, "message": message, "finish_reason": "stop" });
        let completion = serde_json::json!({
            "id": "1", "object": "chat.completion", "created": 0, "model": "small", "choices": [choice],
        });
        let layers = ServiceBuilder::new()
            .map_request(move |request: Request<Body>| {
                notes.lock().unwrap().push(Instant::now());
                request
            })
            .map_response(move |mut response: http::Response<_>| {
                without.iter().for_each(|name| drop(response.headers_mut().remove(*name)));
                response
            })
            .layer(AdmissionLayer::new(&admission).rejections(Rejections::new().retry_after_millis()));
        let app = Router::new()
            .route("/v1/chat/completions", post(async move || Json(completion)))
            .route("/{name}", get(async || "served"))
            .layer(layers);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { admission, address, came }
    }

    /// When requests came.
    pub(super) fn came(&self) -> Vec<Instant> {
        self.came.lock().unwrap().clone()
    }
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
