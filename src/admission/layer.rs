//! The layer: a handle, and how requests and responses are read.

use std::{fmt, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, Version, header::CACHE_CONTROL};
use http_body::Body;
use tower_layer::Layer;

use super::{
    AdmissionService, BodyData, Deadline, Policy, Rejections, ReleaseAt, RequestHead, SampleAt,
    assess::Assess,
    classify::Classify,
    context::close_connection,
    generic::GenericProtocol,
    nesting::{self, HandleId},
    policy::{grpc_timeout, seconds},
};
use crate::{
    rejection::Rejection,
    runtime::{Admission, AsShared, Shared},
    ticket::Ticket,
};

/// Applies an [`Admission`] to a tower service.
///
/// All state is in the handle: the layer may be applied to each route and each connection, as axum does, and all of them
/// share one limit. The errors of the service pass through unchanged; rejected requests get a response.
///
/// The type parameter is the protocol: [`HttpProtocol`], gRPC included, or [`GenericProtocol`] for services of any
/// other kind.
pub struct AdmissionLayer<P = HttpProtocol> {
    pub(super) protocol: Arc<P>,
    pub(super) admission: Admission,
}

/// The default protocol of [`AdmissionLayer`]: how HTTP and gRPC are read and answered.
#[derive(Clone)]
pub struct HttpProtocol {
    pub(super) admission: Admission,
    classify: Option<Arc<dyn Classify>>,
    /// What a response means; `None` stands for the default.
    assess: Option<Arc<dyn Assess>>,
    respond: Option<Respond>,
    pub(super) rejections: Rejections,
    exempt: Option<Exempt>,
    deadline_header: Option<HeaderName>,
    policy: Policy,
    max_upload: u64,
}

