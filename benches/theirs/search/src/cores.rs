//! What all searches need.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

/// Cores that searches share in turns, so that each search is slower the more of them run.
#[derive(Debug)]
pub(crate) struct Cores {
    free: Semaphore,
    /// When the last turn of each free core ended.
    ends: Mutex<Vec<Instant>>,
}

const TURN: Duration = Duration::from_millis(5);
/// Timers are late by no more than this. A core that stood still for longer was idle.
const LATE: Duration = Duration::from_millis(5);

impl Cores {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), ends: Mutex::new(vec![Instant::now(); count]) }
    }

    /// Takes so many turns.
    pub(crate) async fn work(&self, turns: u32) {
        for _ in 0..turns {
            let core = self.free.acquire().await.expect("it is never closed");
            let last = self.ends().pop().expect("a free core");
            // A turn begins where the one before it ended, so that late timers take nothing from the capacity.
            let begin = last.max(Instant::now().checked_sub(LATE).unwrap_or(last));
            let begin = if begin == last { last } else { Instant::now() };
            let end = begin + TURN;
            sleep_until(end).await;
            self.ends().push(end);
            drop(core);
        }
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
