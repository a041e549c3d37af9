//! The service: decides in `call`, reserves nothing in `poll_ready`.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    AdmissionBody, BodyData, Grant, HttpProtocol, Policy, RequestHead, ResponseFuture,
    context::{RequestContext, Special, tell_holder},
    future::State,
    nesting::{Mark, Pass},
};
use crate::{
    engine::Refusal,
    runtime::{Entry, SlotGuard, Waiting},
    ticket::Ticket,
};

/// A service behind an [`AdmissionLayer`](super::AdmissionLayer).
///
/// Always ready: the decision needs the request, and a slot that is reserved earlier would be lost to idle clones. The
/// readiness of the inner service is driven after admission, on the clone that is then called.
#[derive(Clone, Debug)]
pub struct AdmissionService<S, P = HttpProtocol> {
    pub(super) inner: S,
    pub(super) protocol: Arc<P>,
}

impl<S, P> AdmissionService<S, P> {
    pub(super) const fn new(inner: S, protocol: Arc<P>) -> Self {
        Self { inner, protocol }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for AdmissionService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: Body,
    ResBody: Body,
    ResBody::Data: From<Bytes>,
{
    type Response = Response<AdmissionBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, ResBody>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    /// The future is made here and nowhere else: a function that returned it would move it once more. Rare ways return parts.
    #[expect(clippy::inline_always, reason = "measured: the future is not moved")]
    #[inline(always)]
    fn call(&mut self, mut request: Request<ReqBody>) -> Self::Future {
        let http = &*self.protocol;
        let head = RequestHead::of(&request);
        let mut special = Special::of(&head);
        let mut context = 'decided: {
            if http.exempt.as_ref().is_some_and(|exempt| exempt(&head)) {
                break 'decided http.pass(special, None);
            }
            if let Some(pass) = Pass::behind(http.id()) {
                break 'decided http.pass(special, Some(pass));
            }
            // Most requests get no further than this: a ticket is not even made, or not moved.
            let shared = &http.admission.shared;
            let mut ticket = None;
            let partition = if http.is_blank(&head, special.is_grpc()) {
                shared.partition(http.partition_name(&head))
            } else {
                let ticket = ticket.insert(Ticket::new());
                http.fill_in(ticket, &head, special.is_grpc());
                shared.partition_of(ticket)
            };
            let entry = match SlotGuard::enter(shared, partition, ticket.as_ref()) {
                Some(permit) => {
                    let policy = http.policy(&request, &mut special);
                    if !policy.is_kept() && !http.is_unusual {
                        break 'decided http.context(special, Some(permit), policy);
                    }
                    Entry::Admit(permit)
                }
                None => match shared.standing_refusal(partition, ticket.as_ref()) {
                    None => {
                        let named = || Ticket::named(http.partition_name(&head));
                        Entry::arrive(&self.protocol, partition, ticket.get_or_insert_with(named), true, None)
                    }
                    Some(refusal) => {
                        let left = ticket.as_ref().and_then(Ticket::remaining);
                        let response = http.turn_away(refusal, left, special, &mut request);
                        let result = Some(Ok(response.map(AdmissionBody::rejected)));
                        return ResponseFuture::new(State::Done { result });
                    }
                },
            };
            let grant =
                http.annotates.then(|| Grant::of(ticket.get_or_insert_default(), shared.partition_name(partition)));
            drop(ticket);
            if let Some(grant) = grant {
                request.extensions_mut().insert(grant);
            }
            match http.enter(&mut request, special, entry) {
                Entered::Run(context) => context,
                Entered::Wait(waiting, context) => {
                    let service = self.inner.clone();
                    return ResponseFuture::new(State::Waiting { waiting, service, request, context });
                }
                Entered::Answer(response) => {
                    let result = Some(Ok(response.map(AdmissionBody::rejected)));
                    return ResponseFuture::new(State::Done { result });
                }
            }
        };
        let inside = context.mark.enter();
        match self.inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {
                context.has_started = true;
                let future = self.inner.call(request);
                context.mark.leave(inside);
                ResponseFuture::new(State::Running { future, context })
            }
            Poll::Ready(Err(error)) => ResponseFuture::new(State::Done { result: Some(Err(error)) }),
            Poll::Pending => {
                // The one that was polled goes: what it may have reserved by now belongs to this request.
                let fresh = self.inner.clone();
                let service = mem::replace(&mut self.inner, fresh);
                ResponseFuture::new(State::Preparing { service, request, context })
            }
        }
    }
}

/// What becomes of a request that does not take the quiet path.
enum Entered {
    Run(RequestContext),
    Wait(Waiting<Arc<HttpProtocol>>, RequestContext),
    Answer(Response<BodyData>),
}

impl HttpProtocol {
    /// Goes on with a request that the engine decided about, or whose handler may keep its slot.
    #[inline(never)]
    fn enter<B: Body>(&self, request: &mut Request<B>, mut special: Special, entry: Entry<Arc<Self>>) -> Entered {
        self.report_if_asked(&mut special, request);
        match entry {
            Entry::Admit(mut permit) => {
                let policy = self.policy(request, &mut special);
                tell_holder(&mut permit, policy, request.extensions_mut());
                let mut context = self.context(special, Some(permit), policy);
                context.special.close_if(self.admission.shared.is_leaving(), request.version());
                Entered::Run(context)
            }
            Entry::Wait(waiting) => {
                let policy = self.policy(request, &mut special);
                Entered::Wait(waiting, self.context(special, None, policy))
            }
            Entry::Reject(rejection) => Entered::Answer(self.reject(&rejection, special, request)),
        }
    }

    /// Answers a request while a refusal stands; `left` is left of its own deadline.
    #[inline(never)]
    fn turn_away<B>(
        &self,
        refusal: Refusal,
        left: Option<Duration>,
        mut special: Special,
        request: &mut Request<B>,
    ) -> Response<BodyData> {
        self.report_if_asked(&mut special, request);
        let rejection = self.admission.shared.turn_away(refusal, left, None);
        self.reject(&rejection, special, request)
    }

    /// Has the response report the load, where that is set.
    #[inline]
    fn report_if_asked<B>(&self, special: &mut Special, request: &Request<B>) {
        if self.is_unusual && self.reports().is_some() {
            special.report(request.headers());
        }
    }

    /// For a request that is exempt, or that passes this handle with the slot that it has.
    #[cold]
    fn pass(&self, mut special: Special, pass: Option<Pass>) -> RequestContext {
        if pass.is_some() {
            self.admission.shared.warn("a request met the same handle twice: remove one of the two layers");
        }
        special.judge_if(true);
        let mut context = self.context(special, None, Policy::new());
        context.pass = pass;
        context
    }

    /// For a request that runs with this permit, or without one.
    #[expect(clippy::inline_always, reason = "measured: the context is made where it stays")]
    #[inline(always)]
    fn context(&self, special: Special, permit: Option<SlotGuard>, policy: Policy) -> RequestContext {
        let mark = if permit.is_some() { Mark::of(self.id()) } else { Mark::NONE };
        let responses = self.responses.clone();
        RequestContext { permit, mark, responses, policy, special, has_started: false, pass: None }
    }
}
