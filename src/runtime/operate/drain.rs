//! Shutting down without losing a request.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use crate::runtime::{Admission, core::discard, shared::Shared};

/// What becomes of waiters when a handle drains.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum DrainMode {
    /// Waiters are rejected at once, and their clients may go to another instance.
    #[default]
    RejectWaiting,
    /// Waiters keep their places and are served.
    ServeWaiting,
}

impl Admission {
    /// Drains the handle at once, for servers whose clients retry elsewhere. Behind a load balancer use [`leave`](Self::leave), as the
    /// example does; [Kubernetes](crate::docs::kubernetes) has the whole sequence.
    ///
    /// New requests are rejected with [`Reason::Draining`](crate::Reason::Draining), running requests go on to their end. There is no
    /// way back.
    ///
    /// Call it when the signal to stop has come, before the server is told to stop accepting connections, and wait for
    /// [`drained`](Self::drained) with a bound.
    ///
    /// ```no_run
    /// # async fn serve(app: axum::Router, listener: tokio::net::TcpListener, admission: tower_admission::Admission)
    /// #     -> std::io::Result<()> {
    /// use tower_admission::DrainMode;
    ///
    /// let handle = admission.clone();
    /// axum::serve(listener, app)
    ///     .with_graceful_shutdown(async move {
    ///         tokio::signal::ctrl_c().await.ok();
    ///         drop(handle.leave(DrainMode::ServeWaiting));                // drains after `drain_after`: 0 unless set
    ///         tokio::time::sleep(std::time::Duration::from_secs(8)).await; // until the load balancer has noticed
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn drain(&self, waiting: DrainMode) {
        self.shared.begin_to_leave();
        let serves_waiting = waiting == DrainMode::ServeWaiting;
        self.shared.with_engine(|state, time| state.close(time.now(), serves_waiting));
        self.shared.begin_to_leave();
        self.shared.tell_now();
    }

    /// Leaves a group of instances behind a load balancer: the handle is [not ready](Self::is_ready) at once and
    /// [drains](Self::drain) after [`drain_after`](crate::AdmissionBuilder::drain_after), when the balancer has noticed. Until
    /// then requests are decided about as ever. The answers to those that come over HTTP/1 have `Connection: close`, so
    /// that clients with open connections go elsewhere as well. [Kubernetes](crate::docs::kubernetes) shows the whole
    /// sequence.
    ///
    /// The future ends when the handle drains. The handle drains also if the future is dropped; outside of a Tokio runtime it drains at
    /// once, since nothing tells the time there. There is no way back.
    ///
    /// ```no_run
    /// # async fn stop(admission: tower_admission::Admission) {
    /// use tower_admission::DrainMode;
    ///
    /// admission.leave(DrainMode::ServeWaiting).await;
    /// admission.drained().await;
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub fn leave(&self, waiting: DrainMode) -> impl Future<Output = ()> + Send + use<> {
        self.shared.begin_to_leave();
        self.shared.with_engine(|state, time| state.engine.begin_to_leave(time.now()));
        let after = Duration::from_nanos(self.shared.drain_after.load(Ordering::Relaxed));
        let drains = DrainsAtEnd { admission: self.clone(), waiting };
        // From now on, and not from when the task first runs.
        let until = Instant::now().checked_add(after);
        let task = match (Handle::try_current(), until) {
            (Ok(runtime), Some(until)) if !after.is_zero() => Some(runtime.spawn(async move {
                // Ends sooner where the handle is told to drain meanwhile.
                let _ = timeout_at(until, drains.admission.shared.closes()).await;
            })),
            _ => None,
        };
        async move {
            if let Some(task) = task {
                // It fails where the runtime ends first, or has no timers; the handle drains then.
                let _ = task.await;
            }
        }
    }

    /// Whether the handle wants requests, for a readiness route: false from [`leave`](Self::leave) or
    /// [`drain`](Self::drain) on.
    pub fn is_ready(&self) -> bool {
        !self.shared.is_leaving()
    }

    /// Waits until the handle [is not ready](Self::is_ready) any more, to tell what else answers for it: a health service, a registry.
    ///
    /// ```no_run
    /// # async fn serve(admission: tower_admission::Admission) {
    /// let (health, service) = tonic_health::server::health_reporter();
    /// let leaving = admission.clone();
    /// tokio::spawn(async move {
    ///     leaving.leaving().await;
    ///     health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    /// });
    /// # drop(service);
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub fn leaving(&self) -> impl Future<Output = ()> + Send {
        self.shared.leaves()
    }

    /// Waits until the handle [drains](Self::drain) and no request runs or waits any more. Requests that ran while
    /// decisions did not bind are not waited for.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub fn drained(&self) -> impl Future<Output = ()> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Drained { shared: &self.shared, number: MADE.fetch_add(1, Ordering::Relaxed), is_registered: false }
    }
}

/// Has a handle drain when dropped, with its task or without.
struct DrainsAtEnd {
    admission: Admission,
    waiting: DrainMode,
}

impl Drop for DrainsAtEnd {
    fn drop(&mut self) {
        if !self.admission.shared.with_engine(|state, _| state.engine.is_closed()) {
            self.admission.drain(self.waiting);
        }
    }
}

/// Waits until no request is left; gives its waker back when dropped.
struct Drained<'a> {
    shared: &'a Arc<Shared>,
    number: u64,
    is_registered: bool,
}

impl Future for Drained<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Cloning a waker is foreign code, and dropping it may drop a task that wants the lock: neither happens under
        // it.
        let waker = cx.waker().clone();
        let (shared, number) = (self.shared, self.number);
        let (answer, unused) = shared.with_engine(|state, _| {
            if state.engine.is_drained() {
                return (Poll::Ready(()), Some(waker));
            }
            (Poll::Pending, state.wakers.leaving.insert(number, waker))
        });
        self.is_registered = answer.is_pending();
        discard(unused);
        answer
    }
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        if self.is_registered {
            let number = self.number;
            discard(self.shared.with_engine(|state, _| state.wakers.leaving.remove(&number)));
        }
    }
}