type Respond = Arc<dyn Fn(&Rejection, &RequestHead<'_>) -> Option<Response<Bytes>> + Send + Sync>;
type Exempt = Arc<dyn Fn(&RequestHead<'_>) -> bool + Send + Sync>;

impl AdmissionLayer {
    /// A layer for HTTP and gRPC over `admission`.
    pub fn new(admission: &Admission) -> Self {
        let http = HttpProtocol {
            admission: admission.clone(),
            classify: None,
            assess: None,
            respond: None,
            rejections: Rejections::new(),
            exempt: None,
            deadline_header: None,
            policy: Policy::new().release_at(ReleaseAt::BodyEnd).sample_at(SampleAt::ResponseHead),
            max_upload: 64 * 1_024,
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
        self.with(|http| http.assess = Some(Arc::new(assess)))
    }

    /// Sets the built-in answers to rejected requests.
    #[must_use]
    pub fn rejections(self, rejections: Rejections) -> Self {
        self.with(|http| http.rejections = rejections)
    }

    /// Sets a function that answers rejected requests; `None` stands for the built-in answer. An answer without
    /// `Cache-Control` gets `Cache-Control: no-store`.
    #[must_use]
    pub fn respond<F>(self, respond: F) -> Self
    where
        F: Fn(&Rejection, &RequestHead<'_>) -> Option<Response<Bytes>> + Send + Sync + 'static,
    {
        self.with(|http| http.respond = Some(Arc::new(respond)))
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

    /// Reads the caller's timeout from this header as well, in seconds with or without a fraction, besides
    /// `grpc-timeout` and [`Deadline`]. A value that is not a number is ignored. A value of 0 or less is a deadline
    /// that is over: such a request is rejected with the reason `deadline`. Of several lines the earliest deadline
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

    /// Sets the largest request body, in bytes, with which the round-trip time of a request is learned: 64 KiB unless
    /// set.
    ///
    /// A handler that reads a large body waits for its client. That wait is not congestion, and learning from it would
    /// collapse the limit. So the time of requests with a larger body, or a body of unknown length, is ignored, unless
    /// their [`Policy`] says otherwise; an overload counts all the same. gRPC calls, unary ones included, announce no
    /// length, and are learned from; give streaming calls a policy.
    #[must_use]
    pub fn max_learned_upload(self, bytes: u64) -> Self {
        self.with(|http| http.max_upload = bytes)
    }

    /// The layer of the same handle for services that are not HTTP: rejections are errors. All other settings are
    /// reset.
    pub fn generic(self) -> AdmissionLayer<GenericProtocol> {
        AdmissionLayer {
            protocol: Arc::new(GenericProtocol::new(self.admission.clone())),
            admission: self.admission.clone(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut HttpProtocol)) -> Self {
        change(Arc::make_mut(&mut self.protocol));
        self
    }
}

impl AsShared for Arc<HttpProtocol> {
    fn shared(&self) -> &Arc<Shared> {
        &self.admission.shared
    }
}

impl HttpProtocol {
    #[inline]
    pub(super) fn is_exempt(&self, request: &RequestHead<'_>) -> bool {
        self.exempt.as_ref().is_some_and(|exempt| exempt(request))
    }

    /// Returns what tells the handle from others.
    #[inline]
    pub(super) fn id(&self) -> HandleId {
        self.admission.shared.id()
    }

    /// Returns what judges the responses, unless that is the default.
    #[inline]
    pub(super) fn own_assess(&self) -> Option<Arc<dyn Assess>> {
        self.assess.clone()
    }

    /// Fills in the ticket of a request.
    #[inline]
    pub(super) fn fill_in<'r>(&self, ticket: &mut Ticket<'r>, request: &RequestHead<'r>) {
        if let Some(timeout) = grpc_timeout(request) {
            ticket.limit_timeout(timeout);
        }
        if let Some(deadline) = request.extensions().get::<Deadline>() {
            ticket.limit_timeout(deadline.remaining());
        }
        if let Some(timeout) = self.header_timeout(request) {
            ticket.limit_timeout(timeout);
        }
        if let Some(classify) = &self.classify {
            classify.classify(request, ticket);
        }
    }

    #[inline]
    fn header_timeout(&self, request: &RequestHead<'_>) -> Option<Duration> {
        let values = request.headers().get_all(self.deadline_header.as_ref()?).iter();
        values.filter_map(|value| seconds(value.as_bytes())).min()
    }

    /// The policy of a request, before its response is known.
    #[inline]
    pub(super) fn policy<B: Body>(&self, request: &Request<B>) -> Policy {
        let own = request.extensions().get::<Policy>();
        let policy = own.map_or(self.policy, |own| own.or(self.policy));
        let body = request.body();
        let uploads = !body.is_end_stream() && body.size_hint().upper().is_none_or(|bytes| bytes > self.max_upload);
        if uploads
            && own.is_none_or(|own| own.sample_at.is_none())
            && policy.sample_at != Some(SampleAt::Never)
            && !RequestHead::of(request).is_grpc()
        {
            policy.sample_at(SampleAt::OverloadOnly)
        } else {
            policy
        }
    }

    pub(super) fn reject<B>(&self, rejection: &Rejection, request: &mut Request<B>) -> Response<BodyData> {
        let head = RequestHead::of(request);
        let own = self.respond.as_ref().and_then(|respond| respond(rejection, &head));
        let mut response = match own {
            Some(response) => {
                let mut response = response.map(BodyData::new);
                nesting::mark_rejection(response.extensions_mut());
                response
            }
            None => self.rejections.respond(rejection, &head),
        };
        if response.headers().is_empty() {
            // The headers of the request go with it: their place serves the answer, which then allocates none.
            let mut headers = mem::take(request.headers_mut());
            headers.clear();
            *response.headers_mut() = headers;
        }
        // A moment later the same request may be served, and some statuses may be stored unless told otherwise.
        let no_store = HeaderValue::from_static("no-store");
        if response.headers().is_empty() {
            response.headers_mut().insert(CACHE_CONTROL, no_store);
        } else {
            response.headers_mut().entry(CACHE_CONTROL).or_insert(no_store);
        }
        if request.method() == Method::HEAD {
            // Over HTTP/2 hyper sends what is here, and the client takes it for a violation of the protocol.
            *response.body_mut() = BodyData::empty();
        }
        // Another instance may have room; HTTP/2 has no such header.
        if self.admission.shared.is_leaving() && request.version() <= Version::HTTP_11 {
            close_connection(&mut response);
        }
        response
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

impl fmt::Debug for HttpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProtocol").field("policy", &self.policy).finish_non_exhaustive()
    }
}
