//! Counts the requests inside of a service, until their bodies have ended, and the bytes of these.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use load::{Meter, Running};
use pin_project_lite::pin_project;
use s3s::service::S3Service;
use tower::Service;
use tower_admission::Admission;

/// Their service, and what is counted around it. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    service: S3Service,
    meter: Meter,
    /// The handle whose limit is noted.
    admission: Option<Admission>,
    highest_limit: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(service: S3Service, meter: Meter) -> Self {
        Self { service, meter, admission: None, highest_limit: Arc::default() }
    }

    /// Notes the limit whenever a request comes in.
    pub(crate) fn watch(self, admission: Admission) -> Self {
        Self { admission: Some(admission), ..self }
    }

    /// The highest limit that a request met when it came in. It is the same for all clones.
    pub(crate) fn highest_limit(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.highest_limit)
    }
}

impl<B> Service<Request<B>> for Counted
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Response = Response<CountedBody<s3s::Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let running = self.meter.enter();
        if let Some(admission) = &self.admission {
            self.highest_limit.fetch_max(admission.snapshot().limit as u64, Relaxed);
        }
        let meter = self.meter.clone();
        let request = request.map(|body| CountedBody { body, meter: meter.clone(), bytes: 0, running: None });
        let response = Service::call(&mut self.service, request);
        Box::pin(async move {
            let response = response.await.unwrap_or_else(|_| {
                let mut response = Response::new(s3s::Body::empty());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            });
            Ok(response.map(|body| CountedBody { body, meter, bytes: 0, running: Some(running) }))
        })
    }
}

pin_project! {
    /// A body whose bytes are counted as work, in KiB.
    #[derive(Debug)]
    pub(crate) struct CountedBody<B> {
        #[pin]
        body: B,
        meter: Meter,
        // Bytes that make no KiB yet.
        bytes: u64,
        running: Option<Running>,
    }
}

impl<B: Body<Data = Bytes>> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            *this.bytes += bytes.len() as u64;
            this.meter.worked(*this.bytes / 1_024);
            *this.bytes %= 1_024;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
