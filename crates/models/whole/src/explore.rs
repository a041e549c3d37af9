//! How models are explored: by loom, with the feature `shuttle` by shuttle. Both run all threads of an execution on a
//! single thread of the system, so what is told in a `thread_local` of `std` is told to all of them.

use std::{
    cell::Cell,
    future::Future,
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
    thread, thread_local,
};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    lazy_static,
    sync::{Condvar, Mutex},
    thread, thread_local,
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
    /// Whether the model makes a handle, which does not fit on the stack of loom's first thread.
    pub has_handle: bool,
    /// Whether the last of the preemptions takes minutes.
    pub is_long: bool,
}

impl Bounds {
    /// For a model without a handle, which may then have one thread more.
    #[must_use]
    pub const fn without_handle(self) -> Self {
        Self { has_handle: false, ..self }
    }

    /// For a model whose last preemption takes minutes: it needs `PREEMPTIONS=1`, unless a mistake is to be found.
    #[must_use]
    pub const fn long(self) -> Self {
        Self { is_long: true, ..self }
    }
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

/// Stack of the thread that a model with a handle runs in.
#[cfg(not(feature = "shuttle"))]
const STACK_WORDS: usize = 32 * 1_024;

#[cfg(not(feature = "shuttle"))]
fn run(bounds: Bounds, execution: impl Fn() + Sync + Send + 'static) -> String {
    let mut builder = loom::model::Builder::new();
    let more = std::env::var("PREEMPTIONS").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    let fewer = usize::from(bounds.is_long && MISTAKE.get().is_empty());
    let most = (bounds.preemptions + more).saturating_sub(fewer);
    builder.preemption_bound = Some(most);
    builder.max_branches = 100_000;
    let execution = Arc::new(execution);
    builder.check(move || {
        if !bounds.has_handle {
            return execution();
        }
        let execution = Arc::clone(&execution);
        let thread = loom::thread::Builder::new().stack_size(STACK_WORDS).spawn(move || execution());
        thread.expect("a thread").join().expect("what the model says");
    });
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

lazy_static! {
    static ref STEPS: crate::std_here::sync::atomic::AtomicUsize = crate::std_here::sync::atomic::AtomicUsize::new(0);
}

/// Lets other threads go on here.
pub(crate) fn step() {
    STEPS.fetch_add(1, SeqCst);
}

/// What a thread waits for, and is woken by: once for each wait, also if that came first.
///
/// The explorer's own `park` does not remember a wake-up over the wait for a lock.
#[derive(Debug)]
pub struct Parker {
    #[cfg(not(feature = "shuttle"))]
    rung: (loom::sync::Notify, std::sync::atomic::AtomicBool),
    #[cfg(feature = "shuttle")]
    rung: (Mutex<bool>, Condvar),
}

impl Parker {
    pub fn new() -> Arc<Self> {
        #[cfg(not(feature = "shuttle"))]
        let rung = (loom::sync::Notify::new(), false.into());
        #[cfg(feature = "shuttle")]
        let rung = (Mutex::new(false), Condvar::new());
        Arc::new(Self { rung })
    }

    #[cfg(not(feature = "shuttle"))]
    pub fn park(&self) {
        loop {
            // May end for no reason.
            self.rung.0.wait();
            if self.rung.1.swap(false, SeqCst) {
                return;
            }
        }
    }

    #[cfg(not(feature = "shuttle"))]
    pub fn unpark(&self) {
        self.rung.0.notify();
        self.rung.1.store(true, SeqCst);
    }

    #[cfg(feature = "shuttle")]
    pub fn park(&self) {
        let (is_rung, changed) = &self.rung;
        let mut is_rung = is_rung.lock().expect("no thread panicked");
        while !std::mem::take(&mut *is_rung) {
            is_rung = changed.wait(is_rung).expect("no thread panicked");
        }
    }

    #[cfg(feature = "shuttle")]
    pub fn unpark(&self) {
        *self.rung.0.lock().expect("no thread panicked") = true;
        self.rung.1.notify_one();
    }

    /// Polls a future once, and is rung when it is worth another look.
    pub fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(self));
        std::pin::Pin::new(future).poll(&mut Context::from_waker(&waker))
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
}

/// Runs a future to its end on this thread. A wake-up that is lost is a deadlock, which the explorer tells.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, parker) = (Box::pin(future), Parker::new());
    loop {
        match parker.poll(&mut future) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
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
