//! Which waiter runs out of time next: a binary heap that knows where each of its members is.
//!
//! Inserting and removing are O(log n), removing included, so that a cancelled waiter leaves nothing behind. One timer
//! for the earliest deadline then serves them all.

use crate::time::Timestamp;

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: Vec<(Timestamp, u32)>,
    /// Position in `heap` of the member with this index.
    position: Vec<u32>,
}

impl Deadlines {
    /// Returns the earliest deadline and its member.
    pub(crate) fn first(&self) -> Option<(Timestamp, u32)> {
        self.heap.first().copied()
    }

    /// Adds or moves `member`; [`Timestamp::NEVER`] is no deadline and needs no entry.
    pub(crate) fn set(&mut self, member: u32, at: Timestamp) {
        self.remove(member);
        if at == Timestamp::NEVER {
            return;
        }
        if self.position.len() <= member as usize {
            self.position.resize(member as usize + 1, ABSENT);
        }
        self.heap.push((at, member));
        self.rise(self.heap.len() - 1);
    }

    /// Removes `member` if the heap holds it.
    pub(crate) fn remove(&mut self, member: u32) {
        let Some(&position) = self.position.get(member as usize) else { return };
        if position == ABSENT {
            return;
        }
        let position = position as usize;
        self.position[member as usize] = ABSENT;
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
            self.position[member as usize] = position as u32;
        }
    }
}

/// For `Engine::check_all`.
#[cfg(test)]
impl Deadlines {
    /// Returns all members, after asserting that they are in order and where `position` says.
    pub(crate) fn members(&self) -> std::collections::BTreeMap<u32, Timestamp> {
        for (position, &(at, member)) in self.heap.iter().enumerate() {
            assert_eq!(self.position[member as usize] as usize, position, "each member is where it is said to be");
            assert!(self.heap[position.saturating_sub(1) / 2] <= (at, member), "nobody is before its parent");
        }
        self.heap.iter().map(|&(at, member)| (member, at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

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
                prop_assert_eq!(deadlines.heap.len(), model.len());
            }
        }
    }
}
