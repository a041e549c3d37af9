//! A bounded memory that groups of entries share fairly.
//!
//! While there is room, all entries stay. Then a group that has its share or more makes room by its own oldest entry, and a
//! group below its share by the oldest entry of a group beyond it. So one group alone keeps the newest entries, as a plain ring
//! does; and a flood of one group does not push the entries of a quiet group out.

/// No entry.
const NONE: u32 = u32::MAX;
/// Entries that are looked at to find a group that is beyond its share.
const TRIES: usize = 8;

/// An entry, which knows its group.
pub(super) trait Grouped {
    /// Returns the number of its group. Groups are few: as many as settings name, and a constant times that.
    fn group(&self) -> usize;
}

/// Entries in groups, each group from its oldest to its newest.
#[derive(Debug)]
pub(super) struct FairRing<T> {
    nodes: Box<[Node<T>]>,
    used: usize,
    groups: Vec<Group>,
    /// Groups that have entries.
    active: usize,
    /// Where a group beyond its share was looked for last.
    hand: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    entry: T,
    older: u32,
    newer: u32,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    oldest: u32,
    newest: u32,
    count: u32,
}

impl Group {
    const EMPTY: Self = Self { oldest: NONE, newest: NONE, count: 0 };
}

impl<T: Copy + Grouped> FairRing<T> {
    pub(super) fn new(capacity: usize, blank: T) -> Self {
        let node = Node { entry: blank, older: NONE, newer: NONE };
        Self { nodes: vec![node; capacity].into(), used: 0, groups: Vec::new(), active: 0, hand: 0 }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Adds the newest entry of a group.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        // Written where it belongs, rather than handed on: an entry is a cache line.
        if let Some(place) = self.make_room(entry.group()) {
            self.nodes[place].entry = entry;
        }
    }

    /// Returns the place of a new entry of a group, which is the newest one from now on; `None` where there is no room at all.
    fn make_room(&mut self, group: usize) -> Option<usize> {
        let Some(it) = self.groups.get_mut(group) else { return self.make_room_in_new(group) };
        if self.used < self.nodes.len() || it.count as usize * self.active < self.nodes.len() {
            return self.make_room_by_another(group);
        }
        // The oldest of the group becomes the newest: the way of a flood.
        let place = it.oldest;
        if it.count > 1 {
            it.oldest = self.nodes[place as usize].newer;
            self.nodes[it.newest as usize].newer = place;
            self.nodes[place as usize].older = it.newest;
            it.newest = place;
        }
        Some(place as usize)
    }

