//! `tokio`, with runtimes whose workers are threads of the explorer, and timers that ring when a model lets time pass.
//!
//! Its channels and signals are the real ones, which don't give way to other threads. So a step is put before the calls
//! that this is about.

pub use ::tokio::*;

pub mod runtime {
    use std::{
        cell::RefCell,
        collections::VecDeque,
        future::Future,
        pin::Pin,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        task::{Context, Poll, Wake},
    };

    pub use ::tokio::runtime::RuntimeFlavor;

    use super::task::JoinHandle;
    use crate::explore::{Condvar, Mutex};

    /// The number of a runtime.
    #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
    pub struct Id(u64);

    type Future_ = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A runtime with a single worker: the thread that calls [`work`](Runtime::work).
    #[derive(Clone)]
    pub struct Runtime(Arc<Inner>);

    struct Inner {
        id: Id,
        queue: Mutex<Queue>,
        is_wanted: Condvar,
        is_asleep: Condvar,
    }

    #[derive(Default)]
    struct Queue {
        ready: VecDeque<Arc<Task>>,
        /// Tasks that have not ended.
        tasks: Vec<Arc<Task>>,
        is_shut: bool,
        /// Whether the worker waits for something to do.
        is_idle: bool,
    }

    struct Task {
        future: Mutex<Option<Future_>>,
        of: Arc<Inner>,
    }

    crate::explore::thread_local! {
        static HERE: RefCell<Option<Runtime>> = RefCell::new(None);
    }

    impl Runtime {
        pub fn new() -> Self {
            static MADE: AtomicU64 = AtomicU64::new(0);
            let id = Id(MADE.fetch_add(1, Ordering::Relaxed));
            Self(Arc::new(Inner {
                id,
                queue: Mutex::new(Queue::default()),
                is_wanted: Condvar::new(),
                is_asleep: Condvar::new(),
            }))
        }

        /// This thread is one of the runtime's from here on.
        pub fn enter(&self) {
            HERE.with(|here| *here.borrow_mut() = Some(self.clone()));
        }

        /// Runs tasks on this thread for as long as any is ready.
        pub fn work_off(&self) {
            self.enter();
            while let Some(task) = self.next_ready() {
                self.run(&task);
            }
            leave();
        }

        fn next_ready(&self) -> Option<Arc<Task>> {
            self.0.queue.lock().expect("no thread panicked").ready.pop_front()
        }

        fn run(&self, task: &Arc<Task>) {
            let waker = Arc::clone(task).into();
            let Some(mut future) = task.future.lock().expect("no thread panicked").take() else { return };
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(()) => {
                    let mut queue = self.0.queue.lock().expect("no thread panicked");
                    queue.tasks.retain(|it| !Arc::ptr_eq(it, task));
                }
                Poll::Pending => *task.future.lock().expect("no thread panicked") = Some(future),
            }
        }

        /// Runs tasks until the runtime is shut down, and drops those that are left then.
        pub fn work(&self) {
            self.enter();
            loop {
                let mut queue = self.0.queue.lock().expect("no thread panicked");
                let task = loop {
                    if queue.is_shut {
                        break None;
                    }
                    match queue.ready.pop_front() {
                        Some(task) => break Some(task),
                        None => {
                            queue.is_idle = true;
                            self.0.is_asleep.notify_all();
                            queue = self.0.is_wanted.wait(queue).expect("no thread panicked");
                            queue.is_idle = false;
                        }
                    }
                };
                let left = if task.is_none() { std::mem::take(&mut queue.tasks) } else { Vec::new() };
                drop(queue);
                let Some(task) = task else {
                    for task in left {
                        let future = task.future.lock().expect("no thread panicked").take();
                        drop(future);
                    }
                    leave();
                    return;
                };
                self.run(&task);
            }
        }

        /// Waits until no task is ready: each has seen the time that has passed before, or has set its timer since.
        pub fn sleeps(&self) {
            let mut queue = self.0.queue.lock().expect("no thread panicked");
            while !(queue.is_shut || (queue.is_idle && queue.ready.is_empty())) {
                queue = self.0.is_asleep.wait(queue).expect("no thread panicked");
            }
        }

