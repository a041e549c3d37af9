//! How many waiters each run has, over all labels.

use std::{collections::HashMap, sync::Arc};

/// No run.
pub(super) const NONE: u32 = u32::MAX;

/// Counts the waiters of each run. A run that has none is forgotten, so there are never more runs than waiters.
#[derive(Debug, Default)]
pub(super) struct Runs {
    numbers: HashMap<Arc<str>, u32>,
    entries: Vec<(Arc<str>, usize)>,
    free: Vec<u32>,
}

impl Runs {
    /// How many wait for this run.
    pub(super) fn waiting(&self, run: &str) -> usize {
        self.numbers.get(run).map_or(0, |&number| self.entries[number as usize].1)
    }

    /// Counts one more waiter and answers the number of its run.
    pub(super) fn join(&mut self, run: &str) -> u32 {
        if let Some(&number) = self.numbers.get(run) {
            self.entries[number as usize].1 += 1;
            return number;
        }
        let name: Arc<str> = Arc::from(run);
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push((Arc::clone(&name), 0));
            u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
        });
        self.entries[number as usize] = (Arc::clone(&name), 1);
        self.numbers.insert(name, number);
        number
    }

    /// Counts one waiter less.
    pub(super) fn leave(&mut self, number: u32) {
        let Some((name, waiting)) = self.entries.get_mut(number as usize) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            self.numbers.remove(&**name);
            self.free.push(number);
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
        let (a, b) = (runs.join("a"), runs.join("b"));
        assert_eq!(runs.join("a"), a);
        assert_eq!((runs.waiting("a"), runs.waiting("b"), runs.waiting("c")), (2, 1, 0));
        runs.leave(b);
        assert_eq!(runs.waiting("b"), 0);
        assert_eq!(runs.join("c"), b, "the entry is used again");
        runs.leave(a);
        runs.leave(a);
        runs.leave(NONE);
        assert_eq!(runs.numbers.len(), 1);
    }
}
