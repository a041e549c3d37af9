//! A set in order: a vector while it is small, as the flows of a partition mostly are, else a tree.

use std::collections::{BTreeSet, VecDeque};

/// Up to this number of members a vector is faster than a tree.
const FEW: usize = 128;

#[derive(Debug)]
pub(super) struct OrderedSet<T> {
    /// All members in order, or none if there is a tree of them.
    few: VecDeque<T>,
    many: BTreeSet<T>,
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self { few: VecDeque::new(), many: BTreeSet::new() }
    }
}

impl<T: Copy + Ord> OrderedSet<T> {
    pub(super) fn insert(&mut self, member: T) {
        if self.many.is_empty() {
            if self.few.len() < FEW {
                // Mostly the last one, since flows take turns.
                if self.few.back().is_none_or(|last| *last < member) {
                    return self.few.push_back(member);
                }
                let Err(place) = self.few.binary_search(&member) else { return };
                return self.few.insert(place, member);
            }
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(member);
    }

    /// Removes a member. Returns whether there was one.
    pub(super) fn remove(&mut self, member: &T) -> bool {
        if !self.many.is_empty() {
            return self.many.remove(member);
        }
        // Mostly the first one.
        let place = if self.few.front() == Some(member) { Ok(0) } else { self.few.binary_search(member) };
        place.map(|place| self.few.remove(place)).is_ok()
    }

    /// Changes a member, if it is there; the only one stays where it stands.
    #[inline]
    pub(super) fn change(&mut self, member: &T, change: impl FnOnce(&mut T)) {
        let mut after = *member;
        change(&mut after);
        let is_alone = self.few.len() == 1;
        if let Some(only) = self.few.front_mut().filter(|only| is_alone && **only == *member) {
            *only = after;
        } else if after != *member && self.remove(member) {
            self.insert(after);
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&T> {
        self.few.front().or_else(|| self.many.first())
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.few.back().or_else(|| self.many.last())
    }

    /// Returns the first member that is not before `from`.
    pub(super) fn first_from(&self, from: &T) -> Option<&T> {
        let few = self.few.get(self.few.partition_point(|member| member < from));
        few.or_else(|| self.many.range(from..).next())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// For `Engine::check_all`.
    impl<T: Copy + Ord> OrderedSet<T> {
        pub(in crate::queue::fair) fn members(&self) -> BTreeSet<T> {
            self.few.iter().chain(&self.many).copied().collect()
        }
    }

    proptest! {
        #[test]
        fn it_is_a_tree_set(steps in prop::collection::vec((0u32..300, 0u32..300, 0..8), 0..600)) {
            let (mut set, mut model) = (OrderedSet::default(), BTreeSet::new());
            for (member, other, step) in steps {
                if step < 3 {
                    prop_assert_eq!(set.remove(&member), model.remove(&member));
                } else if step == 3 {
                    set.change(&member, |it| *it = other);
                    let was_there = model.remove(&member);
                    model.extend(was_there.then_some(other));
                } else {
                    set.insert(member);
                    model.insert(member);
                }
                prop_assert_eq!((set.first(), set.last()), (model.first(), model.last()));
                prop_assert_eq!(set.first_from(&member), model.range(member..).next());
                prop_assert_eq!(set.members(), model.clone());
                prop_assert!(set.few.is_empty() || set.many.is_empty());
            }
        }
    }
}
