//! The future of a response: waits for a slot, drives the service, learns at the head, hands the slot to the body.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    AdmissionBody, HttpProtocol, Policy, ReleaseAt, SampleAt,
    assess::judge,
    body::Guard,
    head::{GRPC_STATUS, is_grpc},
    service::tell_holder,
};
use crate::{
    outcome::Outcome,
    runtime::{Held, Waiting},
};

pin_project! {
    /// The future of [`AdmissionService`](super::AdmissionService).
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives back its place in line or its slot. A request that was running counts as
    /// [`Outcome::Cancelled`] then.
    pub struct ResponseFuture<S, ReqBody, ResBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, ReqBody, ResBody, S::Future, S::Error>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateReplace]
    pub(super) enum State<S, ReqBody, ResBody, F, E> {
        /// In line for a slot.
        Waiting { waiting: Waiting<Arc<HttpProtocol>>, service: S, request: Request<ReqBody>, passage: Passage },
        /// Has a slot; the service is not ready yet.
        Preparing { service: S, request: Request<ReqBody>, passage: Passage },
        Running { #[pin] future: F, passage: Option<Passage> },
        Done { result: Option<Result<Response<AdmissionBody<ResBody>>, E>> },
    }
}

/// What a request carries through the service.
pub(super) struct Passage {
    /// None while it waits, and for those that are not subject to admission.
    pub(super) permit: Option<Held<Arc<HttpProtocol>>>,
    pub(super) policy: Policy,
    pub(super) is_connect: bool,
}

impl Passage {
    /// Learns what the head of the response says. Answers what is left to do when its body ends: nothing, if that has
    /// ended already or nobody waits for it.
    fn watch<B: Body>(mut self, response: &Response<B>) -> Option<Guard> {
        if let Some(own) = response.extensions().get::<Policy>() {
            self.policy = own.or(self.policy);
        }
        let policy = self.policy;
        // Still here while the response is judged: that is foreign code.
        let outcome = policy.learned(judge(&*self.permit.as_ref()?.handle().assess, response));
        let mut permit = self.permit.take()?;
        let upgraded =
            response.status() == StatusCode::SWITCHING_PROTOCOLS || (self.is_connect && response.status().is_success());
        if upgraded || policy.release_at == Some(ReleaseAt::ResponseHead) || response.body().is_end_stream() {
            permit.finish(outcome);
            return None;
        }
        if policy.sample_at != Some(SampleAt::BodyEnd) {
            permit.observe(outcome);
        }
        // Trailers count where the head has not said it all; gRPC says it in the head only if there is no message.
        let has_trailers = policy.sample_at != Some(SampleAt::Never)
            && outcome != Outcome::Overload
            && is_grpc(response.headers())
            && !response.headers().contains_key(&GRPC_STATUS);
        Some(Guard::new(permit, outcome, has_trailers))
    }
}

/// A request that ends without a head: its client left, or the service failed.
impl Drop for Passage {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.abandon(|outcome| self.policy.learned(outcome));
        }
    }
}

impl<S, ReqBody, ResBody> ResponseFuture<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(super) const fn new(state: State<S, ReqBody, ResBody, S::Future, S::Error>) -> Self {
        Self { state }
    }
}

impl<S, ReqBody, ResBody> Future for ResponseFuture<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body,
{
    type Output = Result<Response<AdmissionBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Waiting { waiting, .. } => {
                    let answer = ready!(Pin::new(waiting).poll(cx));
                    let waited = state.as_mut().project_replace(State::Done { result: None });
                    let StateReplace::Waiting { waiting, service, mut request, mut passage } = waited else {
                        unreachable!()
                    };
                    match answer {
                        Ok(permit) => {
                            tell_holder(&permit, request.extensions_mut());
                            passage.permit = Some(permit);
                            state.set(State::Preparing { service, request, passage });
                        }
                        Err(rejection) => {
                            let response = waiting.handle().reject(&rejection, &request);
                            return Poll::Ready(Ok(response.map(AdmissionBody::rejected)));
                        }
                    }
                }
                StateProj::Preparing { service, .. } => {
                    let ready = ready!(service.poll_ready(cx));
                    let prepared = state.as_mut().project_replace(State::Done { result: None });
                    let StateReplace::Preparing { mut service, request, passage } = prepared else { unreachable!() };
                    if let Err(error) = ready {
                        return Poll::Ready(Err(error));
                    }
                    state.set(State::Running { future: service.call(request), passage: Some(passage) });
                }
                StateProj::Running { future, passage } => {
                    let result = ready!(future.poll(cx));
                    // Only what is needed is moved out: the future that has ended is as large as it is done with.
                    let passage = passage.take();
                    state.set(State::Done { result: None });
                    let guard = match (&result, passage) {
                        (Ok(response), Some(passage)) => passage.watch(response),
                        _ => None,
                    };
                    return Poll::Ready(result.map(|response| response.map(|body| AdmissionBody::new(body, guard))));
                }
                StateProj::Done { result } => {
                    let Some(result) = result.take() else { panic!("`ResponseFuture` was polled after it was ready") };
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl<S, ReqBody, ResBody> fmt::Debug for ResponseFuture<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
