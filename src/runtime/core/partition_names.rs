//! The names of partitions, read without the lock.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, RwLock,
    atomic::{AtomicU32, Ordering},
};

use super::lock;
use crate::engine::PartitionId;

/// Names that are compared one by one, at most: most names that differ do so in length, which is quicker than any
/// order.
const FEW: usize = 16;
/// Unknown names that are counted, and how long each may be, in bytes.
const MOST_UNKNOWN: usize = 8;
const LONGEST_UNKNOWN: usize = 200;

/// The names of the partitions of a handle.
#[derive(Debug)]
pub(in crate::runtime) struct PartitionNames {
    /// Names by number that the handle was built with.
    pub(super) built: Names,
    /// Names of partitions that a reload added, whose numbers follow, if there are any.
    added: OnceLock<RwLock<Names>>,
    /// The most frequent names that no partition has, each with a count of its requests that is too high rather than too low
    /// (Space-Saving; Metwally, Agrawal and El Abbadi, 2005).
    unknown: Mutex<Vec<(String, u64)>>,
    unknown_requests: AtomicU32,
}

/// Names in some order, and their positions sorted by name.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) names: Vec<Arc<str>>,
    sorted: Vec<usize>,
}

impl Names {
    fn extend(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.names.extend(names);
        self.sorted = (0..self.names.len()).collect();
        self.sorted.sort_unstable_by_key(|&position| &self.names[position]);
    }

    #[inline(always)]
    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.names.len() <= FEW {
            return self.names.iter().position(|known| is_same(known.as_bytes(), name));
        }
        let found = self.sorted.binary_search_by(|&position| self.names[position].as_bytes().cmp(name));
        found.ok().map(|found| self.sorted[found])
    }
}

impl PartitionNames {
    pub(super) fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut built = Names::default();
        built.extend(names.into_iter().map(Arc::from));
        let (added, unknown, unknown_requests) = (OnceLock::new(), Mutex::default(), AtomicU32::new(0));
        Self { built, added, unknown, unknown_requests }
    }

    /// Returns the number of the partition of this name; the default one, if none has this name.
    pub(super) fn find(&self, name: &[u8]) -> PartitionId {
        let found = self.built.position(name).and_then(PartitionId::from_index);
        found.or_else(|| self.added_number(name)).unwrap_or_else(|| {
            // Where there is but the default partition, no name is known.
            if self.built.names.len() > 1 {
                self.note_unknown(name);
            }
            PartitionId::DEFAULT
        })
    }

    /// Notes one in sixteen requests with a name that no partition has, the first included. Where two come at once, one more or less is
    /// noted: nothing is exact about it.
    fn note_unknown(&self, name: &[u8]) {
        let before = self.unknown_requests.load(Ordering::Relaxed);
        self.unknown_requests.store(before.wrapping_add(1), Ordering::Relaxed);
        if before.is_multiple_of(16)
            && let Ok(name) = std::str::from_utf8(name)
        {
            self.count_unknown(name);
        }
    }

    /// Counts a request with a name that no partition has, unless another one is counted just now.
    #[cold]
    fn count_unknown(&self, name: &str) {
        let unknown = if name.len() <= LONGEST_UNKNOWN { self.unknown.try_lock().ok() } else { None };
        let Some(mut unknown) = unknown else { return };
        if let Some((_, count)) = unknown.iter_mut().find(|(known, _)| known == name) {
            *count += 1;
        } else if unknown.len() < MOST_UNKNOWN {
            unknown.push((name.to_owned(), 1));
        } else if let Some(rarest) = unknown.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (name.to_owned(), rarest.1 + 1);
        }
    }

    /// Returns the most frequent names that no partition has, the most frequent first.
    pub(in crate::runtime) fn unknown(&self) -> Vec<String> {
        let mut unknown = lock(&self.unknown).clone();
        unknown.sort_by(|(_, a), (_, b)| b.cmp(a));
        unknown.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the number of a partition that came with a reload.
    fn added_number(&self, name: &[u8]) -> Option<PartitionId> {
        self.added.get().and_then(|added| self.number_among(added, name))
    }

    #[cold]
    fn number_among(&self, added: &RwLock<Names>, name: &[u8]) -> Option<PartitionId> {
        let added = added.read().unwrap_or_else(PoisonError::into_inner);
        PartitionId::from_index(self.built.names.len() + added.position(name)?)
    }

    /// Notes the names of partitions that came with a reload, in the order of their numbers.
    pub(in crate::runtime) fn add(&self, names: Vec<Arc<str>>) {
        if !names.is_empty() {
            self.added.get_or_init(RwLock::default).write().unwrap_or_else(PoisonError::into_inner).extend(names);
        }
    }

    /// Returns the name of the partition with this number.
    #[inline]
    pub(super) fn name(&self, partition: PartitionId) -> Arc<str> {
        let partition = partition.index();
        self.built.names.get(partition).cloned().unwrap_or_else(|| {
            let added = self.added.get().map(|added| added.read().unwrap_or_else(PoisonError::into_inner));
            let added = added.and_then(|added| added.names.get(partition - self.built.names.len()).cloned());
            added.unwrap_or_default()
        })
    }
}

/// Whether two names are the same. Most are short, and then no function is called.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ends = |name: &[u8]| Some((*name.first_chunk::<4>()?, *name.last_chunk::<4>()?));
    one.len() == other.len() && ends(one) == ends(other) && (matches!(one.len(), 4..=8) || one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_few_and_short_and_the_most_frequent_stays() {
        let names = PartitionNames::of(["default", "gold"]);
        assert_eq!(names.find(b"gold").index(), 1, "control");
        let added: Vec<Arc<str>> = (0..100).rev().map(|number| format!("added-{number}").into()).collect();
        added.chunks(7).for_each(|some| names.add(some.to_vec()));
        for (number, name) in (2..).zip(&added) {
            let found = names.find(name.as_bytes());
            assert_eq!((found.index(), &names.name(found)), (number, name));
        }
        for stranger in 0..10_000 {
            let name = if stranger % 32 < 16 { "glod".to_owned() } else { format!("stranger-{stranger}") };
            assert_eq!(names.find(name.as_bytes()), PartitionId::DEFAULT);
        }
        for _ in 0..100 {
            names.find("long".repeat(LONGEST_UNKNOWN).as_bytes());
        }
        let unknown = names.unknown();
        assert_eq!((unknown.len(), &*unknown[0]), (MOST_UNKNOWN, "glod"));
        assert!(unknown.iter().all(|name| name.len() <= LONGEST_UNKNOWN));
    }

    #[test]
    fn names_are_the_same_if_all_of_their_bytes_are() {
        for (length, position) in (0..20).flat_map(|length| (0..=length).map(move |position| (length, position))) {
            let name = vec![b'a'; length];
            let mut other = name.clone();
            other.splice(position..length.min(position + 1), [b'b']);
            assert!(is_same(&name, &name.clone()) && !is_same(&name, &other), "{name:?} {other:?}");
        }
    }
}
