//! Many questions at a time, but not all.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::task::lock;

/// Runs `all`, at most `most` of them at the same time, and returns their answers, in the order in which they ended.
///
/// Each future begins when its turn comes, and is only polled when it was woken. Cancel safe as far as the futures are:
/// dropping this drops those that run.
pub(crate) async fn side_by_side<F: Future>(most: usize, all: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut coming = all.into_iter().fuse();
    let mut running: Vec<Running<F>> = Vec::new();
    let mut answers = Vec::new();
    let asker = Arc::new(Mutex::new(Waker::noop().clone()));
    poll_fn(move |cx| {
        // First, so that no wake from now on is lost.
        lock(&asker).clone_from(cx.waker());
        let mut is_pending = |one: &mut Running<F>| match one.poll() {
            Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            Poll::Pending => true,
        };
        running.retain_mut(&mut is_pending);
        while running.len() < most.max(1) {
            let Some(next) = coming.next() else { break };
            let mut next = Running::new(next, &asker);
            if is_pending(&mut next) {
                running.push(next);
            }
        }
        if running.is_empty() { Poll::Ready(std::mem::take(&mut answers)) } else { Poll::Pending }
    })
    .await
}

struct Running<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

impl<F: Future> Running<F> {
    fn new(future: F, asker: &Arc<Mutex<Waker>>) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), asker: Arc::clone(asker) });
        Self { future: Box::pin(future), waker: Arc::clone(&bell).into(), bell }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        if !self.bell.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

/// Wakes the task that waits for all futures, and remembers which future was woken.
struct Bell {
    rung: AtomicBool,
    asker: Arc<Mutex<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            let asker = lock(&self.asker).clone();
            asker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_run_at_a_time_and_all_are_answered() {
        let (running, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let began = Instant::now();
        let one = async |number: usize| {
            peak.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            sleep(Duration::from_millis(10)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            number
        };
        let mut answers = side_by_side(8, (0..100).map(one)).await;
        answers.sort_unstable();
        assert_eq!(answers, (0..100).collect::<Vec<_>>());
        assert_eq!(peak.load(Ordering::Relaxed), 8);
        // Thirteen rounds, and what the timer rounds up.
        assert!(began.elapsed() < Duration::from_millis(13 * 11 + 1), "{:?}", began.elapsed());
        assert!(side_by_side(0, std::iter::empty::<std::future::Ready<()>>()).await.is_empty());
        assert_eq!(side_by_side(0, [std::future::ready(1)]).await, [1], "none at a time would be never");
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_looked_at_when_it_has_something_to_say() {
        let looks = AtomicUsize::new(0);
        let one = |number: u64| {
            let mut pause = Box::pin(sleep(Duration::from_millis(number)));
            let looks = &looks;
            poll_fn(move |cx| {
                looks.fetch_add(1, Ordering::Relaxed);
                pause.as_mut().poll(cx)
            })
        };
        side_by_side(64, (1..=1_000).map(one)).await;
        // A future is polled when it begins and when it ends, and not each time that another one does.
        assert_eq!(looks.load(Ordering::Relaxed), 2_000);
    }
}
