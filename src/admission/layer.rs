//! The layer: a handle, and how requests and responses are read.

use std::{fmt, sync::Arc};

use http::{HeaderName, Response, response::Parts};
use tower_layer::Layer;

use super::{
    AdmissionService, AnswerBody, HttpProtocol, Policy, Rejections, RequestHead, assess::Assess, classify::Classify,
    respond::load_reports::LoadReports,
};
use crate::{rejection::Rejection, runtime::Admission};

/// Applies an [`Admission`] to a tower service.
///
/// All state is in the handle: the layer may be applied to each route and each connection, as axum does, and all of them
/// share one limit. The errors of the service pass through unchanged; rejected requests get a response.
///
/// The type parameter is the protocol: [`HttpProtocol`], gRPC included, or
/// [`GenericProtocol`](crate::generic::GenericProtocol) for services of any other kind.
///
/// # Errors of the compiler
///
/// - `AdmissionService<…>: Service<…>` is not satisfied: the requests or responses of the service are not those of HTTP. Say
///   [`generic`](Self::generic).
/// - `Response<AdmissionBody<…>>` is expected and `Response<Body>` found, or the other way round, as with
///   `tower::util::option_layer`: the layer changes the type of the body, and both ways have to have one. Change it back with
///   `ServiceBuilder::new().map_response(|it: Response<_>| it.map(Body::new)).layer(layer)`, or add the layer in any case and
///   turn it off: [`Mode::Off`](crate::Mode::Off).
/// - `lifetime may not live long enough` in a classifier: give the closure to [`classify_fn`](crate::classify::classify_fn).
pub struct AdmissionLayer<P = HttpProtocol> {
    pub(super) protocol: Arc<P>,
    pub(super) admission: Admission,
}

impl AdmissionLayer {
    /// A layer for HTTP and gRPC over `admission`.
    pub fn new(admission: &Admission) -> Self {
        let http = HttpProtocol {
            admission: admission.clone(),
            classify: None,
            responses: None,
            respond: None,
            amend: None,
            rejections: Rejections::new(),
            exempt: None,
            deadline_header: None,
            policy: Policy::new(),
            max_upload: 64 * 1_024,
            annotates: false,
            is_unusual: false,
            reads_tickets: false,
            partition_header: None,
            is_judged: false,
        };
        Self { protocol: Arc::new(http), admission: admission.clone() }
    }

    /// Sets the classifier, which puts requests into partitions. Without one, all requests are in the default
    /// partition.
    #[must_use]
    pub fn classify(self, classify: impl Classify) -> Self {
        self.with(|http| http.classify = Some(Arc::new(classify)))
    }

    /// Sets what a response means for the limit: [`ByStatus`](crate::response::ByStatus) unless set.
    #[must_use]
    pub fn assess(self, assess: impl Assess) -> Self {
        self.with(|http| Arc::make_mut(http.responses.get_or_insert_default()).assess = Some(Arc::new(assess)))
    }

    /// Sets the built-in answers to rejected requests.
    #[must_use]
    pub fn rejections(self, rejections: Rejections) -> Self {
        self.with(|http| http.rejections = rejections)
    }

    /// Sets a function that answers rejected requests; `None` stands for the built-in answer. The body is a text or bytes or,
    /// with the feature `axum`, what `into_response()` gives. An answer without `Cache-Control` gets `Cache-Control: no-store`.
    ///
    /// Answers are for HTTP. A gRPC call gets the [built-in status](crate::response::Rejections), unless the content type of the
    /// answer begins with `application/grpc`.
    ///
    /// ```
    /// use http::Response;
    /// use tower_admission::{Admission, AdmissionLayer};
    ///
    /// # let admission = Admission::builder().build().unwrap();
    /// let layer = AdmissionLayer::new(&admission).respond(|rejection, request| {
    ///     let is_page = request.uri().path().starts_with("/pages");
    ///     is_page.then(|| Response::new(format!("<p>Come back in {} s.", rejection.retry_after().as_secs() + 1)))
    /// });
    /// ```
    #[must_use]
    pub fn respond<F, B>(self, respond: F) -> Self
    where
        F: Fn(&Rejection, &RequestHead<'_>) -> Option<Response<B>> + Send + Sync + 'static,
        B: AnswerBody,
    {
        let respond = move |rejection: &Rejection, request: &RequestHead<'_>| {
            let (parts, body) = respond(rejection, request)?.into_parts();
            Some(Response::from_parts(parts, body.into_bytes()?))
        };
        self.with(|http| http.respond = Some(Arc::new(respond)))
    }

    /// Sets a function that changes the status and the headers of the built-in answers to rejected requests, over HTTP and gRPC.
    ///
    /// ```
    /// use http::HeaderValue;
    /// use tower_admission::{Admission, AdmissionLayer};
    ///
    /// # let admission = Admission::builder().build().unwrap();
    /// let layer = AdmissionLayer::new(&admission).amend(|_, answer| {
    ///     answer.headers.insert("x-served-by", HeaderValue::from_static("shop-1"));
    /// });
    /// ```
    #[must_use]
    pub fn amend(self, amend: impl Fn(&Rejection, &mut Parts) + Send + Sync + 'static) -> Self {
        self.with(|http| http.amend = Some(Arc::new(amend)))
    }

