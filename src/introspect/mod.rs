//! `GET /admission`: the state of a handle as JSON.
//!
//! A plain service to mount on a listener of its own. Adding a layer exposes nothing.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
};

use crate::{admission::Payload, runtime::Admission};

/// Answers `GET /admission` with a [`Snapshot`](crate::Snapshot) as JSON. Made by
/// [`Admission::introspection`](crate::Admission::introspection).
///
/// A tower service, and a hyper one: it can be served by axum, by tonic or without either. Whoever reaches it sees the
/// names of all partitions, so give it a listener that strangers don't reach.
#[derive(Clone, Debug)]
pub struct Introspection {
    admission: Admission,
}

impl Admission {
    /// A service that shows the state of this handle, for a listener of its own.
    ///
    /// ```no_run
    /// # async fn serve(admission: tower_admission::Admission) -> std::io::Result<()> {
    /// let admin = axum::Router::new().route_service("/admission", admission.introspection());
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:9901").await?;
    /// axum::serve(listener, admin).await
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "introspect")))]
    pub fn introspection(&self) -> Introspection {
        Introspection { admission: self.clone() }
    }
}

impl Introspection {
    fn answer<B>(&self, request: &Request<B>) -> Response<Payload> {
        let path = request.uri().path().trim_end_matches('/');
        if path != "/admission" {
            return with_status(StatusCode::NOT_FOUND, "there is only GET /admission\n");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = with_status(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let Ok(json) = serde_json::to_vec(&self.admission.snapshot()) else {
            return with_status(StatusCode::INTERNAL_SERVER_ERROR, "the snapshot can't be written as JSON\n");
        };
        let mut response = Response::new(Payload::new(Bytes::from(json)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

fn with_status(status: StatusCode, text: &'static str) -> Response<Payload> {
    let mut response = Response::new(Payload::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

impl<B> tower_service::Service<Request<B>> for Introspection {
    type Response = Response<Payload>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

impl<B> hyper::service::Service<Request<B>> for Introspection {
    type Response = Response<Payload>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}
