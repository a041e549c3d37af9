//! The service: decides in `call`, reserves nothing in `poll_ready`.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    AdmissionBody, HttpProtocol, Policy, RequestHead, ResponseFuture,
    context::{RequestContext, Special, tell_holder},
    future::State,
    nesting::Pass,
};
use crate::{
    runtime::{Entry, SlotGuard},
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

    #[expect(clippy::inline_always, reason = "measured: the future is not moved")]
    #[inline(always)]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let http = &*self.protocol;
        let head = RequestHead::of(&request);
        if http.is_exempt(&head) {
            return self.pass(request, None);
        }
        if let Some(pass) = Pass::behind(http.id()) {
            return self.pass(request, Some(pass));
        }
        // Most requests get no further than this: the ticket is not even moved.
        let mut ticket = Ticket::new();
        http.fill_in(&mut ticket, &head);
        let shared = &http.admission.shared;
        let partition = shared.partition_of(&ticket);
        if let Some(permit) = SlotGuard::enter(shared, partition, &ticket) {
            let policy = http.policy(&request);
            if policy.is_kept() {
                return self.enter(request, Entry::Admit(permit));
            }
            let context = self.context(&request, Some(permit), policy);
            return self.start(request, context);
        }
        let entry = Entry::of(&self.protocol, partition, &ticket);
        drop(ticket);
        self.enter(request, entry)
    }
}

impl<S> AdmissionService<S> {
    /// Goes on with a request that the engine decided about, or whose handler may keep its slot.
    fn enter<ReqBody, ResBody>(
        &mut self,
        mut request: Request<ReqBody>,
        entry: Entry<Arc<HttpProtocol>>,
    ) -> ResponseFuture<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        ReqBody: Body,
    {
        match entry {
            Entry::Admit(mut permit) => {
                let policy = self.protocol.policy(&request);
                tell_holder(&mut permit, policy, request.extensions_mut());
                let mut context = self.context(&request, Some(permit), policy);
                context.special.close_if(self.protocol.admission.shared.is_leaving(), request.version());
                self.start(request, context)
            }
            Entry::Wait(waiting) => {
                let context = self.context(&request, None, self.protocol.policy(&request));
                ResponseFuture::new(State::Waiting { waiting, service: self.inner.clone(), request, context })
            }
            Entry::Reject(rejection) => {
                let response = self.protocol.reject(&rejection, &mut request).map(AdmissionBody::rejected);
                ResponseFuture::new(State::Done { result: Some(Ok(response)) })
            }
        }
    }

    /// Calls the inner service at once if it is ready; otherwise the future drives it.
    #[expect(clippy::inline_always, reason = "measured: the future is not moved")]
    #[inline(always)]
    fn start<ReqBody, ResBody>(
        &mut self,
        request: Request<ReqBody>,
        mut context: RequestContext,
    ) -> ResponseFuture<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    {
        let inside = context.inside();
        match self.inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {
                context.has_started = true;
                let future = self.inner.call(request);
                context.leave(inside);
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

    /// Calls the inner service for a request that is exempt, or that passes this handle with the slot that it has.
    #[cold]
    fn pass<ReqBody, ResBody>(
        &mut self,
        request: Request<ReqBody>,
        pass: Option<Pass>,
    ) -> ResponseFuture<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
        ReqBody: Body,
    {
        if pass.is_some() {
            let shared = &self.protocol.admission.shared;
            shared.warn("a request met the same handle twice: remove one of the two layers");
        }
        let mut context = self.context(&request, None, Policy::new());
        context.pass = pass;
        self.start(request, context)
    }

    /// For a request that runs with this permit, or without one.
    #[expect(clippy::inline_always, reason = "measured: the context is made where it stays")]
    #[inline(always)]
    fn context<B>(&self, request: &Request<B>, permit: Option<SlotGuard>, policy: Policy) -> RequestContext {
        RequestContext {
            permit,
            assess: self.protocol.own_assess(),
            policy,
            special: Special::of(request.method() == Method::CONNECT),
            has_started: false,
            pass: None,
        }
    }
}
