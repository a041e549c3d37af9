//! A request as the engine sees it.

use crate::{
    Criticality, Timestamp,
    ids::{ClassId, PartitionId},
    words::{NO_LABEL, hash_of},
};

/// What a request asks for: names of labels as text, all other fields as numbers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub partition: PartitionId,
    /// The kind of work; see [`Engine::class`](crate::Engine::class).
    pub class: ClassId,
    pub criticality: Criticality,
    /// Label of the request; `None` without one.
    pub subject: Option<Subject<'a>>,
    /// Time when its caller gives up.
    pub deadline: Timestamp,
}

/// The label, namespace and run of a request.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub namespace: &'a str,
    pub label: &'a str,
    /// The run that the request is a part of.
    pub(crate) run: Option<&'a str>,
    /// Hash of namespace and label, computed before the lock is taken.
    hash: u64,
}

impl<'a> Subject<'a> {
    /// The subject of requests without a label, where rules hold for these as well.
    pub(crate) const NOBODY: Self = Self { namespace: "", label: "", run: None, hash: NO_LABEL };

    /// Returns the subject of a request with a label.
    #[inline]
    pub fn new(namespace: &'a str, label: &'a str, run: Option<&'a str>) -> Self {
        Self { namespace, label, run, hash: hash_of(namespace, label) }
    }

    /// Returns the subject of a request with a label whose hash was computed before.
    #[inline]
    pub const fn hashed(namespace: &'a str, label: &'a str, hash: u64, run: Option<&'a str>) -> Self {
        Self { namespace, label, run, hash }
    }

    /// Returns the hash of namespace and label.
    pub const fn hash(&self) -> u64 {
        self.hash
    }
}

impl<'a> Ask<'a> {
    /// How many slots a request takes.
    pub(crate) const COST: usize = 1;

    /// Returns the namespace and the name of the run that the request is a part of, if it is.
    pub(crate) fn run(&self) -> Option<(&'a str, &'a str)> {
        let subject = self.subject?;
        Some((subject.namespace, subject.run?))
    }

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
