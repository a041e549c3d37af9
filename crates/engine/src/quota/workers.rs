//! Capacity that workers report for a label.
//!
//! A worker says how many requests it can take and for how long that holds; it repeats itself before then. The capacity
//! of a label is the sum over its active workers: those whose word still holds. No active worker and active workers
//! without room are different states: the first is a failure, the second is load.

use std::time::Duration;

use crate::Timestamp;

/// Most workers of a label; further workers are not noted.
const MOST: usize = 10_000;
/// Time for which a silent worker is remembered after its word ends, so that its absence shows.
const REMEMBERED: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(crate) struct Workers {
    list: Vec<Worker>,
    pub(crate) slots: usize,
    pub(crate) active: usize,
}

#[derive(Debug)]
struct Worker {
    id: Box<str>,
    slots: usize,
    /// Time until which its word holds.
    until: Timestamp,
    is_active: bool,
}

impl Workers {
    /// Whether no worker is there, and none was lately.
    pub(crate) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns each worker, how many requests it can take, and until when its word holds.
    pub(crate) fn reports(&self) -> impl Iterator<Item = (&str, usize, Timestamp)> {
        self.list.iter().map(|worker| (&*worker.id, worker.slots, worker.until))
    }

    /// Notes what a worker says; returns whether it was noted.
    pub(crate) fn report(&mut self, id: &str, slots: usize, until: Timestamp) -> bool {
        if let Some(worker) = self.list.iter_mut().find(|worker| *worker.id == *id) {
            (worker.slots, worker.until, worker.is_active) = (slots, until, true);
        } else if self.list.len() < MOST {
            self.list.push(Worker { id: id.into(), slots, until, is_active: true });
        } else {
            return false;
        }
        self.count();
        true
    }

    /// Forgets a worker that says goodbye.
    pub(crate) fn remove(&mut self, id: &str) {
        self.list.retain(|worker| *worker.id != *id);
        self.count();
    }

    /// Discounts workers whose word holds no more, forgets workers that are silent for long, and returns when to look
    /// again.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> Timestamp {
        let mut next = Timestamp::NEVER;
        self.list.retain_mut(|worker| {
            worker.is_active = now < worker.until;
            let forgotten = worker.until.after(REMEMBERED);
            let at = if worker.is_active { worker.until } else { forgotten };
            let stays = now < forgotten;
            if stays {
                next = next.min(at);
            }
            stays
        });
        self.count();
        next
    }

    fn count(&mut self) {
        let active = || self.list.iter().filter(|worker| worker.is_active);
        self.active = active().count();
        self.slots = active().map(|worker| worker.slots).fold(0, usize::saturating_add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For `Engine::check_all`.
    impl Workers {
        /// Returns when the first active worker falls silent, after asserting that the sums are right.
        pub(crate) fn next_silence(&self) -> Timestamp {
            let active = || self.list.iter().filter(|worker| worker.is_active);
            assert_eq!(self.active, active().count(), "active workers are counted");
            assert_eq!(
                self.slots,
                active().fold(0, |sum: usize, it| sum.saturating_add(it.slots)),
                "slots are summed up"
            );
            active().map(|worker| worker.until).min().unwrap_or(Timestamp::NEVER)
        }
    }

    #[test]
    fn silence_and_no_slots_are_told_apart() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let mut workers = Workers::default();
        assert!(workers.report("a", 3, at(10)) && workers.report("b", 4, at(20)));
        assert_eq!((workers.slots, workers.active), (7, 2));
        workers.report("a", 0, at(12));
        assert_eq!((workers.slots, workers.active), (4, 2));
        assert_eq!(workers.sweep(at(11)), at(12));
        assert_eq!(workers.sweep(at(20)), at(612), "both are silent and remembered");
        assert_eq!((workers.slots, workers.active, workers.is_empty()), (0, 0, false));
        workers.sweep(at(620));
        assert!(workers.is_empty());
        workers.report("c", usize::MAX, at(700));
        workers.report("d", usize::MAX, at(700));
        assert_eq!(workers.slots, usize::MAX);
        workers.remove("c");
        assert_eq!(workers.active, 1);
    }
}
