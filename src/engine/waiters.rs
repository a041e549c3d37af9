//! Waiting requests: a slab with generations, threaded into doubly linked lists.
//!
//! Joining, leaving from the middle and moving from one list to another are O(1), and nothing is deleted lazily: after
//! 100,000 waiters vanished at once, the next grant finds no corpse to step over. Freed entries are reused, so a
//! steady queue allocates nothing.

use super::Refusal;
use crate::time::Timestamp;

const NONE: u32 = u32::MAX;

/// Where one waiting request stands. The generation keeps a stale key from finding a later waiter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    generation: u32,
}

/// What became of a waiter so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Waits for room in the line.
    Gate,
    /// Waits for a slot.
    Line,
    /// Holds a slot that it has not fetched yet. Carries what its sample needs.
    Granted { in_flight: u32 },
    /// Was turned away and has not asked yet.
    Refused(Refusal),
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) stage: Stage,
    pub(crate) partition: u16,
    /// Order of arrival over all partitions.
    pub(crate) sequence: u64,
    pub(crate) since: Timestamp,
    /// When its caller gives up.
    pub(crate) caller_deadline: Timestamp,
    /// When its present wait ends, the caller's deadline included.
    pub(crate) deadline: Timestamp,
    previous: u32,
    next: u32,
    generation: u32,
}

/// One first-in, first-out list through the slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub(crate) const fn len(self) -> usize {
        self.len
    }
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    entries: Vec<Waiter>,
    /// Free entries, threaded by `next`. `vacant` counts them.
    free: Option<u32>,
    vacant: usize,
}

impl Waiters {
    /// Adds a waiter that is in no list yet; `None` where four billion wait already.
    pub(crate) fn insert(
        &mut self,
        partition: u16,
        sequence: u64,
        since: Timestamp,
        caller_deadline: Timestamp,
    ) -> Option<Key> {
        let waiter = Waiter {
            stage: Stage::Line,
            partition,
            sequence,
            since,
            caller_deadline,
            deadline: Timestamp::NEVER,
            previous: NONE,
            next: NONE,
            generation: 0,
        };
        if let Some(index) = self.free {
            let entry = &mut self.entries[index as usize];
            self.free = (entry.next != NONE).then_some(entry.next);
            self.vacant -= 1;
            let generation = entry.generation;
            *entry = Waiter { generation, ..waiter };
            return Some(Key { index, generation });
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NONE)?;
        self.entries.push(waiter);
        Some(Key { index, generation: 0 })
    }

    /// Forgets a waiter that is in no list any more.
    pub(crate) fn remove(&mut self, key: Key) {
        let free = self.free.unwrap_or(NONE);
        let entry = self.get_mut(key);
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = free;
        self.free = Some(key.index);
        self.vacant += 1;
    }

    pub(crate) fn get(&self, key: Key) -> &Waiter {
        let entry = &self.entries[key.index as usize];
        debug_assert_eq!(entry.generation, key.generation, "a place was used after it was given back");
        entry
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> &mut Waiter {
        let entry = &mut self.entries[key.index as usize];
        debug_assert_eq!(entry.generation, key.generation, "a place was used after it was given back");
        entry
    }

    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, generation: self.entries[index as usize].generation }
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len() - self.vacant
    }

    pub(crate) fn front(&self, list: List) -> Option<Key> {
        (list.head != NONE).then(|| self.key(list.head))
    }

    pub(crate) fn push_back(&mut self, list: &mut List, key: Key) {
        let tail = list.tail;
        let entry = self.get_mut(key);
        (entry.previous, entry.next) = (tail, NONE);
        match tail {
            NONE => list.head = key.index,
            _ => self.entries[tail as usize].next = key.index,
        }
        list.tail = key.index;
        list.len += 1;
    }

    /// Takes a waiter out of the list that it is in.
    pub(crate) fn unlink(&mut self, list: &mut List, key: Key) {
        let entry = self.get_mut(key);
        let (previous, next) = (entry.previous, entry.next);
        (entry.previous, entry.next) = (NONE, NONE);
        match previous {
            NONE => list.head = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            _ => self.entries[next as usize].previous = previous,
        }
        list.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(waiters: &mut Waiters, list: &mut List, sequence: u64) -> Key {
        let key = waiters.insert(0, sequence, Timestamp::ZERO, Timestamp::NEVER).unwrap();
        waiters.push_back(list, key);
        key
    }

    fn order(waiters: &mut Waiters, list: &mut List) -> Vec<u64> {
        std::iter::from_fn(|| {
            let key = waiters.front(*list)?;
            waiters.unlink(list, key);
            let sequence = waiters.get(key).sequence;
            waiters.remove(key);
            Some(sequence)
        })
        .collect()
    }

    #[test]
    fn leaving_from_anywhere_keeps_the_order_of_the_rest() {
        for leaver in 0..4 {
            let (mut waiters, mut list) = (Waiters::default(), List::default());
            let keys: Vec<_> = (0..4).map(|i| add(&mut waiters, &mut list, i)).collect();
            waiters.unlink(&mut list, keys[leaver]);
            waiters.remove(keys[leaver]);
            let rest: Vec<_> = (0..4).filter(|&i| i != leaver as u64).collect();
            assert_eq!(order(&mut waiters, &mut list), rest);
            assert_eq!((list.len(), waiters.len()), (0, 0));
        }
    }

    #[test]
    fn freed_entries_are_reused_under_a_new_generation() {
        let (mut waiters, mut list) = (Waiters::default(), List::default());
        let first = add(&mut waiters, &mut list, 1);
        order(&mut waiters, &mut list);
        let second = add(&mut waiters, &mut list, 2);
        assert_eq!(first.index, second.index);
        assert_ne!(first, second);
        assert_eq!(waiters.entries.len(), 1);
    }
}
