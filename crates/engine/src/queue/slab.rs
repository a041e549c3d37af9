//! Waiting requests: a slab with generations, threaded into doubly linked lists.
//!
//! Joining, leaving from the middle and moving from one list to another are O(1), and nothing is deleted lazily: after 100,000 waiters
//! vanished at once, the next grant finds no corpse to step over. Freed entries are reused, so a steady queue allocates nothing.

use crate::{
    ids::Key,
    links::{Links, List, NONE},
    tokens::Waiter,
};

#[derive(Debug)]
struct Entry {
    waiter: Waiter,
    links: Links,
    generation: u32,
    /// The flow in which the waiter stands, or stood last.
    flow: u32,
}

impl AsMut<Links> for Entry {
    fn as_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    entries: Vec<Entry>,
    /// Free entries, threaded by `next`. `vacant` counts them.
    free: Option<u32>,
    vacant: usize,
}

impl Waiters {
    /// Adds a waiter that is in no list yet; `None` where four billion wait already.
    pub(crate) fn insert(&mut self, waiter: Waiter) -> Option<Key> {
        let entry = Entry { waiter, links: Links::NONE, generation: 0, flow: NONE };
        if let Some(index) = self.free {
            let free = &mut self.entries[index as usize];
            self.free = Some(free.links.next).filter(|&next| next != NONE);
            self.vacant -= 1;
            let generation = free.generation;
            *free = Entry { generation, ..entry };
            return Some(Key { index, generation });
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NONE)?;
        self.entries.push(entry);
        Some(Key { index, generation: 0 })
    }

    /// Forgets a waiter that is in no list any more.
    pub(crate) fn remove(&mut self, key: Key) {
        let free = self.free.unwrap_or(NONE);
        let entry = self.entry_mut(key);
        entry.generation = entry.generation.wrapping_add(1);
        entry.links.next = free;
        self.free = Some(key.index);
        self.vacant += 1;
    }

    /// Returns where the entry of a waiter is.
    fn place(&self, key: Key) -> u32 {
        #[cfg(test)]
        assert_eq!(self.key(key.index), key, "a place was used after it was given back");
        key.index
    }

    pub(crate) fn get(&self, key: Key) -> &Waiter {
        &self.entries[self.place(key) as usize].waiter
    }

    /// Like `get`, for a key that may be stale.
    pub(crate) fn find(&self, key: Key) -> Option<&Waiter> {
        let entry = self.entries.get(key.index as usize).filter(|entry| entry.generation == key.generation);
        entry.map(|entry| &entry.waiter)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> &mut Waiter {
        &mut self.entry_mut(key).waiter
    }

    fn entry_mut(&mut self, key: Key) -> &mut Entry {
        let place = self.place(key);
        &mut self.entries[place as usize]
    }

    /// Returns the flow in which a waiter stands, to be read or set.
    pub(crate) fn flow_mut(&mut self, key: Key) -> &mut u32 {
        &mut self.entry_mut(key).flow
    }

    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, generation: self.entries[index as usize].generation }
    }

    /// Returns every waiter that was inserted and not removed since.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut vacant = vec![false; self.entries.len()];
        let mut next = self.free.unwrap_or(NONE);
        while let Some(entry) = vacant.get_mut(next as usize) {
            *entry = true;
            next = self.entries[next as usize].links.next;
        }
        (0..).zip(vacant).filter(|(_, vacant)| !vacant).map(|(index, _)| self.key(index)).collect()
    }

    /// Returns the members of a list, from the front.
    pub(crate) fn iter(&self, list: List) -> impl Iterator<Item = &Waiter> {
        let mut next = list.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(next as usize).filter(|_| next != NONE)?;
            next = entry.links.next;
            Some(&entry.waiter)
        })
    }

    pub(crate) fn front(&self, list: List) -> Option<Key> {
        (list.head != NONE).then(|| self.key(list.head))
    }

    pub(crate) fn back(&self, list: List) -> Option<Key> {
        (list.tail != NONE).then(|| self.key(list.tail))
    }

    pub(crate) fn push_back(&mut self, list: &mut List, key: Key) {
        let place = self.place(key);
        list.insert(&mut self.entries, place, NONE);
    }

    /// Adds a waiter where its arrival belongs: before the waiters that came later, of which there are few before it.
    pub(crate) fn push_in_order(&mut self, list: &mut List, key: Key) {
        let sequence = self.get(key).sequence;
        let mut next = list.head;
        while next != NONE && self.entries[next as usize].waiter.sequence < sequence {
            next = self.entries[next as usize].links.next;
        }
        list.insert(&mut self.entries, key.index, next);
    }

    /// Takes a waiter out of its list.
    pub(crate) fn unlink(&mut self, list: &mut List, key: Key) {
        let place = self.place(key);
        list.remove(&mut self.entries, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Timestamp,
        ids::{LabelId, PartitionId, RunId},
        tokens::Ask,
    };

    /// For `Engine::check_all`.
    impl Waiters {
        pub(crate) const fn len(&self) -> usize {
            self.entries.len() - self.vacant
        }

        /// Returns every waiter that was inserted and not removed since.
        pub(crate) fn live(&self) -> Vec<Key> {
            let mut vacant = vec![false; self.entries.len()];
            let mut next = self.free.unwrap_or(NONE);
            while next != NONE {
                assert!(!std::mem::replace(&mut vacant[next as usize], true), "a free entry is free once");
                next = self.entries[next as usize].links.next;
            }
            assert_eq!(vacant.iter().filter(|&&vacant| vacant).count(), self.vacant, "free entries are counted");
            let live = (0..).zip(vacant).filter(|(_, vacant)| !vacant);
            live.map(|(index, _)| self.key(index)).collect()
        }

        /// Returns the members of a list, from the front, found to be linked both ways.
        pub(crate) fn members(&self, list: List) -> Vec<Key> {
            let (mut members, mut previous, mut next) = (Vec::new(), NONE, list.head);
            while next != NONE {
                assert_eq!(self.entries[next as usize].links.previous, previous, "lists are linked both ways");
                members.push(self.key(next));
                (previous, next) = (next, self.entries[next as usize].links.next);
            }
            assert_eq!((list.tail, list.len()), (previous, members.len()), "a list knows its end and its length");
            members
        }
    }

    fn add(waiters: &mut Waiters, list: &mut List, sequence: u64) -> Key {
        let waiter =
            Waiter::new(&Ask::of(PartitionId::DEFAULT), LabelId::DEFAULT, RunId::NONE, sequence, Timestamp::ZERO);
        let key = waiters.insert(waiter).unwrap();
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
    fn a_waiter_that_comes_back_stands_where_it_stood() {
        for back in 0..4 {
            let (mut waiters, mut list) = (Waiters::default(), List::default());
            let keys: Vec<_> = (0..4).map(|i| add(&mut waiters, &mut list, i)).collect();
            waiters.unlink(&mut list, keys[back]);
            waiters.push_in_order(&mut list, keys[back]);
            assert_eq!(waiters.members(list), keys, "linked both ways, in order");
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
