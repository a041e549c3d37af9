//! The future of a response: waits for a slot, drives the service, learns at the head, hands the slot to the body.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    AdmissionBody, Grant, HttpProtocol,
    context::{RequestContext, tell_holder},
    nesting::Mark,
};
use crate::runtime::Waiting;

pin_project! {
    /// The future of [`AdmissionService`](super::AdmissionService).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives back its place in line or its slot. A request that was running then counts as
    /// [`Outcome::Cancelled`](crate::Outcome::Cancelled).
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
        Waiting { waiting: Waiting<Arc<HttpProtocol>>, service: S, request: Request<ReqBody>, context: RequestContext },
        /// Has a slot; the service is not ready yet.
        Preparing { service: S, request: Request<ReqBody>, context: RequestContext },
        Running { #[pin] future: F, context: RequestContext },
        Done { result: Option<Result<Response<AdmissionBody<ResBody>>, E>> },
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

impl<S, ReqBody, ResBody> State<S, ReqBody, ResBody, S::Future, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
{
    /// Brings a request that does not run yet one step further.
    #[cold]
    fn advance(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.as_mut().project() {
            StateProj::Waiting { waiting, .. } => {
                let answer = ready!(Pin::new(waiting).poll(cx));
                let waited = self.as_mut().project_replace(Self::Done { result: None });
                let StateReplace::Waiting { waiting, service, mut request, mut context } = waited else {
                    unreachable!()
                };
                match answer {
                    Ok(mut permit) => {
                        context.special.close_if(waiting.handle().admission.shared.is_leaving(), request.version());
                        if waiting.handle().annotates
                            && let Some(grant) = request.extensions_mut().get_mut::<Grant>()
                        {
                            grant.end_wait();
                        }
                        tell_holder(&mut permit, context.policy, request.extensions_mut());
                        (context.permit, context.mark) = (Some(permit), Mark::of(waiting.handle().id()));
                        self.set(Self::Preparing { service, request, context });
                    }
                    Err(rejection) => {
                        let response = waiting.handle().reject(&rejection, context.special, &mut request);
                        self.set(Self::Done { result: Some(Ok(response.map(AdmissionBody::rejected))) });
                    }
                }
            }
            StateProj::Preparing { service, .. } => {
                let ready = ready!(service.poll_ready(cx));
                let prepared = self.as_mut().project_replace(Self::Done { result: None });
                let StateReplace::Preparing { mut service, request, mut context } = prepared else { unreachable!() };
                if let Err(error) = ready {
                    self.set(Self::Done { result: Some(Err(error)) });
                    return Poll::Ready(());
                }
                context.has_started = true;
                let inside = context.mark.enter();
                let future = service.call(request);
                context.mark.leave(inside);
                self.set(Self::Running { future, context });
            }
            StateProj::Running { .. } | StateProj::Done { .. } => {}
        }
        Poll::Ready(())
    }
}

impl<S, ReqBody, ResBody> Future for ResponseFuture<S, ReqBody, ResBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    ResBody: Body,
{
    type Output = Result<Response<AdmissionBody<ResBody>>, S::Error>;

    #[expect(clippy::inline_always, reason = "measured: the response is moved once less")]
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Running { future, context } => {
                    let inside = context.mark.enter();
                    // The result has no name: the response would be moved once more.
                    return match future.poll(cx) {
                        Poll::Ready(Ok(mut response)) => {
                            drop(inside);
                            let guard = context.watch(&mut response);
                            Poll::Ready(Ok(response.map(|body| AdmissionBody::new(body, guard))))
                        }
                        Poll::Ready(Err(error)) => {
                            drop(inside);
                            context.abandon();
                            Poll::Ready(Err(error))
                        }
                        Poll::Pending => {
                            context.mark.leave(inside);
                            Poll::Pending
                        }
                    };
                }
                StateProj::Done { result } => {
                    let Some(result) = result.take() else { panic!("`ResponseFuture` was polled after it was ready") };
                    return Poll::Ready(result);
                }
                StateProj::Waiting { .. } | StateProj::Preparing { .. } => ready!(state.as_mut().advance(cx)),
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
