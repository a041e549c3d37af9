//! One poller per key and process, however many wait.
//!
//! Waiters for a key stand in line; the first of them asks the store, and the others wait for their turn to do so. So a
//! thousand waiters cost the store as much as one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, OwnedMutexGuard, watch};

use super::{Key, Notice, StoreError, task::lock};

/// A line for each key that has waiters, in the order in which they are rung. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollQueues(Arc<Mutex<BTreeMap<Arc<str>, Arc<PollQueue>>>>);

#[derive(Debug, Default)]
struct PollQueue {
    /// Tokio's mutex is fair: this is the line.
    front: Arc<tokio::sync::Mutex<()>>,
    freed: Notify,
    standing: AtomicUsize,
    /// The error of the store when the first waiter last found it gone.
    failed: watch::Sender<Option<StoreError>>,
}

impl PollQueues {
    /// Stands in line, until this waiter is the first. Cancel safe: dropping the future leaves the line.
    pub(crate) async fn stand(&self, key: &Key) -> Place {
        let line = {
            let mut lines = lock(&self.0);
            let line = lines.entry(Arc::clone(&key.0)).or_default();
            line.standing.fetch_add(1, Ordering::Relaxed);
            Arc::clone(line)
        };
        let failures = line.failed.subscribe();
        let mut place = Place { of: self.clone(), key: Arc::clone(&key.0), line, front: None, failures };
        place.front = Some(Arc::clone(&place.line.front).lock_owned().await);
        place
    }

    /// Returns how many waiters stand in the line for `key`, the first included.
    pub(crate) fn standing(&self, key: &Key) -> usize {
        lock(&self.0).get(key.as_str()).map_or(0, |line| line.standing.load(Ordering::Relaxed))
    }

    /// Tells the first waiter in the line for `key` that it is worth looking again. Its waker is foreign code: no lock is held.
    pub(crate) fn ring(&self, key: &str) {
        let line = lock(&self.0).get(key).cloned();
        line.iter().for_each(|line| line.freed.notify_one());
    }

    /// Tells those of whom a notice speaks, if what it speaks of was freed.
    pub(crate) fn hear(&self, notice: &Notice) {
        match notice {
            Notice::Freed(key) => self.ring(key),
            Notice::Missed => {
                let lines: Vec<_> = lock(&self.0).values().cloned().collect();
                lines.iter().for_each(|line| line.freed.notify_one());
            }
            Notice::Wanted(_) => {}
        }
    }
}

/// A place in a line; left by being dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: PollQueues,
    key: Arc<str>,
    line: Arc<PollQueue>,
    front: Option<OwnedMutexGuard<()>>,
    /// Failures since this waiter came.
    failures: watch::Receiver<Option<StoreError>>,
}

impl Place {
    /// Waits until the line is rung. A ring before this call is not lost. Cancel safe.
    pub(crate) async fn freed(&self) {
        self.line.freed.notified().await;
    }

    /// Notes that the store is gone: all waiters of this line learn it, and need not ask the store themselves.
    pub(crate) fn fail(&self, error: &StoreError) {
        self.line.failed.send_replace(Some(error.clone()));
    }

    /// Returns the error of the store while this waiter stood in line.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        // The line has the sender, so the channel is open.
        if self.failures.has_changed().unwrap_or(false) { self.failures.borrow().clone() } else { None }
    }

    /// Returns how many waiters stand in this line, this one included.
    pub(crate) fn standing(&self) -> usize {
        self.line.standing.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.of.0);
        // Counted under the lock under which others join: a line is removed when no waiter stands in it.
        if self.line.standing.fetch_sub(1, Ordering::Relaxed) == 1 {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        mem::ManuallyDrop,
        pin::pin,
        sync::mpsc,
        task::{Context, Wake, Waker},
        time::Duration,
    };

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::Keys;

    /// Looks at the lines when it is woken.
    struct Looks(PollQueues, Key, mpsc::Sender<usize>);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.2.send(self.0.standing(&self.1)).unwrap();
        }
    }

    #[tokio::test]
    async fn a_waker_that_looks_at_the_lines_is_woken_outside_of_their_lock() {
        let key = Keys::new("adm").unwrap().cap("a", "label", "x");
        for notice in [Notice::Freed(Arc::clone(&key.0)), Notice::Missed] {
            let lines = PollQueues::default();
            // It never leaves, which would need the lock: a deadlock is found, and does not hang the test.
            let place = ManuallyDrop::new(lines.stand(&key).await);
            let (woken, wakes) = mpsc::channel();
            let waker = Waker::from(Arc::new(Looks(lines.clone(), key.clone(), woken)));
            let mut freed = pin!(place.freed());
            assert!(freed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            std::thread::spawn(move || lines.hear(&notice));
            assert_eq!(wakes.recv_timeout(Duration::from_secs(20)), Ok(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_asks_and_the_others_follow_in_order() {
        let lines = Arc::new(PollQueues::default());
        let key = Keys::new("adm").unwrap().cap("a", "label", "x");
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = lines.stand(&key).await;
        let mut tasks = Vec::new();
        for index in 0..3 {
            let (lines, key, order) = (Arc::clone(&lines), key.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _place = lines.stand(&key).await;
                order.lock().unwrap().push(index);
            }));
            sleep(Duration::from_millis(1)).await;
        }
        tasks[1].abort();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(first.standing(), 3, "the one that gave up has left");
        lines.ring(key.as_str());
        assert!(timeout(Duration::from_secs(1), first.freed()).await.is_ok(), "rung before it listened");
        assert!(timeout(Duration::from_secs(1), first.freed()).await.is_err(), "control: once is once");
        drop(first);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(*order.lock().unwrap(), [0, 2]);
        assert_eq!(lines.standing(&key), 0);
        assert!(lock(&lines.0).is_empty(), "nothing is left behind");
    }
}
