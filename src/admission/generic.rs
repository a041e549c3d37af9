//! Admission for services that are not HTTP: rejected requests get a typed error.

use std::{
    any::Any,
    error::Error,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{AdmissionLayer, AdmissionService};
use crate::{
    Outcome,
    rejection::Rejection,
    runtime::{Admission, Entry, Shared, SlotGuard, Waiting},
    ticket::Ticket,
};

/// The protocol of services that are not HTTP. See [`AdmissionLayer::generic`].
///
/// The slot is held, and the round-trip time measured, until the response future is ready. `C` is the classifier and `A` the judge:
/// `()` unless set.
#[derive(Clone, Debug)]
pub struct GenericProtocol<C = (), A = ()> {
    admission: Admission,
    classify: C,
    assess: A,
    /// Whether work goes on after its request was given up, if that is told.
    goes_on: Option<bool>,
}

impl GenericProtocol {
    pub(super) const fn new(admission: Admission) -> Self {
        Self { admission, classify: (), assess: (), goes_on: None }
    }
}

/// Fills in the ticket of a request of any type. Implemented for closures; closures that borrow from the request need
/// [`classify_request_fn`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no classifier of requests of type `{Req}`",
    note = "a classifier is a closure `|request: &{Req}, ticket: &mut Ticket<'_>| …`; write `classify_request_fn(|request: &{Req}, ticket| …)` where it borrows from the request",
    note = "for HTTP and gRPC leave out `.generic()`"
)]
pub trait ClassifyRequest<Req> {
    /// Fills in the ticket.
    fn classify<'r>(&self, request: &'r Req, ticket: &mut Ticket<'r>);
}

#[diagnostic::do_not_recommend]
impl<Req, F> ClassifyRequest<Req> for F
where
    F: for<'r> Fn(&'r Req, &mut Ticket<'r>),
{
    fn classify<'r>(&self, request: &'r Req, ticket: &mut Ticket<'r>) {
        self(request, ticket);
    }
}

/// A classifier from a closure that borrows from the request.
///
/// A closure that is not given to this function may only set owned names: the compiler assumes that request and ticket
/// are unrelated, and says `lifetime may not live long enough`.
///
/// ```
/// use tower_admission::{Admission, AdmissionLayer, generic::classify_request_fn};
///
/// struct Job { tenant: String }
///
/// # let admission = Admission::builder().build().unwrap();
/// let layer = AdmissionLayer::new(&admission)
///     .generic()
///     .classify(classify_request_fn(|job: &Job, ticket| ticket.set_partition(&job.tenant)));
/// ```
pub const fn classify_request_fn<Req, F>(classify: F) -> F
where
    F: for<'r> Fn(&'r Req, &mut Ticket<'r>),
{
    classify
}

/// Decides what a result means for the limit. Implemented for closures.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not judge results of type `Result<&{Res}, &{Err}>`",
    note = "a judge is a closure `|result: Result<&{Res}, &{Err}>| Outcome::…`"
)]
pub trait AssessResult<Res, Err> {
    /// The outcome of a result.
    fn assess(&self, result: Result<&Res, &Err>) -> Outcome;
}

#[diagnostic::do_not_recommend]
impl<Res, Err, F> AssessResult<Res, Err> for F
where
    F: Fn(Result<&Res, &Err>) -> Outcome,
{
    fn assess(&self, result: Result<&Res, &Err>) -> Outcome {
        self(result)
    }
}

/// Puts all requests into the default partition.
impl<Req> ClassifyRequest<Req> for () {
    fn classify<'r>(&self, _: &'r Req, _: &mut Ticket<'r>) {}
}

/// Counts responses as successes and errors as cancelled requests: a slow error is evidence of load, a fast one is
/// none.
impl<Res, Err> AssessResult<Res, Err> for () {
    fn assess(&self, result: Result<&Res, &Err>) -> Outcome {
        if result.is_ok() { Outcome::Success } else { Outcome::Cancelled }
    }
}

impl AdmissionLayer {
    /// The layer of the same handle for services that are not HTTP: rejections are errors. All other settings are
    /// reset.
    ///
    /// Errors of the service count as cancelled: a slow error is evidence of load, a fast one is none. Where an error means overload,
    /// say so with `.assess(…)`. Its closure takes `Result<&Response, &Error>` and returns an [`Outcome`]:
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    /// use tower_admission::{Admission, AdmissionLayer, Outcome};
    ///
    /// # let admission = Admission::builder().build().unwrap();
    /// let layer = AdmissionLayer::new(&admission).generic().assess(|result: Result<&String, &Error>| match result {
    ///     Ok(_) => Outcome::Success,
    ///     Err(error) if error.kind() == ErrorKind::TimedOut => Outcome::Overload,
    ///     Err(_) => Outcome::Cancelled,
    /// });
    /// ```
    pub fn generic(self) -> AdmissionLayer<GenericProtocol> {
        AdmissionLayer {
            protocol: Arc::new(GenericProtocol::new(self.admission.clone())),
            admission: self.admission.clone(),
        }
    }
}

