//! Work that is driven to its end, also when its request is given up.

use std::{
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use http::Request;
use tokio::task::JoinHandle;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    AdmissionLayer, AdmissionService,
    nesting::Inside,
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
    /// spans of that don't reach it. Where work can't be stopped and needs no end,
    /// [`Abandoned::GoesOn`](crate::policy::Abandoned::GoesOn) is cheaper.
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
    type Future = DetachedFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let kept = request.extensions().get::<SlotKeeper>().and_then(SlotKeeper::keep);
        DetachedFuture { task: tokio::spawn(drive(self.inner.call(request), kept)) }
    }
}

/// Drives work to its end. The slot comes along: where nothing waits for the answer any more, both are dropped together.
async fn drive<F: Future>(work: F, kept: Option<KeptSlot>) -> (F::Output, Option<KeptSlot>) {
    let mut work = pin!(work);
    let output = poll_fn(|cx| {
        let _inside = kept.as_ref().map(|kept| Inside::of(kept.handle_id()));
        work.as_mut().poll(cx)
    });
    (output.await, kept)
}

/// The future of [`Detached`].
///
/// # Cancel safety
///
/// Dropping it does not stop the work.
#[derive(Debug)]
pub struct DetachedFuture<T, E> {
    task: JoinHandle<(Result<T, E>, Option<KeptSlot>)>,
}

impl<T, E> Future for DetachedFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.task).poll(cx)) {
            Ok((output, _kept)) => Poll::Ready(output),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime shuts down, and this task with it.
                Err(_) => Poll::Pending,
            },
        }
    }
}
