//! A listener that serves the page as it is, or with a deliberate mistake.

use std::sync::{Arc, Mutex};

use axum::{Router, response::IntoResponse};
use http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_admission::{Admission, Labels, limit::Fixed, percent};

pub(crate) fn shop() -> Admission {
    let labels = Labels::new().label_cap("capped", 1);
    let admission = Admission::builder().name("checkout").limit(Fixed::new(20)).shed().labels(labels);
    admission.partition("web", percent(50)).partition("batch", percent(20)).build().unwrap()
}

/// A listener for pages with mistakes, and for handles that take each other's place, as a process that is started anew does.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) admission: Arc<Mutex<Admission>>,
    mistake: Arc<Mutex<Option<(&'static str, &'static str)>>>,
}

impl Stage {
    pub(crate) fn new(admission: &Admission) -> Self {
        Self { admission: Arc::new(Mutex::new(admission.clone())), mistake: Arc::default() }
    }

    pub(crate) fn make(&self, from: &'static str, to: &'static str) {
        *self.mistake.lock().unwrap() = Some((from, to));
    }

    pub(crate) async fn serve(self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/admission/ui", listener.local_addr().unwrap());
        let router = Router::new().fallback(move |request: Request<axum::body::Body>| self.clone().answer(request));
        tokio::spawn(async { axum::serve(listener, router).await });
        url
    }

    async fn answer(self, request: Request<axum::body::Body>) -> axum::response::Response {
        let is_page = request.uri().path().ends_with("/ui");
        let introspection = self.admission.lock().unwrap().introspection();
        let response = introspection.oneshot(request).await.unwrap();
        let mistake = *self.mistake.lock().unwrap();
        let Some((from, to)) = mistake.filter(|_| is_page) else {
            return response.map(axum::body::Body::new).into_response();
        };
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8(body.to_vec()).unwrap();
        assert!(page.contains(from), "the page has {from}");
        // Without the policy: a browser would refuse what is not known to it.
        ([("content-type", "text/html")], page.replace(from, to)).into_response()
    }
}
