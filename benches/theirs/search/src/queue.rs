//! A search queue, written from what Meilisearch says of its own.
//!
//! - So many searches run at once: four for each core.
//! - A search that finds no slot free takes one of 1,000 places.
//! - A search that finds no place free takes that of a random waiter, which is answered with 503.
//! - A slot that comes free goes to a random waiter.
//! - A waiter is given up after 60 s.
//!
//! Two reports say what goes wrong with the count of running searches: [#6577] and [#6578]. Each is a switch here.
//!
//! [#6577]: https://github.com/meilisearch/meilisearch/issues/6577
//! [#6578]: https://github.com/meilisearch/meilisearch/issues/6578

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

/// What is wrong with the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defects {
    /// A slot that goes from a search to a waiter is taken off the count of running searches, and not added again: #6577.
    pub(crate) forgets_hand_offs: bool,
    /// A search gives its slot back twice, by the call that does so and once more when its permit is dropped: #6578.
    pub(crate) gives_back_twice: bool,
}

/// The queue. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct SearchQueue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    at_once: usize,
    places: usize,
    defects: Defects,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Searches that run, as far as the queue knows.
    running: usize,
    waiters: Vec<oneshot::Sender<Slot>>,
    chance: fastrand::Rng,
}

impl State {
    fn remove_any(&mut self) -> Option<oneshot::Sender<Slot>> {
        let place = (!self.waiters.is_empty()).then(|| self.chance.usize(..self.waiters.len()))?;
        Some(self.waiters.swap_remove(place))
    }
}

/// The right to search, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Option<Arc<Shared>>);

impl SearchQueue {
    pub(crate) fn new(at_once: usize, places: usize, defects: Defects) -> Self {
        let state = State { running: 0, waiters: Vec::new(), chance: fastrand::Rng::with_seed(6577) };
        Self(Arc::new(Shared { at_once, places, defects, state: Mutex::new(state) }))
    }

    /// Waits for a slot; `None` for a search that is refused.
    pub(crate) async fn enter(&self) -> Option<Slot> {
        const LONGEST: Duration = Duration::from_secs(60);
        let (sender, slot) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if state.running < self.0.at_once && state.waiters.is_empty() {
                state.running += 1;
                return Some(Slot(Some(Arc::clone(&self.0))));
            }
            if state.waiters.len() >= self.0.places {
                // That waiter hears of it since nothing can be sent to it any more.
                drop(state.remove_any());
            }
            state.waiters.push(sender);
        }
        timeout(LONGEST, slot).await.ok()?.ok()
    }
}

impl Slot {
    /// Gives the slot back at the end of a search.
    pub(crate) fn end(self) {
        if let Some(shared) = self.0.as_ref().filter(|shared| shared.defects.gives_back_twice) {
            shared.give_back();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.give_back();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a slot on. A waiter whose caller has left hands it on in its turn.
    fn give_back(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            state.running = state.running.saturating_sub(1);
            let Some(waiter) = state.remove_any() else { return };
            if !self.defects.forgets_hand_offs {
                state.running += 1;
            }
            match waiter.send(Slot(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // It is handed on here, so its end is not to do so again.
                Err(mut slot) => slot.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many searches run at once, each of which ends before the next one comes.
    async fn most_of_hand_offs(defects: Defects) -> usize {
        let queue = SearchQueue::new(2, 10, defects);
        let mut held = vec![queue.enter().await, queue.enter().await];
        for _ in 0..10 {
            let waiter = tokio::spawn({
                let queue = queue.clone();
                async move { queue.enter().await }
            });
            tokio::task::yield_now().await;
            if let Some(slot) = held.pop().flatten() {
                slot.end();
            }
            held.push(waiter.await.ok().flatten());
            while let Ok(Some(slot)) = timeout(Duration::ZERO, queue.enter()).await {
                held.push(Some(slot));
            }
        }
        held.into_iter().flatten().count()
    }

    #[tokio::test]
    async fn no_more_run_than_may_unless_the_count_is_wrong() {
        let forgets_hand_offs = Defects { forgets_hand_offs: true, gives_back_twice: false };
        assert_eq!(most_of_hand_offs(Defects::default()).await, 2);
        assert!(most_of_hand_offs(forgets_hand_offs).await > 2);
        assert!(most_of_hand_offs(Defects { gives_back_twice: true, ..forgets_hand_offs }).await > 2);
    }

    #[tokio::test]
    async fn a_full_queue_drops_a_waiter_for_a_new_one() {
        let queue = SearchQueue::new(1, 1, Defects::default());
        let slot = queue.enter().await.expect("it is free");
        let (older, newer) = tokio::join!(queue.enter(), async {
            let newer = queue.enter();
            tokio::pin!(newer);
            assert!(timeout(Duration::ZERO, &mut newer).await.is_err());
            slot.end();
            newer.await
        });
        assert!(older.is_none() && newer.is_some());
    }
}
