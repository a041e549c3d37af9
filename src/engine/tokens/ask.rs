//! A request as the engine sees it.

use crate::{
    criticality::Criticality,
    engine::{
        ids::{ClassId, PartitionId},
        words::{NO_LABEL, hash_of},
    },
    time::Timestamp,
};

/// What a request asks for: names of labels as text, all other fields as numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) partition: PartitionId,
    /// The kind of work; see [`Engine::class`](crate::engine::Engine::class).
    pub(crate) class: ClassId,
    pub(crate) criticality: Criticality,
    /// Label of the request; `None` without one.
    pub(crate) subject: Option<Subject<'a>>,
    /// Time when its caller gives up.
    pub(crate) deadline: Timestamp,
}

/// The label, namespace and run of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) label: &'a str,
    /// The run that the request is a part of.
    pub(crate) run: Option<&'a str>,
    /// Hash of namespace and label, computed before the lock is taken.
    hash: u64,
}

impl<'a> Subject<'a> {
    /// The subject of requests without a label, where rules hold for these as well.
    pub(crate) const NOBODY: Self = Self { namespace: "", label: "", run: None, hash: NO_LABEL };

    /// Returns the subject of a request with a label.
    pub(crate) fn new(namespace: &'a str, label: &'a str, run: Option<&'a str>) -> Self {
        Self { namespace, label, run, hash: hash_of(namespace, label) }
    }

    /// Returns the subject of a request with a label whose hash was computed before.
    pub(crate) const fn hashed(namespace: &'a str, label: &'a str, hash: u64, run: Option<&'a str>) -> Self {
        Self { namespace, label, run, hash }
    }

    /// Returns the hash of namespace and label.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}

impl Ask<'_> {
    /// How many slots a request takes.
    pub(crate) const COST: usize = 1;

    /// Returns a request of `partition` without a label, whose caller waits for ever.
    pub(crate) const fn of(partition: PartitionId) -> Self {
        Self {
            partition,
            class: ClassId::OTHERS,
            criticality: Criticality::Critical,
            subject: None,
            deadline: Timestamp::NEVER,
        }
    }
}