    /// Leaves what was decided in the extensions, for other middleware: a [`Grant`](crate::response::Grant) in each request that was
    /// admitted, and the [`Rejection`] in each response to one that was not. Off unless set, since it takes memory for each request.
    ///
    /// ```
    /// use axum::{Extension, Router, routing::get};
    /// use tower_admission::{Admission, AdmissionLayer, response::Grant};
    ///
    /// # let admission = Admission::builder().build().unwrap();
    /// let app: Router = Router::new()
    ///     .route("/", get(async |Extension(grant): Extension<Grant>| format!("waited for {:?}", grant.waited())))
    ///     .layer(AdmissionLayer::new(&admission).annotate());
    /// ```
    #[must_use]
    pub fn annotate(self) -> Self {
        self.with(|http| http.annotates = true)
    }

    /// Reports the load of the handle with each response, rejections included, to load balancers that weigh servers by it: the
    /// policy `client_side_weighted_round_robin` of Envoy, and `weighted_round_robin` of gRPC.
    ///
    /// HTTP gets the header `endpoint-load-metrics` as ORCA has it: `TEXT application_utilization:0.5,rps_fractional:12.5`, or JSON
    /// where the request has `endpoint-load-metrics-format: JSON`. A call of gRPC gets `endpoint-load-metrics-bin` in its trailers
    /// (gRFC A51).
    ///
    /// | field | what |
    /// |---|---|
    /// | `application_utilization` | requests in flight and waiting, divided by the limit: above 1 where requests wait |
    /// | `rps_fractional` | requests that were admitted per second, of late; missing in the first second |
    /// | `eps` | requests that were rejected per second, but for bounds of a caller; missing where there were none |
    ///
    /// A report is at most 100 ms old. A report of the service itself is left as it is. Exempt requests get none, nor do streams of
    /// gRPC whose slot is free [at the head](crate::policy::ReleaseAt::ResponseHead). Off unless set: strangers would learn the load
    /// too, so a proxy should remove the header.
    #[must_use]
    pub fn load_reports(self) -> Self {
        self.with(|http| {
            let reports = Some(Arc::new(LoadReports::new(http.admission.clone())));
            Arc::make_mut(http.responses.get_or_insert_default()).reports = reports;
        })
    }

    /// Exempts the requests for which `exempt` is true: they don't wait, take no slot, and the limit learns nothing
    /// from them. For health, readiness and metrics routes. See [`paths`](super::paths).
    #[must_use]
    pub fn exempt<F>(self, exempt: F) -> Self
    where
        F: Fn(&RequestHead<'_>) -> bool + Send + Sync + 'static,
    {
        self.with(|http| http.exempt = Some(Arc::new(exempt)))
    }

    /// Reads the caller's timeout from this header as well, in seconds with or without a fraction, besides `grpc-timeout` of a
    /// call of gRPC and [`Deadline`](crate::policy::Deadline). A value that is not a number is ignored. A value of 0 or less is a
    /// deadline that is over: such a request is rejected with the reason `deadline`. Of several lines the earliest deadline
    /// applies.
    #[must_use]
    pub fn deadline_header(self, name: HeaderName) -> Self {
        self.with(|http| http.deadline_header = Some(name))
    }

    /// Sets when slots are given back and what is learned, for requests and responses without a [`Policy`] of their
    /// own.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        self.with(|http| http.policy = policy.or(http.policy))
    }

    /// Sets the largest request body, in bytes, with which a request is judged like any other: 64 KiB unless set.
    ///
    /// A handler that reads a large body waits for its client. That wait is not congestion: a request with a larger body, or a body
    /// of unknown length, is never too late, and says nothing where it is given up. Its time is learned where the law
    /// [asks for hold times](crate::limit::LimitAlgorithm::learns_hold_times) and it is known how long callers wait, and else
    /// ignored, unless its [`Policy`] says otherwise. An overload counts all the same. gRPC calls, unary ones included, announce no
    /// length, and are judged like any other; give streaming calls a policy.
    #[must_use]
    pub fn max_learned_upload(self, bytes: u64) -> Self {
        self.with(|http| http.max_upload = bytes)
    }

    fn with(mut self, change: impl FnOnce(&mut HttpProtocol)) -> Self {
        let http = Arc::make_mut(&mut self.protocol);
        change(http);
        http.settle();
        self
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = AdmissionService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AdmissionService::new(inner, Arc::clone(&self.protocol))
    }
}

impl<P> Clone for AdmissionLayer<P> {
    fn clone(&self) -> Self {
        Self { protocol: Arc::clone(&self.protocol), admission: self.admission.clone() }
    }
}

impl<P> fmt::Debug for AdmissionLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionLayer").field("admission", &self.admission).finish_non_exhaustive()
    }
}