impl<C, A> AdmissionLayer<GenericProtocol<C, A>>
where
    C: Clone,
    A: Clone,
{
    /// Sets the classifier, which puts requests into partitions.
    #[must_use]
    pub fn classify<D>(self, classify: D) -> AdmissionLayer<GenericProtocol<D, A>> {
        let assess = self.protocol.assess.clone();
        self.replace(classify, assess)
    }

    /// Sets what a result means for the limit: a response is a success and an error is cancelled unless set.
    #[must_use]
    pub fn assess<B>(self, assess: B) -> AdmissionLayer<GenericProtocol<C, B>> {
        let classify = self.protocol.classify.clone();
        self.replace(classify, assess)
    }

    /// Says whether work goes on after its request was given up, as [`Abandoned::GoesOn`](crate::policy::Abandoned::GoesOn) does:
    /// the slot stays taken for as long as such work nearly always needs, for services that send their requests to a database,
    /// or to another server; otherwise the slot is free at once. So unless set where the
    /// [patience](crate::AdmissionBuilder::patience) of callers is set.
    #[must_use]
    pub fn abandoned_goes_on(mut self, goes_on: bool) -> Self {
        Arc::make_mut(&mut self.protocol).goes_on = Some(goes_on);
        self
    }

    fn replace<D, B>(self, classify: D, assess: B) -> AdmissionLayer<GenericProtocol<D, B>> {
        let goes_on = self.protocol.goes_on;
        let protocol = Arc::new(GenericProtocol { admission: self.admission.clone(), classify, assess, goes_on });
        AdmissionLayer { protocol, admission: self.admission }
    }
}

impl<S, C, A> Layer<S> for AdmissionLayer<GenericProtocol<C, A>> {
    type Service = AdmissionService<S, GenericProtocol<C, A>>;

    fn layer(&self, inner: S) -> Self::Service {
        AdmissionService::new(inner, Arc::clone(&self.protocol))
    }
}

/// The error of a rejected request, or of the service.
///
/// Implements [`Error`] for every error of a service, boxed errors included, as timeouts and buffers need it:
///
/// ```
/// use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
/// use tower_admission::{Admission, AdmissionLayer, generic::AdmissionError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let admission = Admission::builder().shed().build()?;
/// let service = ServiceBuilder::new()
///     .timeout(std::time::Duration::from_secs(5))
///     .layer(AdmissionLayer::new(&admission).generic())
///     .timeout(std::time::Duration::from_secs(1))
///     .service(service_fn(async |number: u32| Ok::<_, BoxError>(number + 1)));
///
/// match service.oneshot(1).await {
///     Ok(number) => assert_eq!(number, 2),
///     Err(error) => match error.downcast_ref::<AdmissionError<BoxError>>() {
///         Some(AdmissionError::Rejected(rejection)) => println!("come back in {:?}", rejection.retry_after()),
///         _ => return Err(error),
///     },
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AdmissionError<E> {
    /// The error of the service, unchanged.
    Inner(E),
    /// The request was not admitted; the service was not called.
    Rejected(Rejection),
}

impl<E: fmt::Display> fmt::Display for AdmissionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::Rejected(rejection) => write!(f, "rejected ({})", rejection.reason()),
        }
    }
}

/// Displays as the error of the service, if it is one. A boxed error gives its own source; any other error is in
/// [`Inner`](Self::Inner), and gives its source itself. The source of a rejected request is its [`Rejection`], which
/// [`Rejection::find`] finds.
impl<E: fmt::Debug + fmt::Display + 'static> Error for AdmissionError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let error = match self {
            Self::Inner(error) => error,
            Self::Rejected(rejection) => return Some(rejection),
        };
        // A boxed error is no `Error`, so no bound fits both kinds, and there is no asking whether `E` is one.
        let error: &dyn Any = error;
        if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
            boxed.source()
        } else if let Some(boxed) = error.downcast_ref::<Box<dyn Error + Send>>() {
            boxed.source()
        } else {
            error.downcast_ref::<Box<dyn Error>>()?.source()
        }
    }
}

