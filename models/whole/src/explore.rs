//! How models are explored: by loom, with the feature `shuttle` by shuttle. Both run all threads of an execution on a
//! single thread of the system, so what is told in a `thread_local` of `std` is told to all of them.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

#[cfg(not(feature = "shuttle"))]
pub(crate) use loom::{
    lazy_static,
    sync::{Condvar, Mutex},
    thread::{self, JoinHandle, Thread},
    thread_local,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    lazy_static,
    sync::{Condvar, Mutex},
    thread::{self, JoinHandle, Thread},
    thread_local,
};

std::thread_local! {
    /// The mistake that the copy makes; none in an empty name.
    static MISTAKE: Cell<&'static str> = const { Cell::new("") };
}

/// Whether the mistake of this name is made.
#[inline]
pub fn makes(name: &str) -> bool {
    MISTAKE.get() == name
}

/// Has the library make a mistake for as long as `model` runs.
pub fn making(name: &'static str, model: impl FnOnce()) {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            MISTAKE.set("");
        }
    }
    MISTAKE.set(name);
    let _over = Over;
    model();
}

/// How far a model is explored.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Preemptions under loom.
    pub preemptions: usize,
    /// Schedules under shuttle, as many by a random scheduler as by one that is made to find bugs of this depth (PCT).
    pub schedules: usize,
    pub depth: usize,
}

/// Schedules per model, `SCHEDULES` times as many.
#[cfg(feature = "shuttle")]
fn times() -> usize {
    std::env::var("SCHEDULES").ok().and_then(|it| it.parse().ok()).unwrap_or(1)
}

/// Explores a model in Tokio's time, which stands still unless the model lets it pass. Prints how far.
pub fn explore(name: &str, bounds: Bounds, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let clock = clock.expect("a runtime for its clock");
    let _entered = clock.enter();
    let counted = Arc::clone(&executions);
    let begin = Instant::now();
    let execution = move || {
        counted.fetch_add(1, SeqCst);
        // What is jittered is the same in each execution.
        fastrand::seed(7);
        model();
    };
    let how = run(bounds, execution);
    println!("{name}: {} executions ({how}) in {:.1} s", executions.load(SeqCst), begin.elapsed().as_secs_f64());
}

#[cfg(not(feature = "shuttle"))]
fn run(bounds: Bounds, execution: impl Fn() + Sync + Send + 'static) -> String {
    let mut builder = loom::model::Builder::new();
    let more = std::env::var("PREEMPTIONS").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    let most = bounds.preemptions + more;
    builder.preemption_bound = Some(most);
    builder.max_branches = 100_000;
    builder.check(execution);
    format!("loom, {most} preemptions")
}

#[cfg(feature = "shuttle")]
fn run(bounds: Bounds, execution: impl Fn() + Sync + Send + 'static) -> String {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};

    let schedules = bounds.schedules * times();
    let execution = Arc::new(execution);
    let seed = std::env::var("SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(20_261_123);
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(10_000_000);
    config.stack_size = 256 * 1_024;
    let random = Arc::clone(&execution);
    shuttle::Runner::new(RandomScheduler::new_from_seed(seed, schedules), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new_from_seed(seed, bounds.depth, schedules), config).run(move || execution());
    format!("shuttle, {schedules} random and {schedules} PCT of depth {}, seed {seed}", bounds.depth)
}

/// Wakes a thread of the explorer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a waker of this thread.
pub fn waker() -> Waker {
    Arc::new(Unpark(thread::current())).into()
}

/// Runs a future to its end on this thread. A wake-up that is lost is a deadlock, which the explorer tells.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, waker) = (pin!(future), waker());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A count of requests that run. At each entrance it is asserted to hold the limit.
#[derive(Debug)]
pub struct Inside {
    running: AtomicUsize,
    limit: AtomicUsize,
}

impl Inside {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { running: AtomicUsize::new(0), limit: AtomicUsize::new(limit) })
    }

    pub fn enter(&self) {
        let (running, limit) = (self.running.fetch_add(1, SeqCst) + 1, self.limit.load(SeqCst));
        assert!(running <= limit, "{running} requests run, {limit} may");
    }

    pub fn leave(&self) {
        self.running.fetch_sub(1, SeqCst);
    }

    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
    }
}
