//! What a request carries through the service, and what its handler is told.

use std::{sync::Arc, time::Duration};

use http::{Extensions, HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header::CONNECTION};
use http_body::Body;
use tokio::time::Instant;

use super::{
    Assess, Policy, ReleaseAt, RequestHead, SampleAt,
    assess::{ForResponses, judge},
    body::{Guard, Learned},
    head::{GRPC_STATUS, is_grpc},
    nesting::{Mark, Pass},
    respond::load_reports::{Format, asks_for_json},
};
use crate::{Outcome, Timestamp, runtime::SlotGuard, ticket::Ticket};

/// What is special about a request when its response comes: one byte, so that most are told apart by one test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Special(u8);

impl Special {
    const CONNECT: u8 = 1;
    const CLOSES: u8 = 1 << 1;
    /// The response may not mean what it means by default: there is a policy, something is done with responses, or the request
    /// passes the layer.
    const JUDGED: u8 = 1 << 2;
    const GRPC: u8 = 1 << 3;
    /// The response carries a load report.
    const REPORTS: u8 = 1 << 4;
    const JSON: u8 = 1 << 5;
    /// The body of the request is large, so that its time depends on the client as well.
    const UPLOADS: u8 = 1 << 6;

    #[inline]
    pub(super) fn of(request: &RequestHead<'_>) -> Self {
        Self(u8::from(request.method() == Method::CONNECT) | (u8::from(request.is_grpc()) * Self::GRPC))
    }

    /// Whether the request is a call of gRPC. No header of gRPC is looked for where it is not.
    #[inline]
    pub(super) const fn is_grpc(self) -> bool {
        self.0 & Self::GRPC != 0
    }

    /// The response may not mean what it means by default.
    #[inline]
    pub(super) fn judge_if(&mut self, is_judged: bool) {
        self.0 |= u8::from(is_judged) * Self::JUDGED;
    }

    /// The body of the request is large, and its policy does not say what is learned from it.
    #[cold]
    pub(super) fn upload(&mut self) {
        self.0 |= Self::JUDGED | Self::UPLOADS;
    }

    /// The response carries a load report, in the form that the request asks for.
    #[cold]
    pub(super) fn report(&mut self, headers: &HeaderMap) {
        self.0 |= Self::REPORTS | (u8::from(asks_for_json(headers)) * Self::JSON);
    }

    pub(super) const fn report_format(self) -> Format {
        match self.0 & (Self::GRPC | Self::JSON) {
            0 => Format::Text,
            Self::JSON => Format::Json,
            _ => Format::Binary,
        }
    }

    /// The response tells the client to close its connection, if it can.
    #[inline]
    pub(super) fn close_if(&mut self, is_leaving: bool, version: Version) {
        self.0 |= u8::from(is_leaving && version <= Version::HTTP_11) * Self::CLOSES;
    }
}

/// Tells a client to close its connection after this response, unless the service has said what becomes of it.
#[cold]
pub(super) fn close_connection<B>(response: &mut Response<B>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().entry(CONNECTION).or_insert(HeaderValue::from_static("close"));
    }
}

/// What a request carries through the service.
pub(super) struct RequestContext {
    /// `None` while the request waits, and for exempt requests.
    pub(super) permit: Option<SlotGuard>,
    /// Where this thread is while it calls or polls the service.
    pub(super) mark: Mark,
    /// What is done with the response, unless that is the default.
    pub(super) responses: Option<Arc<ForResponses>>,
    pub(super) policy: Policy,
    pub(super) special: Special,
    /// Whether the service was called.
    pub(super) has_started: bool,
    /// Where the request has its slot from a layer around this one.
    pub(super) pass: Option<Pass>,
}

impl RequestContext {
    /// Gives the slot back of a request that was given up, or leaves it to its work.
    #[cold]
    fn give_up(&mut self) {
        match &mut self.permit {
            Some(permit) if self.has_started => {
                permit.give_up(self.policy.goes_on(), |outcome| self.policy.learned(outcome));
            }
            _ => self.abandon(),
        }
    }