impl<S, Req, C, A> Service<Req> for AdmissionService<S, GenericProtocol<C, A>>
where
    S: Service<Req> + Clone,
    C: ClassifyRequest<Req>,
    A: AssessResult<S::Response, S::Error>,
{
    type Response = S::Response;
    type Error = AdmissionError<S::Error>;
    type Future = GenericFuture<S, Req, GenericProtocol<C, A>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let mut ticket = Ticket::new();
        self.protocol.classify.classify(&request, &mut ticket);
        let shared = &self.protocol.admission.shared;
        let partition = shared.partition_of(&ticket);
        let entry = SlotGuard::enter(shared, partition, Some(&ticket));
        let entry = entry.map_or_else(|| Entry::of(shared, partition, &ticket, None), Entry::Admit);
        drop(ticket);
        let goes_on = self.protocol.goes_on;
        let state = match entry {
            Entry::Admit(permit) => match self.inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(())) => {
                    let work = Work { permit: Some(permit), goes_on };
                    State::Running { future: self.inner.call(request), work }
                }
                Poll::Ready(Err(error)) => State::Done { error: Some(AdmissionError::Inner(error)) },
                Poll::Pending => {
                    let fresh = self.inner.clone();
                    let service = mem::replace(&mut self.inner, fresh);
                    State::Preparing { service, request, permit }
                }
            },
            Entry::Wait(waiting) => State::Waiting { waiting, service: self.inner.clone(), request },
            Entry::Reject(rejection) => State::Done { error: Some(AdmissionError::Rejected(rejection)) },
        };
        GenericFuture { state, protocol: Arc::clone(&self.protocol) }
    }
}

pin_project! {
    /// The future of a [`GenericProtocol`] service. Dropping the future gives back its place in line or its slot, unless the
    /// work [goes on](AdmissionLayer::abandoned_goes_on).
    pub struct GenericFuture<S, Req, P>
    where
        S: Service<Req>,
    {
        #[pin]
        state: State<S, Req, S::Future, S::Error>,
        protocol: Arc<P>,
    }
}

/// The slot of a request whose service was called.
struct Work {
    permit: Option<SlotGuard>,
    goes_on: Option<bool>,
}

/// The request was given up.
impl Drop for Work {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.give_up(self.goes_on, |outcome| outcome);
        }
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateReplace]
    enum State<S, Req, F, E> {
        Waiting { waiting: Waiting<Arc<Shared>>, service: S, request: Req },
        Preparing { service: S, request: Req, permit: SlotGuard },
        Running { #[pin] future: F, work: Work },
        Done { error: Option<AdmissionError<E>> },
    }
}

impl<S, Req, C, A> Future for GenericFuture<S, Req, GenericProtocol<C, A>>
where
    S: Service<Req>,
    A: AssessResult<S::Response, S::Error>,
{
    type Output = Result<S::Response, AdmissionError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut state = this.state;
        loop {
            match state.as_mut().project() {
                StateProj::Waiting { waiting, .. } => {
                    let answer = ready!(Pin::new(waiting).poll(cx));
                    let waited = state.as_mut().project_replace(State::Done { error: None });
                    let StateReplace::Waiting { service, request, .. } = waited else { unreachable!() };
                    match answer {
                        Ok(permit) => state.set(State::Preparing { service, request, permit }),
                        Err(rejection) => return Poll::Ready(Err(AdmissionError::Rejected(rejection))),
                    }
                }
                StateProj::Preparing { service, .. } => {
                    let ready = ready!(service.poll_ready(cx));
                    let prepared = state.as_mut().project_replace(State::Done { error: None });
                    let StateReplace::Preparing { mut service, request, permit } = prepared else { unreachable!() };
                    if let Err(error) = ready {
                        return Poll::Ready(Err(AdmissionError::Inner(error)));
                    }
                    let work = Work { permit: Some(permit), goes_on: this.protocol.goes_on };
                    state.set(State::Running { future: service.call(request), work });
                }
                StateProj::Running { future, work } => {
                    let result = ready!(future.poll(cx));
                    if let Some(permit) = work.permit.take() {
                        permit.finish(this.protocol.assess.assess(result.as_ref()));
                    }
                    state.set(State::Done { error: None });
                    return Poll::Ready(result.map_err(AdmissionError::Inner));
                }
                StateProj::Done { error } => {
                    let Some(error) = error.take() else { panic!("`GenericFuture` was polled after it was ready") };
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl<S: Service<Req>, Req, P> fmt::Debug for GenericFuture<S, Req, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericFuture").finish_non_exhaustive()
    }
}
