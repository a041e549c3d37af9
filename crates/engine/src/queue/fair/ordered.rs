//! A set in order: a vector while it is small, as the flows of a partition mostly are, else a tree.

use std::collections::BTreeSet;

/// Up to this number of members a vector is faster than a tree.
const FEW: usize = 16;

#[derive(Debug)]
pub(super) struct OrderedSet<T> {
    /// All members in order, or none if there is a tree of them.
    few: Vec<T>,
    many: BTreeSet<T>,
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self { few: Vec::new(), many: BTreeSet::new() }
    }
}

impl<T: Ord> OrderedSet<T> {
    pub(super) fn insert(&mut self, member: T) {
        if self.many.is_empty() {
            let Err(place) = self.few.binary_search(&member) else { return };
            if self.few.len() < FEW {
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
        let found = self.few.binary_search(member);
        found.is_ok_and(|place| {
            self.few.remove(place);
            true
        })
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&T> {
        self.few.first().or_else(|| self.many.first())
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.few.last().or_else(|| self.many.last())
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
        fn it_is_a_tree_set(steps in prop::collection::vec((0u32..60, prop::bool::weighted(0.6)), 0..400)) {
            let (mut set, mut model) = (OrderedSet::default(), BTreeSet::new());
            for (member, joins) in steps {
                if joins {
                    set.insert(member);
                    model.insert(member);
                } else {
                    prop_assert_eq!(set.remove(&member), model.remove(&member));
                }
                prop_assert_eq!((set.first(), set.last()), (model.first(), model.last()));
                prop_assert_eq!(set.first_from(&member), model.range(member..).next());
                prop_assert_eq!(set.members(), model.clone());
                prop_assert!(set.few.is_empty() || set.many.is_empty());
            }
        }
    }
}
