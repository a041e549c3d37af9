//! How many waiters each run has, over all labels.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// No run.
pub(super) const NONE: u32 = u32::MAX;

/// Counts the waiters of each run. A run that has none is not counted any more. Its number keeps its name for as long as
/// the journal may ask for it, so there are never more entries than waiters and entries of the journal.
#[derive(Debug, Default)]
pub(super) struct Runs {
    numbers: HashMap<Arc<str>, u32>,
    entries: Vec<(Arc<str>, usize)>,
    /// Those whose entries may be used again, and with which entry of the journal they left, in that order.
    free: VecDeque<(u64, u32)>,
}

impl Runs {
    /// How many wait for this run.
    pub(super) fn waiting(&self, run: &str) -> usize {
        self.numbers.get(run).map_or(0, |&number| self.entries[number as usize].1)
    }

    /// The number of a run for which somebody waits.
    pub(super) fn find(&self, run: &str) -> u32 {
        self.numbers.get(run).copied().unwrap_or(NONE)
    }

    /// The name of the run that had this number last.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.entries.get(number as usize).map(|(name, _)| &**name)
    }

    /// Counts one more waiter and answers the number of its run. Nobody asks any more for the names of those that left before
    /// the entry `forgotten` of the journal.
    pub(super) fn join(&mut self, run: &str, forgotten: u64) -> u32 {
        if let Some(&number) = self.numbers.get(run) {
            self.entries[number as usize].1 += 1;
            return number;
        }
        let name: Arc<str> = Arc::from(run);
        let free = self.free.front().filter(|(left, _)| *left < forgotten).map(|&(_, number)| number);
        if free.is_some() {
            self.free.pop_front();
        }
        let number = free.unwrap_or_else(|| {
            self.entries.push((Arc::clone(&name), 0));
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        });
        self.entries[number as usize] = (Arc::clone(&name), 1);
        self.numbers.insert(name, number);
        number
    }

    /// Counts one waiter less. The entry of the journal that follows `newest` may still be about it.
    pub(super) fn leave(&mut self, number: u32, newest: u64) {
        let Some((name, waiting)) = self.entries.get_mut(number as usize) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            self.numbers.remove(&**name);
            self.free.push_back((newest + 1, number));
        }
    }
}

/// For `Engine::check_all`.
#[cfg(test)]
impl Runs {
    /// How many wait for each run that has a number.
    pub(super) fn counts(&self) -> std::collections::BTreeMap<u32, usize> {
        assert_eq!(self.numbers.len() + self.free.len(), self.entries.len(), "each entry is a run's or free");
        self.numbers.values().map(|&number| (number, self.entries[number as usize].1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_and_forgotten() {
        let mut runs = Runs::default();
        let all = u64::MAX;
        let (a, b) = (runs.join("a", all), runs.join("b", all));
        assert_eq!(runs.join("a", all), a);
        assert_eq!((runs.waiting("a"), runs.waiting("b"), runs.waiting("c")), (2, 1, 0));
        runs.leave(b, 7);
        assert_eq!(runs.waiting("b"), 0);
        assert_ne!(runs.join("c", 8), b, "its name may be asked for");
        assert_eq!((runs.name(b), runs.find("b")), (Some("b"), NONE));
        assert_eq!(runs.join("d", 9), b, "the entry is used again");
        runs.leave(a, 9);
        runs.leave(a, 9);
        runs.leave(NONE, 9);
        assert_eq!(runs.numbers.len(), 2);
    }
}
