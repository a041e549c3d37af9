//! How models are explored, and what they count with.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

/// Explores a model: runs it once for each interleaving, up to a number of preemptions. Prints how many these were.
///
/// The atomics of `std` that models count with are seen by all threads at once: loom runs a single thread at a time, and
/// changes to another one at its own atomics only.
#[expect(clippy::disallowed_methods, reason = "a model has no clock")]
pub(super) fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let counted = Arc::clone(&executions);
    let begin = Instant::now();
    builder.check(move || {
        counted.fetch_add(1, SeqCst);
        model();
    });
    let bound = preemptions.map_or("no bound".to_owned(), |most| format!("{most} preemptions"));
    println!("{name}: {} executions ({bound}) in {:.1} s", executions.load(SeqCst), begin.elapsed().as_secs_f64());
}

/// A count of requests that run. At each entrance it is asserted to hold the limit of that moment.
#[derive(Debug)]
pub(super) struct Inside {
    running: AtomicUsize,
    limit: AtomicUsize,
}

impl Inside {
    pub(super) fn new(limit: usize) -> Self {
        Self { running: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }
    }

    pub(super) fn enter(&self) {
        let (running, limit) = (self.running.fetch_add(1, SeqCst) + 1, self.limit.load(SeqCst));
        assert!(running <= limit, "{running} requests run, {limit} may");
    }

    pub(super) fn leave(&self) {
        self.running.fetch_sub(1, SeqCst);
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(SeqCst)
    }

    pub(super) fn now(&self) -> usize {
        self.running.load(SeqCst)
    }
}
