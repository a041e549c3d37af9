//! How many waiters each run has, over all labels.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::{hash_of, ids::RunId};

/// Counts the waiters of each run of each namespace. A run has a number while a request of it has a place: a request that
/// asks a store does not wait, and may wait again. The number keeps its name for as long as the journal may ask for it, so
/// there are never more entries than places and entries of the journal.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Numbers, found by the hashes of their runs.
    numbers: HashTable<RunId>,
    entries: Vec<Entry>,
    /// Numbers that may be used again, and the entry of the journal with which each left, in that order.
    free: VecDeque<(u64, RunId)>,
}

#[derive(Debug)]
struct Entry {
    namespace: Box<str>,
    name: Box<str>,
    /// The hash of both.
    hash: u64,
    places: usize,
    waiting: usize,
}

impl Runs {
    /// Returns how many requests of a run wait.
    pub(crate) fn waiting(&self, number: RunId) -> usize {
        self.entries.get(number.index()).map_or(0, |entry| entry.waiting)
    }

    /// Returns the number of a run that has one.
    pub(crate) fn find(&self, namespace: &str, run: &str) -> RunId {
        let is_it = |number: &RunId| {
            let entry = &self.entries[number.index()];
            *entry.name == *run && *entry.namespace == *namespace
        };
        self.numbers.find(hash_of(namespace, run), is_it).copied().unwrap_or(RunId::NONE)
    }

    /// Returns the name of the run that had this number last.
    pub(crate) fn name(&self, number: RunId) -> Option<&str> {
        self.entries.get(number.index()).map(|entry| &*entry.name)
    }

    /// Counts one more place, which does not wait yet, and returns the number of its run. No reader asks any more for the
    /// names of runs that left before the entry `forgotten` of the journal.
    pub(crate) fn join(&mut self, namespace: &str, run: &str, forgotten: u64) -> RunId {
        let known = self.find(namespace, run);
        if let Some(entry) = self.entries.get_mut(known.index()) {
            entry.places += 1;
            return known;
        }
        let hash = hash_of(namespace, run);
        let entry = Entry { namespace: namespace.into(), name: run.into(), hash, places: 1, waiting: 0 };
        let free = self.free.front().filter(|(left, _)| *left < forgotten).map(|&(_, number)| number);
        let number = match free {
            Some(number) => {
                self.free.pop_front();
                self.entries[number.index()] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                RunId::from_index(self.entries.len() - 1)
            }
        };
        self.numbers.insert_unique(hash, number, |number| self.entries[number.index()].hash);
        number
    }

    /// Notes that a place of the run waits from now on.
    pub(crate) fn wait(&mut self, number: RunId) {
        self.entries.get_mut(number.index()).into_iter().for_each(|entry| entry.waiting += 1);
    }

    /// Notes that the wait of a place is over.
    pub(crate) fn end_wait(&mut self, number: RunId) {
        self.entries.get_mut(number.index()).into_iter().for_each(|entry| entry.waiting -= 1);
    }

    /// Counts one place less. The entry of the journal that follows `newest` may still name its run.
    pub(crate) fn leave(&mut self, number: RunId, newest: u64) {
        let Some(entry) = self.entries.get_mut(number.index()) else { return };
        entry.places -= 1;
        if entry.places > 0 {
            return;
        }
        if let Ok(known) = self.numbers.find_entry(entry.hash, |known| *known == number) {
            known.remove();
        }
        self.free.push_back((newest + 1, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For `Engine::check_all`.
    impl Runs {
        /// Returns how many requests wait for each run that has a number.
        pub(crate) fn counts(&self) -> std::collections::BTreeMap<RunId, usize> {
            let numbers: Vec<RunId> = self.numbers.iter().copied().collect();
            assert_eq!(numbers.len() + self.free.len(), self.entries.len(), "each entry is a run's or free");
            numbers.into_iter().map(|number| (number, self.entries[number.index()].waiting)).collect()
        }
    }

    #[test]
    fn runs_are_counted_and_forgotten() {
        let mut runs = Runs::default();
        let all = u64::MAX;
        let (a, b) = (runs.join("ns", "a", all), runs.join("ns", "b", all));
        assert_eq!(runs.join("ns", "a", all), a);
        assert_eq!((runs.waiting(a), runs.waiting(RunId::NONE)), (0, 0), "no place waits yet");
        for place in [a, a, b] {
            runs.wait(place);
        }
        assert_eq!((runs.waiting(a), runs.waiting(b)), (2, 1));
        runs.end_wait(b);
        assert_eq!((runs.waiting(b), runs.find("ns", "b")), (0, b), "a place without a wait keeps the number");
        runs.leave(b, 7);
        assert_ne!(runs.join("ns", "c", 8), b, "its name may be asked for");
        assert_eq!((runs.name(b), runs.find("ns", "b")), (Some("b"), RunId::NONE));
        assert_eq!(runs.join("ns", "d", 9), b, "the entry is used again");
        runs.leave(a, 9);
        runs.leave(a, 9);
        runs.leave(RunId::NONE, 9);
        runs.wait(RunId::NONE);
        runs.wait(runs.find("ns", "c"));
        assert_eq!(runs.counts().len(), 2);
        let other = runs.join("other", "c", 9);
        runs.wait(other);
        assert_ne!(other, runs.find("ns", "c"), "a run of another namespace is another run");
        assert_eq!((runs.waiting(runs.find("ns", "c")), runs.waiting(other)), (1, 1));
    }
}
