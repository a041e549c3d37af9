//! An independent witness: counts who arrives and who runs, whatever the crate says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::sync::watch;
use tower::{Layer, Service};

/// Counts requests, and holds them while it is closed.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    counts: Arc<Counts>,
    open: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Counts {
    arrived: AtomicU64,
    started: AtomicU64,
    running: AtomicUsize,
    peak: AtomicUsize,
}

impl Probe {
    /// Lets everybody through.
    pub(crate) fn open() -> Self {
        Self { counts: Arc::default(), open: watch::Sender::new(true) }
    }

    /// Holds everybody until [`release`](Self::release).
    pub(crate) fn closed() -> Self {
        Self { counts: Arc::default(), open: watch::Sender::new(false) }
    }

    pub(crate) fn release(&self) {
        self.open.send_replace(true);
    }

    /// Runs until the probe is open.
    pub(crate) async fn run(&self) {
        let _running = self.enter();
        self.opened().await;
    }

    pub(crate) async fn opened(&self) {
        let mut open = self.open.subscribe();
        // The sender lives in `self`, so this ends with the value only.
        let _ = open.wait_for(|open| *open).await;
    }

    /// Counts as running until the guard is dropped.
    pub(crate) fn enter(&self) -> Running {
        self.counts.started.fetch_add(1, Ordering::SeqCst);
        let running = self.counts.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.counts.peak.fetch_max(running, Ordering::SeqCst);
        Running(Arc::clone(&self.counts))
    }

    pub(crate) fn running(&self) -> usize {
        self.counts.running.load(Ordering::SeqCst)
    }

    /// How many ran at most at the same time.
    pub(crate) fn peak(&self) -> usize {
        self.counts.peak.load(Ordering::SeqCst)
    }

    /// How many started to run.
    pub(crate) fn started(&self) -> u64 {
        self.counts.started.load(Ordering::SeqCst)
    }

    /// How many came by the layer of [`arrivals`](Self::arrivals).
    pub(crate) fn arrived(&self) -> u64 {
        self.counts.arrived.load(Ordering::SeqCst)
    }

    /// Counts one that does not come by that layer.
    pub(crate) fn count_arrival(&self) {
        self.counts.arrived.fetch_add(1, Ordering::SeqCst);
    }

    /// A layer to be put directly outside of the one under test.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals(self.clone())
    }
}

#[derive(Debug)]
pub(crate) struct Running(Arc<Counts>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Arrivals(Probe);

impl<S> Layer<S> for Arrivals {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, probe: self.0.clone() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Counting<S> {
    inner: S,
    probe: Probe,
}

impl<S: Service<Req>, Req> Service<Req> for Counting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> S::Future {
        self.probe.count_arrival();
        self.inner.call(request)
    }
}