        /// Has the worker drop all tasks, and end. What is spawned from here on is dropped at once.
        pub fn shut_down(&self) {
            let mut queue = self.0.queue.lock().expect("no thread panicked");
            queue.is_shut = true;
            let ready = std::mem::take(&mut queue.ready);
            drop(queue);
            drop(ready);
            self.0.is_wanted.notify_all();
            self.0.is_asleep.notify_all();
        }
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let of = Arc::clone(&self.of);
            let mut queue = of.queue.lock().expect("no thread panicked");
            if !queue.is_shut && !queue.ready.iter().any(|it| Arc::ptr_eq(it, &self)) {
                queue.ready.push_back(self);
                of.is_wanted.notify_one();
            }
        }
    }

    /// This thread is none of any runtime's from here on.
    pub fn leave() {
        HERE.with(|here| *here.borrow_mut() = None);
    }

    /// A way to a runtime.
    #[derive(Clone)]
    pub struct Handle(Runtime);

    impl Handle {
        pub fn try_current() -> Result<Self, ()> {
            HERE.with(|here| here.borrow().clone()).map(Self).ok_or(())
        }

        pub fn id(&self) -> Id {
            self.0.0.id
        }

        pub fn runtime_flavor(&self) -> RuntimeFlavor {
            RuntimeFlavor::CurrentThread
        }

        /// As Tokio's: on a runtime that is shut down, the future is dropped right here.
        pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
        where
            F: Future<Output: Send + 'static> + Send + 'static,
        {
            let inner = &self.0.0;
            let future: Future_ = Box::pin(async move { drop(future.await) });
            let mut queue = inner.queue.lock().expect("no thread panicked");
            if queue.is_shut {
                drop(queue);
                drop(future);
            } else {
                let task = Arc::new(Task { future: Mutex::new(Some(future)), of: Arc::clone(inner) });
                queue.tasks.push(Arc::clone(&task));
                queue.ready.push_back(task);
                inner.is_wanted.notify_one();
            }
            JoinHandle::new()
        }
    }
}

pub mod sync {
    pub use ::tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, broadcast, futures::Notified, watch};

    use crate::explore::step;

    /// Tokio's, with a step before each signal.
    #[derive(Debug, Default)]
    pub struct Notify(::tokio::sync::Notify);

    impl Notify {
        pub const fn new() -> Self {
            Self(::tokio::sync::Notify::const_new())
        }

        pub fn notified(&self) -> Notified<'_> {
            step();
            self.0.notified()
        }

        pub fn notify_one(&self) {
            step();
            self.0.notify_one();
        }

        pub fn notify_waiters(&self) {
            step();
            self.0.notify_waiters();
        }
    }
}

pub mod task {
    use std::{
        future::Future,
        marker::PhantomData,
        pin::Pin,
        task::{Context, Poll},
    };

    pub use ::tokio::task::JoinSet;

    /// No model waits for a task by this.
    #[derive(Debug)]
    pub struct JoinHandle<T>(PhantomData<fn() -> T>);

    impl<T> JoinHandle<T> {
        pub(super) fn new() -> Self {
            Self(PhantomData)
        }

        pub fn abort(&self) {}

        pub fn is_finished(&self) -> bool {
            false
        }
    }

    impl<T> Future for JoinHandle<T> {
        type Output = Result<T, ::tokio::task::JoinError>;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            unreachable!("no model waits for a task")
        }
    }
}

pub fn spawn<F>(_: F) -> task::JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    unreachable!("models spawn on the runtime that they made")
}

pub mod time {
    use std::{
        future::{Future, poll_fn},
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
        time::Duration,
    };

    pub use ::tokio::time::{Instant, MissedTickBehavior, advance, interval_at};

    use crate::explore::Mutex;

    crate::explore::lazy_static! {
        static ref TIMERS: Mutex<Vec<(Instant, Waker)>> = Mutex::new(Vec::new());
    }

    /// Lets time pass, and rings the timers that are due then.
    pub fn pass(time: Duration) {
        let mut advance = pin!(::tokio::time::advance(time));
        let mut cx = std::task::Context::from_waker(Waker::noop());
        // It gives way to other tasks once it has moved the clock.
        let _ = advance.as_mut().poll(&mut cx);
        let now = Instant::now();
        let mut timers = TIMERS.lock().expect("no thread panicked");
        let due: Vec<_> = timers.extract_if(.., |(at, _)| *at <= now).collect();
        drop(timers);
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub fn sleep_until(at: Instant) -> Sleep {
        sleep(at.saturating_duration_since(Instant::now()))
    }

    pub fn sleep(time: Duration) -> Sleep {
        crate::explore::step();
        Sleep(Instant::now().checked_add(time))
    }

    /// The end of a wait, if it has one.
    #[derive(Debug)]
    pub struct Sleep(Option<Instant>);

    impl Sleep {
        pub fn is_elapsed(&self) -> bool {
            self.0.is_some_and(|until| Instant::now() >= until)
        }
    }

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let Some(until) = self.0 else { return Poll::Pending };
            let mut timers = TIMERS.lock().expect("no thread panicked");
            if self.is_elapsed() {
                return Poll::Ready(());
            }
            timers.retain(|(_, known)| !known.will_wake(cx.waker()));
            timers.push((until, cx.waker().clone()));
            Poll::Pending
        }
    }

    #[derive(Debug)]
    pub struct Elapsed;

    pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
        let (mut future, mut sleep) = (pin!(future), pin!(sleep(time)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| Err(Elapsed)),
        })
        .await
    }

    pub async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, Elapsed> {
        timeout(at.saturating_duration_since(Instant::now()), future).await
    }
}
