//! Wakers to wake when a wait ends.
//!
//! Each method that takes a waker out returns it, to be dropped outside the lock: dropping a waker may drop a task, and
//! with it a place that wants the lock.

use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use crate::engine::{Key, TtlId};

/// The wakers of a handle, under its lock.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Wakers {
    /// Wakers of waiters, by the number of their entry.
    waiters: Vec<Option<Waker>>,
    /// Wakers of permit holders that want to know when their slot expires, by the number of the slot.
    holders: Vec<Option<Waker>>,
    /// Wakers of futures that wait until the handle is drained, by their number.
    pub(in crate::runtime) leaving: BTreeMap<u64, Waker>,
}

impl Wakers {
    /// Remembers the waker of a waiter; returns the last one.
    #[must_use]
    pub(in crate::runtime) fn register(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        remember(&mut self.waiters, key.index, waker)
    }

    /// Whether a waiter is woken by this waker.
    pub(in crate::runtime) fn knows(&self, key: Key, waker: &Waker) -> bool {
        self.waiters.get(key.index as usize).is_some_and(|known| known.as_ref().is_some_and(|it| it.will_wake(waker)))
    }

    /// Forgets the waker of a waiter.
    #[must_use]
    pub(in crate::runtime) fn unregister(&mut self, key: Key) -> Option<Waker> {
        self.waiters.get_mut(key.index as usize)?.take()
    }

    /// Remembers the waker of the holder of a slot that expires; returns the last one.
    #[must_use]
    pub(in crate::runtime) fn register_holder(&mut self, slot: TtlId, waker: Waker) -> Option<Waker> {
        remember(&mut self.holders, slot.number(), waker)
    }

    /// Forgets the waker of the holder of a slot that expires.
    #[must_use]
    pub(in crate::runtime) fn unregister_holder(&mut self, slot: TtlId) -> Option<Waker> {
        self.holders.get_mut(slot.index())?.take()
    }

    /// Returns the wakers of all waiters.
    pub(in crate::runtime) fn take_all(&mut self) -> VecDeque<Waker> {
        self.waiters.iter_mut().filter_map(Option::take).collect()
    }
}

fn remember(wakers: &mut Vec<Option<Waker>>, number: u32, waker: Waker) -> Option<Waker> {
    let index = number as usize;
    if wakers.len() <= index {
        wakers.resize(index + 1, None);
    }
    match &wakers[index] {
        Some(known) if known.will_wake(&waker) => Some(waker),
        _ => wakers[index].replace(waker),
    }
}
