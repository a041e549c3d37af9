//! The names of partitions, read without the lock.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use crate::engine::{Engine, PartitionId};

/// Names that are compared one by one, at most: most names that differ do so in length, which is quicker than any
/// order.
const FEW: usize = 16;

/// The names of the partitions of a handle.
#[derive(Debug)]
pub(super) struct PartitionNames {
    /// Names by number, and their numbers sorted by name.
    names: Vec<Arc<str>>,
    sorted: Vec<PartitionId>,
    /// Names of partitions that a reload added, whose numbers follow, and whether there are any.
    added: RwLock<Vec<Arc<str>>>,
    has_added: AtomicBool,
}

impl PartitionNames {
    pub(super) fn of(engine: &Engine) -> Self {
        let names: Vec<Arc<str>> = engine.partitions().map(|(_, name, _)| Arc::from(name)).collect();
        let mut sorted: Vec<_> = PartitionId::all().take(names.len()).collect();
        sorted.sort_unstable_by_key(|&partition| &names[partition.index()]);
        Self { names, sorted, added: RwLock::default(), has_added: AtomicBool::new(false) }
    }

    /// Returns the names that the handle was built with.
    pub(super) fn built(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Returns the number of the partition of this name; the default one, if none has this name.
    #[inline]
    pub(super) fn number(&self, name: Option<&str>) -> PartitionId {
        name.map_or(PartitionId::DEFAULT, |name| self.find(name))
    }

    fn find(&self, name: &str) -> PartitionId {
        let found = if self.names.len() <= FEW {
            let found = self.names.iter().position(|known| **known == *name);
            found.and_then(PartitionId::from_index)
        } else {
            let found = self.sorted.binary_search_by(|&partition| (*self.names[partition.index()]).cmp(name));
            found.ok().map(|position| self.sorted[position])
        };
        found.or_else(|| self.added_number(name)).unwrap_or(PartitionId::DEFAULT)
    }

    /// Returns the number of a partition that came with a reload.
    fn added_number(&self, name: &str) -> Option<PartitionId> {
        if !self.has_added.load(Ordering::Acquire) {
            return None;
        }
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let position = added.iter().position(|known| **known == *name)?;
        PartitionId::from_index(self.names.len() + position)
    }

    /// Notes the names of partitions that came with a reload, in the order of their numbers.
    pub(super) fn add(&self, names: Vec<Arc<str>>) {
        if !names.is_empty() {
            self.added.write().unwrap_or_else(PoisonError::into_inner).extend(names);
            self.has_added.store(true, Ordering::Release);
        }
    }

    /// Returns the name of the partition with this number.
    pub(super) fn name(&self, partition: PartitionId) -> Arc<str> {
        let partition = partition.index();
        self.names.get(partition).cloned().unwrap_or_else(|| {
            let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
            added.get(partition - self.names.len()).cloned().unwrap_or_else(|| Arc::from(""))
        })
    }
}