    /// Gives the slot back of a request whose service failed.
    #[inline]
    pub(super) fn abandon(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.abandon(|outcome| self.policy.learned(outcome));
        }
    }

    /// Learns what the head of the response says. Returns what is left to do when the body ends: nothing, if the body
    /// has ended already or is never read.
    #[expect(clippy::inline_always, reason = "measured: the guard is made where it stays")]
    #[inline(always)]
    pub(super) fn watch<B: Body>(&mut self, response: &mut Response<B>) -> Option<Guard> {
        let at_end = if self.is_usual() && is_usual(response) {
            AtEnd { outcome: Outcome::Success, is_later: true, until: None, has_trailers: false, reports: false }
        } else {
            self.watch_any(response)?
        };
        let permit = self.permit.take()?;
        let learned = match at_end.until {
            _ if at_end.is_later => Learned::Head(permit.observe_later()),
            Some(until) => Learned::Until(until),
            None => Learned::AtEnd,
        };
        let AtEnd { outcome, has_trailers, reports, .. } = at_end;
        let responses = if has_trailers || reports { self.responses.take() } else { None };
        Some(Guard { permit, outcome, learned, has_trailers, responses })
    }

    /// Whether nothing was set for this request that says what its response means.
    #[inline]
    fn is_usual(&self) -> bool {
        let is_usual = self.special == Special(0);
        #[cfg(test)]
        assert!(!is_usual || self.policy == Policy::new() && self.responses.is_none() && self.pass.is_none());
        is_usual
    }

    fn assess(&self) -> Option<&dyn Assess> {
        self.responses.as_ref()?.assess.as_deref()
    }

    /// Adds a load report to the head, if there is to be one. Returns whether it belongs into trailers instead.
    fn report<B>(&self, response: &mut Response<B>) -> bool {
        let reports = self.responses.as_ref().and_then(|responses| responses.reports.as_ref());
        let Some(reports) = reports.filter(|_| self.special.0 & Special::REPORTS != 0) else { return false };
        let headers = response.headers_mut();
        let has_trailers = self.special.is_grpc() && is_grpc(headers) && !headers.contains_key(&GRPC_STATUS);
        if !has_trailers {
            reports.add(headers, self.special.report_format());
        }
        has_trailers
    }

    /// The same for any request and any response. Returns parts: a guard would be moved once more.
    #[inline(never)]
    fn watch_any<B: Body>(&mut self, response: &mut Response<B>) -> Option<AtEnd> {
        let mut is_connect = false;
        self.pass = None;
        if self.special.0 != 0 {
            is_connect = self.special.0 & Special::CONNECT != 0;
            if self.special.0 & Special::CLOSES != 0 {
                close_connection(response);
            }
        }
        let reports = self.report(response);
        let response = &*response;
        let mut is_upload = self.special.0 & Special::UPLOADS != 0;
        if let Some(own) = response.extensions().get::<Policy>() {
            is_upload &= own.sample_at.is_none();
            self.policy = own.or(self.policy);
        }
        let policy = self.policy;
        // The permit is still here while the response is judged: that is foreign code.
        self.permit.as_ref()?;
        let judged = judge(self.assess(), response, self.special.is_grpc());
        let permit = self.permit.as_mut()?;
        let mut until = if is_upload && judged == Outcome::Success { permit.answer(false, true) } else { None };
        let outcome = if until.is_some() { judged } else { policy.learned(judged) };
        let upgraded =
            response.status() == StatusCode::SWITCHING_PROTOCOLS || (is_connect && response.status().is_success());
        if upgraded || policy.release_at == Some(ReleaseAt::ResponseHead) || response.body().is_end_stream() {
            permit.give_back(outcome, None);
            self.permit = None;
            return None;
        }
        let is_learned_at_head = policy.sample_at != Some(SampleAt::BodyEnd);
        let is_later = is_learned_at_head && is_short(response.body()) && outcome != Outcome::Overload;
        let is_of_slot = matches!(policy.sample_at, None | Some(SampleAt::BodyEndOrDeadline));
        if is_of_slot && !is_later && outcome == Outcome::Success {
            until = permit.answer(policy.sample_at.is_some(), false);
        }
        if is_learned_at_head && !is_later && until.is_none() {
            permit.observe(outcome);
        }
        // Trailers count where the head has not said it all; gRPC says it in the head only if there is no message.
        let has_trailers = self.special.is_grpc()
            && policy.sample_at != Some(SampleAt::Never)
            && outcome != Outcome::Overload
            && is_grpc(response.headers())
            && !response.headers().contains_key(&GRPC_STATUS);
        Some(AtEnd { outcome, is_later, until, has_trailers, reports })
    }
}

