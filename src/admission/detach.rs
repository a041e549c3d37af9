//! Work that is driven to its end, also when its request is given up.

use std::{
    fmt,
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use http::Request;
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    AdmissionLayer, AdmissionService,
    nesting::Mark,
    policy::{Abandoned, Policy},
};
use crate::runtime::{KeptSlot, SlotKeeper};

/// Like [`AdmissionLayer`] for services whose work is to end, also when its request is given up: made by
/// [`AdmissionLayer::detach`].
#[derive(Clone, Debug)]
pub struct DetachedLayer(AdmissionLayer);

impl AdmissionLayer {
    /// Drives each request in a task of its own. Where a request is given up, its work goes on to its end, and holds its slot
    /// until then: so no more work is under way than the limit says, also where callers leave early.
    ///
    /// Costs a task for each request. The service runs outside of the task of its connection, so task-local values and tracing
    /// spans of that don't reach it. A service that never answers holds its slot for ever: put a timeout inside of the layer, or set
    /// [`permit_time_to_live`](crate::AdmissionBuilder::permit_time_to_live). A request that holds no slot of this layer is not
    /// detached and stops with its caller: it is exempt, or a layer of the same handle around this one has counted it.
    ///
    /// # Panics
    ///
    /// The service panics when it is called outside of a Tokio runtime. A panic of the inner service passes through.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use tower_admission::{Admission, AdmissionLayer};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let admission = Admission::builder().build()?;
    /// let app: Router = Router::new()
    ///     .route("/report", get(async || "a long query, which goes on"))
    ///     .layer(AdmissionLayer::new(&admission).detach());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn detach(self) -> DetachedLayer {
        DetachedLayer(self.policy(Policy::new().abandoned(Abandoned::Kept)))
    }
}

impl<S> Layer<S> for DetachedLayer {
    type Service = AdmissionService<Detached<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(Detached { inner })
    }
}

/// A service whose work is driven in tasks of its own: the inside of [`DetachedLayer`].
#[derive(Clone, Debug)]
pub struct Detached<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for Detached<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = DetachedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let kept = request.extensions().get::<SlotKeeper>().and_then(SlotKeeper::keep);
        let Some(kept) = kept else {
            return DetachedFuture { state: State::Inline { work: self.inner.call(request) } };
        };
        let mut mark = Mark::of(kept.handle_id());
        let inside = mark.enter();
        let work = self.inner.call(request);
        mark.leave(inside);
        DetachedFuture { state: State::Task { task: tokio::spawn(drive(work, kept, mark)) } }
    }
}

/// Drives work to its end. The slot comes along: where nothing waits for the answer any more, both are dropped together.
async fn drive<F: Future>(work: F, kept: KeptSlot, mut mark: Mark) -> (F::Output, KeptSlot) {
    let mut work = pin!(work);
    let output = poll_fn(|cx| {
        let inside = mark.enter();
        let output = work.as_mut().poll(cx);
        mark.leave(inside);
        output
    });
    (output.await, kept)
}

pin_project! {
    /// The future of [`Detached`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it does not stop the work of a request that holds a slot.
    pub struct DetachedFuture<F>
    where
        F: Future,
    {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F>
    where
        F: Future,
    {
        Task { task: JoinHandle<(F::Output, KeptSlot)> },
        /// Without a slot of its own, nothing would count the work.
        Inline { #[pin] work: F },
    }
}

impl<F: Future> fmt::Debug for DetachedFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedFuture").finish_non_exhaustive()
    }
}

impl<F: Future> Future for DetachedFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let task = match self.project().state.project() {
            StateProj::Task { task } => task,
            StateProj::Inline { work } => return work.poll(cx),
        };
        match ready!(Pin::new(task).poll(cx)) {
            Ok((output, _kept)) => Poll::Ready(output),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime shuts down, and this task with it.
                Err(_) => Poll::Pending,
            },
        }
    }
}
