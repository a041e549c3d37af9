//! How HTTP and gRPC are read and answered.

use std::{fmt, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, Version, header::CACHE_CONTROL, response::Parts};
use http_body::Body;

use super::{
    BodyData, Deadline, Policy, Rejections, RequestHead, SampleAt,
    assess::ForResponses,
    classify::Classify,
    context::{Special, close_connection},
    head,
    nesting::{self, HandleId},
    policy::{grpc_timeout, seconds},
    respond::{NO_STORE, load_reports::LoadReports},
};
use crate::{
    rejection::Rejection,
    runtime::{Admission, AsShared, Shared},
    ticket::Ticket,
};

/// The default protocol of [`AdmissionLayer`](crate::AdmissionLayer): how HTTP and gRPC are read and answered.
#[derive(Clone)]
pub struct HttpProtocol {
    pub(super) admission: Admission,
    pub(super) classify: Option<Arc<dyn Classify>>,
    /// What is done with responses; `None` stands for the defaults.
    pub(super) responses: Option<Arc<ForResponses>>,
    pub(super) respond: Option<Respond>,
    pub(super) amend: Option<Amend>,
    pub(super) rejections: Rejections,
    pub(super) exempt: Option<Exempt>,
    pub(super) deadline_header: Option<HeaderName>,
    pub(super) policy: Policy,
    pub(super) max_upload: u64,
    /// Whether what was decided is left in extensions.
    pub(super) annotates: bool,
    /// Whether each request takes the long way: what was decided is left in extensions, or the load is reported.
    pub(super) is_unusual: bool,
    /// Whether the tickets of requests are filled in from more than `grpc-timeout` and a [`Deadline`]; the header that names the
    /// partition of all others, if there is one.
    pub(super) reads_tickets: bool,
    pub(super) partition_header: Option<HeaderName>,
    /// Whether responses may not mean what they mean by default.
    pub(super) is_judged: bool,
}

type Respond = Arc<dyn Fn(&Rejection, &RequestHead<'_>) -> Option<Response<Bytes>> + Send + Sync>;
type Amend = Arc<dyn Fn(&Rejection, &mut Parts) + Send + Sync>;
type Exempt = Arc<dyn Fn(&RequestHead<'_>) -> bool + Send + Sync>;

impl AsShared for Arc<HttpProtocol> {
    fn shared(&self) -> &Arc<Shared> {
        &self.admission.shared
    }
}

impl HttpProtocol {
    /// Returns what tells the handle from others.
    #[inline]
    pub(super) fn id(&self) -> HandleId {
        self.admission.shared.id()
    }

    /// Returns what makes reports of the load, if they are asked for.
    pub(super) fn reports(&self) -> Option<&LoadReports> {
        self.responses.as_ref()?.reports.as_deref()
    }

    /// Notes what follows from the settings, for requests to look at.
    pub(super) fn settle(&mut self) {
        self.is_unusual = self.annotates || self.reports().is_some();
        self.partition_header = self.classify.as_ref().and_then(|classify| classify.partition_header()).cloned();
        let has_tickets = self.classify.is_some() && self.partition_header.is_none();
        self.reads_tickets = has_tickets || self.deadline_header.is_some();
        self.is_judged = self.responses.is_some() || self.policy != Policy::new();
    }

    /// Whether a request says nothing of its own: its ticket stays as it was made.
    #[inline]
    pub(super) fn is_blank(&self, request: &RequestHead<'_>, is_grpc: bool) -> bool {
        !self.reads_tickets && !is_grpc && request.extensions().get::<Deadline>().is_none()
    }

    /// Returns the name of the partition of a request whose ticket is not filled in.
    #[inline]
    pub(super) fn partition_name<'r>(&self, request: &RequestHead<'r>) -> Option<&'r [u8]> {
        let value = request.headers().get(self.partition_header.as_ref()?)?;
        Some(value.as_bytes().trim_ascii()).filter(|name| !name.is_empty())
    }

    /// Fills in the ticket of a request.
    #[inline]
    pub(super) fn fill_in<'r>(&self, ticket: &mut Ticket<'r>, request: &RequestHead<'r>, is_grpc: bool) {
        if is_grpc && let Some(timeout) = grpc_timeout(request.headers()) {
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

    /// The policy of a request, before its response is known. Marks the request if that is not the default.
    #[inline]
    pub(super) fn policy<B: Body>(&self, request: &Request<B>, special: &mut Special) -> Policy {
        let own = request.extensions().get::<Policy>();
        special.judge_if(self.is_judged || own.is_some());
        let policy = own.map_or(self.policy, |own| own.or(self.policy));
        let body = request.body();
        let uploads = !body.is_end_stream() && body.size_hint().upper().is_none_or(|bytes| bytes > self.max_upload);
        if !uploads || own.is_some_and(|own| own.sample_at.is_some()) || special.is_grpc() {
            return policy;
        }
        match policy.sample_at {
            Some(SampleAt::Never) => return policy,
            None | Some(SampleAt::BodyEndOrDeadline) => special.upload(),
            Some(_) => special.judge_if(true),
        }
        policy.sample_at(SampleAt::OverloadOnly)
    }

    /// Adds what was asked for besides to a rejection.
    #[cold]
    fn tell_more(&self, rejection: &Rejection, special: Special, response: &mut Response<BodyData>) {
        if self.annotates {
            response.extensions_mut().insert(rejection.clone());
        }
        if let Some(reports) = self.reports() {
            reports.add(response.headers_mut(), special.report_format());
        }
    }

    pub(super) fn reject<B>(
        &self,
        rejection: &Rejection,
        special: Special,
        request: &mut Request<B>,
    ) -> Response<BodyData> {
        let own = self.respond.as_ref().and_then(|respond| respond(rejection, &RequestHead::of(request)));
        // An answer of HTTP reaches a client of gRPC as a broken protocol.
        let own = own.filter(|own| !special.is_grpc() || head::is_grpc(own.headers()));
        let mut response = if let Some(response) = own {
            let mut response = response.map(BodyData::new);
            response.headers_mut().entry(CACHE_CONTROL).or_insert(NO_STORE);
            response
        } else {
            let built_in = self.rejections.respond(rejection, special.is_grpc(), mem::take(request.headers_mut()));
            match &self.amend {
                Some(amend) => {
                    let (mut parts, body) = built_in.into_parts();
                    amend(rejection, &mut parts);
                    Response::from_parts(parts, body)
                }
                None => built_in,
            }
        };
        nesting::mark_rejection(response.extensions_mut());
        if self.is_unusual {
            self.tell_more(rejection, special, &mut response);
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

impl fmt::Debug for HttpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProtocol").field("policy", &self.policy).finish_non_exhaustive()
    }
}