/// What the end of a body has to do, by what its head said.
struct AtEnd {
    outcome: Outcome,
    /// Whether the sample is taken with the end of the body, though it is of the head.
    is_later: bool,
    /// Until when the sample is taken, at the latest, of a body that goes on.
    until: Option<Timestamp>,
    /// Whether trailers may say more.
    has_trailers: bool,
    /// Whether trailers carry a load report.
    reports: bool,
}

/// Whether this is a success with a short body, by all that a response can say.
#[inline]
fn is_usual<B: Body>(response: &Response<B>) -> bool {
    let status = response.status();
    response.extensions().is_empty()
        && status < StatusCode::INTERNAL_SERVER_ERROR
        && status != StatusCode::SWITCHING_PROTOCOLS
        && !response.body().is_end_stream()
        && is_short(response.body())
}

/// Whether a body is of a known and small size: its end follows its head, so that both are told at once.
#[inline]
fn is_short(body: &impl Body) -> bool {
    /// Bytes that leave with the head, or soon after, also where the client reads slowly.
    const SHORT: u64 = 16 * 1_024;
    body.size_hint().exact().is_some_and(|bytes| bytes <= SHORT)
}

/// A request that ends without a head: its client left, or its service was never called.
impl Drop for RequestContext {
    #[inline]
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.give_up();
        }
    }
}

/// Puts into a request's extensions what its handler may want to know of its permit, and what it keeps the slot with.
pub(super) fn tell_holder(permit: &mut SlotGuard, policy: Policy, extensions: &mut Extensions) {
    if let Some(expiry) = permit.watch_time() {
        extensions.insert(expiry);
    }
    if let Some(lease) = permit.watch_lease() {
        extensions.insert(lease);
    }
    if policy.is_kept()
        && let Some(keeper) = permit.share()
    {
        extensions.insert(keeper);
    }
}

/// How a request was admitted: in the extensions of each request behind a layer that [annotates](crate::AdmissionLayer::annotate).
#[derive(Clone, Debug)]
pub struct Grant {
    partition: Arc<str>,
    class: Option<Box<str>>,
    label: Option<Box<str>>,
    came: Instant,
    waited: Duration,
}

impl Grant {
    pub(super) fn of(ticket: &Ticket<'_>, partition: Arc<str>) -> Self {
        let (class, label) = (ticket.class_name().map(Into::into), ticket.label_name().map(Into::into));
        Self { partition, class, label, came: Instant::now(), waited: Duration::ZERO }
    }

    /// Notes that the wait is over.
    pub(super) fn end_wait(&mut self) {
        self.waited = self.came.elapsed();
    }

    /// How long the request waited for its slot; 0 where a slot was free.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// The name of the partition that the request belongs to.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The class of the request, if it has one.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// The label of the request, if it has one.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;
    use crate::{Admission, Ticket, admission::SampleAt, limit::Fixed};

    /// What is told of a usual response is what is told of any.
    #[test]
    fn a_usual_response_means_what_any_response_means() {
        let admission = Admission::builder().limit(Fixed::new(9)).build().unwrap();
        let mut usual = 0;
        for (status, length) in (100..1_000).flat_map(|status| [0, 1, 16_384, 16_385].map(|length| (status, length))) {
            for policy in [Policy::new(), Policy::new().sample_at(SampleAt::BodyEnd)] {
                let permit = Some(admission.try_admit(Ticket::new()).unwrap().into_slot());
                let mut context = RequestContext {
                    permit,
                    mark: Mark::NONE,
                    responses: None,
                    policy,
                    special: Special(if policy == Policy::new() { 0 } else { Special::JUDGED }),
                    has_started: true,
                    pass: None,
                };
                let mut response = Response::new(Full::new(Bytes::from(vec![0; length])));
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                if context.is_usual() && is_usual(&response) {
                    usual += 1;
                    let at_end = context.watch_any(&mut response).unwrap();
                    assert_eq!(
                        (at_end.outcome, at_end.is_later, at_end.has_trailers),
                        (Outcome::Success, true, false),
                        "{status} {length}"
                    );
                }
            }
        }
        assert_eq!(usual, 2 * 399, "from 100 to 499 but 101, with a body that is short");
    }
}
