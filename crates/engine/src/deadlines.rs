//! Which member runs out of time next.
//!
//! Most members wait for the same time, so they run out of it in the order in which they came. These stand in a list, where each step takes
//! the same time. A member that runs out of time before the last one in the list stands in a binary heap, which knows where each of its
//! members is: O(log n). A cancelled wait leaves nothing behind in either. One timer for the earliest deadline then serves them all.

use crate::{
    Timestamp,
    links::{Links, List, NONE},
};

/// In place of the next member: this one stands in the heap, and `previous` is its position there.
const IN_HEAP: u32 = u32::MAX - 1;
/// In place of the next member: this one stands nowhere.
const ABSENT: u32 = u32::MAX - 2;

#[derive(Debug)]
pub(crate) struct Deadlines {
    heap: Vec<(Timestamp, u32)>,
    /// What is known of each member, by its index.
    entries: Vec<Entry>,
    list: List,
    /// The earliest deadline, which each turn asks for.
    earliest: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    links: Links,
}

impl Entry {
    const VACANT: Self = Self { at: Timestamp::NEVER, links: Links { previous: NONE, next: ABSENT } };
}

impl AsMut<Links> for Entry {
    fn as_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { heap: Vec::new(), entries: Vec::new(), list: List::default(), earliest: Timestamp::NEVER }
    }
}

impl Deadlines {
    /// Returns the earliest deadline; [`Timestamp::NEVER`] if there is none.
    #[inline]
    pub(crate) const fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Returns the earliest deadline and its member.
    pub(crate) fn first(&self) -> Option<(Timestamp, u32)> {
        let listed = self.entries.get(self.list.head as usize).map(|entry| (entry.at, self.list.head));
        match (listed, self.heap.first()) {
            (Some(listed), Some(&heaped)) => Some(listed.min(heaped)),
            (Some(listed), None) => Some(listed),
            (None, heaped) => heaped.copied(),
        }
    }

    /// Removes the member whose deadline is the earliest, if it is over by now; returns that member.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<u32> {
        let (_, member) = self.first().filter(|&(at, _)| at <= now)?;
        self.remove(member);
        Some(member)
    }

    /// Adds or moves `member`; [`Timestamp::NEVER`] is no deadline and needs no entry.
    pub(crate) fn set(&mut self, member: u32, at: Timestamp) {
        self.remove(member);
        if at == Timestamp::NEVER {
            return;
        }
        self.earliest = self.earliest.min(at);
        if self.entries.len() <= member as usize {
            self.entries.resize(member as usize + 1, Entry::VACANT);
        }
        let last = self.list.tail;
        if self.entries.get(last as usize).is_some_and(|it| (it.at, last) > (at, member)) {
            self.entries[member as usize] = Entry { at, links: Links { previous: NONE, next: IN_HEAP } };
            self.heap.push((at, member));
            return self.rise(self.heap.len() - 1);
        }
        self.entries[member as usize].at = at;
        self.list.insert(&mut self.entries, member, NONE);
    }

    /// Removes `member`, if it has a deadline.
    pub(crate) fn remove(&mut self, member: u32) {
        let Some(&Entry { at, links }) = self.entries.get(member as usize) else { return };
        match links.next {
            ABSENT => return,
            IN_HEAP => self.remove_from_heap(links.previous as usize),
            _ => self.list.remove(&mut self.entries, member),
        }
        self.entries[member as usize] = Entry::VACANT;
        if at == self.earliest {
            self.earliest = self.first().map_or(Timestamp::NEVER, |(at, _)| at);
        }
    }

    fn remove_from_heap(&mut self, position: usize) {
        self.heap.swap_remove(position);
        if position < self.heap.len() {
            self.rise(position);
            self.sink(position);
        }
    }

    /// Moves the entry at `position` up to where it belongs, and notes where that is.
    fn rise(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent] <= self.heap[position] {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        self.note(position);
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let children = [2 * position + 1, 2 * position + 2];
            let Some(child) =
                children.into_iter().filter(|&child| child < self.heap.len()).min_by_key(|&child| self.heap[child])
            else {
                break;
            };
            if self.heap[position] <= self.heap[child] {
                break;
            }
            self.swap(child, position);
            position = child;
        }
        self.note(position);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    #[expect(clippy::cast_possible_truncation, reason = "members are indices of 32 bits, each at most once")]
    fn note(&mut self, position: usize) {
        if let Some(&(_, member)) = self.heap.get(position) {
            self.entries[member as usize].links.previous = position as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// For `Engine::check_all`.
    impl Deadlines {
        /// Returns all members, after asserting that they are in order and stand where the entries say.
        pub(crate) fn members(&self) -> std::collections::BTreeMap<u32, Timestamp> {
            for (position, &(at, member)) in self.heap.iter().enumerate() {
                let entry = self.entries[member as usize];
                assert_eq!(
                    (entry.links.previous as usize, entry.links.next),
                    (position, IN_HEAP),
                    "a member is where it is said to be"
                );
                assert!(self.heap[position.saturating_sub(1) / 2] <= (at, member), "no member is before its parent");
            }
            let mut members: std::collections::BTreeMap<_, _> =
                self.heap.iter().map(|&(at, member)| (member, at)).collect();
            let (mut last, mut next) = (None, self.list.head);
            while let Some(entry) = self.entries.get(next as usize) {
                assert_eq!(
                    entry.links.previous,
                    last.map_or(NONE, |(_, member)| member),
                    "the list is linked both ways"
                );
                assert!(last < Some((entry.at, next)), "the list is in order");
                assert_eq!(members.insert(next, entry.at), None, "a member stands once");
                (last, next) = (Some((entry.at, next)), entry.links.next);
            }
            assert_eq!(self.list.tail, last.map_or(NONE, |(_, member)| member), "the list knows its end");
            assert_eq!(
                self.earliest,
                members.values().copied().min().unwrap_or(Timestamp::NEVER),
                "the earliest is known"
            );
            let present = self.entries.iter().filter(|entry| entry.links.next != ABSENT).count();
            assert_eq!(present, members.len(), "each entry stands somewhere");
            members
        }
    }

    #[test]
    fn equal_waits_need_no_heap() {
        let mut deadlines = Deadlines::default();
        for member in 0..100 {
            deadlines.set(member, Timestamp::from_nanos(u64::from(member) / 10));
        }
        for leaver in [50, 99, 0, 51] {
            deadlines.remove(leaver);
        }
        assert_eq!((deadlines.heap.len(), deadlines.members().len()), (0, 96));
        assert_eq!(deadlines.first(), Some((Timestamp::ZERO, 1)));
    }

    proptest! {
        #[test]
        fn it_always_knows_the_earliest(steps in prop::collection::vec((0u32..40, prop::option::of(0u64..100)), 0..300)) {
            let mut deadlines = Deadlines::default();
            let mut model: BTreeSet<(u64, u32)> = BTreeSet::new();
            for (member, at) in steps {
                model.retain(|&(_, other)| other != member);
                match at {
                    Some(at) => {
                        deadlines.set(member, Timestamp::from_nanos(at));
                        model.insert((at, member));
                    }
                    None => deadlines.remove(member),
                }
                let first = deadlines.first().map(|(at, member)| (at.as_nanos(), member));
                prop_assert_eq!(first, model.first().copied());
                prop_assert_eq!(deadlines.members().len(), model.len());
            }
        }
    }
}
