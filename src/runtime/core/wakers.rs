//! Wakers to wake when a wait ends.
//!
//! Each method that takes a waker out returns it, to be dropped outside the lock: dropping a waker may drop a task, and
//! with it a place that wants the lock.

use std::{collections::BTreeMap, task::Waker};

/// The wakers of a handle, under its lock.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Wakers {
    /// Those of waiters, by the number of their entry.
    pub(in crate::runtime) waiters: NumberedWakers,
    /// Those of permit holders that want to know when their slot expires, by the number of the slot.
    pub(in crate::runtime) holders: NumberedWakers,
    /// Those of futures that wait until the handle is drained, by their number.
    pub(in crate::runtime) leaving: BTreeMap<u64, Waker>,
}

/// Wakers by number.
#[derive(Debug, Default)]
pub(in crate::runtime) struct NumberedWakers(Vec<Option<Waker>>);

impl NumberedWakers {
    /// Remembers a waker; returns the last one.
    #[must_use]
    pub(in crate::runtime) fn register(&mut self, number: u32, waker: Waker) -> Option<Waker> {
        let index = number as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        match &self.0[index] {
            Some(known) if known.will_wake(&waker) => Some(waker),
            _ => self.0[index].replace(waker),
        }
    }

    /// Whether this waker is known by this number.
    pub(in crate::runtime) fn knows(&self, number: u32, waker: &Waker) -> bool {
        self.0.get(number as usize).is_some_and(|known| known.as_ref().is_some_and(|it| it.will_wake(waker)))
    }

    /// Forgets a waker.
    #[must_use]
    pub(in crate::runtime) fn unregister(&mut self, number: u32) -> Option<Waker> {
        self.0.get_mut(number as usize)?.take()
    }

    /// Forgets all wakers.
    #[must_use]
    pub(in crate::runtime) fn take_all(&mut self) -> Vec<Waker> {
        self.0.iter_mut().filter_map(Option::take).collect()
    }
}
