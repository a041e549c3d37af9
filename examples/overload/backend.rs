//! A backend of known capacity: so many workers, and one first-come-first-served queue without a bound before them.
//!
//! Work that was handed over is done, whether or not anybody still waits for the result: that is how a database treats
//! the query of a client that has left. So an overload does not just make answers late while it lasts. The workers are
//! busy with the requests of those who have given up, and newcomers wait behind them, until the queue is empty again:
//! a metastable failure, in the words of Bronson et al., "Metastable Failures in Distributed Systems", HotOS 2021.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep_until},
};

/// The backend. Clones are the same one; its workers end with the last clone, or at [`stop`](Self::stop).
#[derive(Clone)]
pub(crate) struct Backend {
    queue: Arc<Queue>,
    slowness: Arc<AtomicU32>,
    workers: Arc<Workers>,
}

struct Job {
    handed_over: Instant,
    service: Duration,
    done: oneshot::Sender<()>,
}

/// Jobs in the order in which they came, and a permit for each. Workers that took turns at a lock of the queue would wake each other
/// one by one, which halves the capacity where the runtime has much else to do.
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    permits: Semaphore,
}

impl Default for Queue {
    fn default() -> Self {
        Self { jobs: Mutex::default(), permits: Semaphore::new(0) }
    }
}

impl Queue {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        let mut jobs = self.jobs();
        if !self.permits.is_closed() {
            jobs.push_back(job);
            self.permits.add_permits(1);
        }
    }

    async fn pop(&self) -> Option<Job> {
        self.permits.acquire().await.ok()?.forget();
        self.jobs().pop_front()
    }

    fn close(&self) {
        let mut jobs = self.jobs();
        self.permits.close();
        jobs.clear();
    }
}

struct Workers(Vec<tokio::task::JoinHandle<()>>);

impl Backend {
    pub(crate) fn start(workers: usize) -> Self {
        let (queue, slowness) = (Arc::<Queue>::default(), Arc::new(AtomicU32::new(1)));
        let workers =
            (0..workers).map(|_| tokio::spawn(work(Arc::clone(&queue), Arc::clone(&slowness)))).collect::<Vec<_>>();
        Self { queue, slowness, workers: Arc::new(Workers(workers)) }
    }

    /// Does a piece of work that takes `service` once a worker is free for it. `None` if the backend was stopped.
    pub(crate) async fn run(&self, service: Duration) -> Option<()> {
        let (done, result) = oneshot::channel();
        self.queue.push(Job { handed_over: Instant::now(), service, done });
        result.await.ok()
    }

    /// From now on each piece of work that is begun takes `factor` times as long.
    pub(crate) fn slow_down(&self, factor: u32) {
        self.slowness.store(factor, Ordering::Relaxed);
    }

    /// Forgets all work that is left.
    pub(crate) fn stop(&self) {
        self.queue.close();
        self.workers.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn work(queue: Arc<Queue>, slowness: Arc<AtomicU32>) {
    let mut free_at = Instant::now();
    while let Some(job) = queue.pop().await {
        // Timers fire up to a millisecond late. A worker that has more to do begins it when the last job should have
        // ended, so that the capacity is what it is said to be.
        free_at = free_at.max(job.handed_over) + job.service * slowness.load(Ordering::Relaxed);
        sleep_until(free_at).await;
        // An error means that nobody waits any more. The work was done all the same.
        let _ = job.done.send(());
    }
}

#[cfg(test)]
mod tests {
    use tokio::{task::JoinSet, time::timeout};

    use super::*;

    const SERVICE: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn capacity_is_workers_by_service_time_and_the_rest_waits_in_order() {
        let backend = Backend::start(4);
        let begin = Instant::now();
        let mut requests = JoinSet::new();
        for number in 0..40 {
            let backend = backend.clone();
            requests.spawn(async move { (number, backend.run(SERVICE).await) });
            tokio::task::yield_now().await;
        }
        let mut order = Vec::new();
        while let Some(ended) = requests.join_next().await {
            order.push(ended.unwrap().0 / 4);
        }
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(begin.elapsed().as_millis() / 10, 100, "40 requests, 4 at a time, 100 ms each");
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_done_though_nobody_waits_for_it_any_more() {
        let backend = Backend::start(1);
        backend.slow_down(4);
        assert!(timeout(Duration::from_millis(10), backend.run(SERVICE)).await.is_err());
        let begin = Instant::now();
        assert_eq!(backend.run(SERVICE).await, Some(()));
        assert!(begin.elapsed() >= Duration::from_millis(700), "behind the one who left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_backend_answers_nobody() {
        let backend = Backend::start(1);
        let mut waiting = JoinSet::new();
        for _ in 0..2 {
            let backend = backend.clone();
            waiting.spawn(async move { backend.run(SERVICE).await });
        }
        tokio::task::yield_now().await;
        backend.stop();
        assert_eq!(waiting.join_all().await, [None, None], "one at work, and one in line");
        assert_eq!(backend.run(SERVICE).await, None);
    }
}