    #[cold]
    fn make_room_in_new(&mut self, group: usize) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        self.groups.resize(group + 1, Group::EMPTY);
        self.make_room(group)
    }

    /// Takes a place that no entry had, or that of the oldest entry of a group that has more than its share.
    #[expect(clippy::cast_possible_truncation, reason = "a journal has a million entries at the most")]
    fn make_room_by_another(&mut self, group: usize) -> Option<usize> {
        let place = if self.used < self.nodes.len() {
            self.used += 1;
            self.used - 1
        } else {
            let victim = self.beyond_its_share();
            self.take_oldest(victim)
        };
        let into = &mut self.groups[group];
        let before = into.newest;
        into.newest = place as u32;
        if into.count == 0 {
            into.oldest = place as u32;
            self.active += 1;
        } else {
            self.nodes[before as usize].newer = place as u32;
        }
        into.count += 1;
        self.nodes[place].older = before;
        Some(place)
    }

    /// Returns a group with more entries than its share, or the largest of some groups.
    #[cold]
    fn beyond_its_share(&mut self) -> usize {
        let mut largest = 0;
        for tried in 0..TRIES {
            self.hand = (self.hand + 1) % self.nodes.len();
            let group = self.nodes[self.hand].entry.group();
            if self.groups[group].count as usize * self.active > self.nodes.len() {
                return group;
            }
            if tried == 0 || self.groups[group].count > self.groups[largest].count {
                largest = group;
            }
        }
        largest
    }

    /// Takes the oldest entry out of a group that has one; returns its place.
    fn take_oldest(&mut self, group: usize) -> usize {
        let from = &mut self.groups[group];
        let place = from.oldest as usize;
        from.count -= 1;
        if from.count == 0 {
            *from = Group::EMPTY;
            self.active -= 1;
        } else {
            from.oldest = self.nodes[place].newer;
        }
        place
    }

    /// Returns the entries of each group, the newest first, for as long as they are wanted: in no order of the groups.
    pub(super) fn newest_while<'a>(&'a self, mut wanted: impl FnMut(&T) -> bool + 'a) -> impl Iterator<Item = &'a T> {
        let mut group = 0;
        let mut at = self.groups.first().map_or(NONE, |it| it.newest);
        // The node before the oldest one of a group may be that of another group by now.
        std::iter::from_fn(move || {
            loop {
                if let Some(node) = self.nodes.get(at as usize)
                    && wanted(&node.entry)
                {
                    at = if self.groups[group].oldest == at { NONE } else { node.older };
                    return Some(&node.entry);
                }
                group += 1;
                at = self.groups.get(group)?.newest;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A group and a number.
    type Entry = (usize, u64);

    impl Grouped for Entry {
        fn group(&self) -> usize {
            self.0
        }
    }

    fn sorted(ring: &FairRing<Entry>) -> Vec<u64> {
        let mut all: Vec<_> = ring.newest_while(|_| true).map(|it| it.1).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn one_group_keeps_the_newest() {
        for capacity in 0..5_usize {
            let mut ring = FairRing::new(capacity, (0, 0));
            for i in 1..=12_u64 {
                ring.push((3, i));
                let expected: Vec<_> = (1..=i).skip((i as usize).saturating_sub(capacity)).collect();
                assert_eq!(sorted(&ring), expected, "capacity {capacity}");
            }
        }
    }

    /// The control: where the group of the first node makes room, a quiet group comes to 457 of 512 entries.
    #[test]
    fn a_flood_leaves_the_entries_of_quiet_groups_alone() {
        let mut ring = FairRing::new(512, (0, 0));
        let mut number = 0_u64;
        for second in 0..100_u64 {
            for _ in 0..16_000 {
                number += 1;
                ring.push((0, number));
            }
            ring.push((7, 1_000_000_000 + second));
        }
        let all = sorted(&ring);
        assert_eq!(all.len(), 512);
        let quiet: Vec<_> = all.iter().copied().filter(|it| *it >= 1_000_000_000).collect();
        assert_eq!(quiet, (0..100).map(|second| 1_000_000_000 + second).collect::<Vec<_>>(), "all of them");
        assert_eq!(all[411], number, "and the newest of the flood");
        // And the other way round: a group that was quiet has no more than its share for that.
        for i in 0..10_000 {
            ring.push((7, 2_000_000_000 + i));
        }
        let loud = sorted(&ring).into_iter().filter(|it| *it >= 1_000_000_000).count();
        assert!((250..=262).contains(&loud), "{loud} of 512");
    }

    proptest! {
        #[test]
        fn no_entry_is_lost_or_twice_and_each_group_keeps_its_newest(
            capacity in 1_usize..20,
            pushes in prop::collection::vec(0_usize..30, 0..200)
        ) {
            let mut ring = FairRing::new(capacity, (0, 0));
            for (number, &group) in (1..).zip(&pushes) {
                ring.push((group, number));
                let all: Vec<_> = ring.newest_while(|_| true).copied().collect();
                prop_assert_eq!(all.len(), capacity.min(number as usize));
                prop_assert_eq!(ring.active, all.iter().map(|it| it.0).collect::<std::collections::BTreeSet<_>>().len());
                for group in 0..30 {
                    let kept: Vec<_> = all.iter().filter(|it| it.0 == group).map(|it| it.1).collect();
                    let made = (1..).zip(&pushes[..number as usize]).filter(|it| *it.1 == group);
                    let mut newest: Vec<u64> = made.map(|it| it.0).collect();
                    newest.reverse();
                    newest.truncate(kept.len());
                    prop_assert_eq!(kept, newest);
                }
            }
        }
    }
}
