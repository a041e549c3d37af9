//! Names of partitions and labels that are looked up once and used for many requests.

use std::{fmt, sync::Arc};

use crate::engine::{Subject, hash_of, normal};

/// A label whose name was read, normalised and hashed before.
///
/// A layer that knows the tenants, such as authentication, makes a key for each of them once, puts a clone of it into the
/// extensions of their requests, and spares each request the reading and hashing of a name. A key fits all handles. It does
/// not keep the label in the table of any of them.
///
/// ```
/// use tower_admission::classify::{LabelKey, label_by_extension};
///
/// #[derive(Clone)]
/// struct Tenant { label: LabelKey }
///
/// let acme = Tenant { label: LabelKey::new("", "acme").expect("the name is not empty") };
/// let by_tenant = label_by_extension(|tenant: &Tenant| Some(&tenant.label));
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct LabelKey(Arc<LabelName>);

#[derive(Eq, PartialEq)]
struct LabelName {
    hash: u64,
    namespace: Box<str>,
    name: Box<str>,
}

impl LabelKey {
    /// Returns the key of a label in a namespace, `""` for the usual one. Names are trimmed and cut to 256 bytes. `None`
    /// if nothing is left of the label.
    #[must_use]
    pub fn new(namespace: &str, label: &str) -> Option<Self> {
        let (namespace, name) = (normal(namespace).unwrap_or_default(), normal(label)?);
        Some(Self(Arc::new(LabelName {
            hash: hash_of(namespace, name),
            namespace: namespace.into(),
            name: name.into(),
        })))
    }

    /// Returns the name of the label.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the namespace of the label.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Returns the subject of a request with this label.
    pub(crate) fn subject<'a>(&'a self, run: Option<&'a str>) -> Subject<'a> {
        Subject::hashed(self.namespace(), self.name(), self.0.hash, run)
    }
}

impl fmt::Debug for LabelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabelKey").field("namespace", &self.namespace()).field("name", &self.name()).finish()
    }
}

/// A partition whose name was looked up before: see [`Admission::partition_key`](crate::Admission::partition_key).
///
/// Another handle looks its name up again.
#[derive(Clone, Eq, PartialEq)]
pub struct PartitionKey(Arc<PartitionName>);

#[derive(Eq, PartialEq)]
struct PartitionName {
    /// Number of the handle that looked the name up, and what it found.
    handle: u64,
    index: usize,
    name: Arc<str>,
}

impl PartitionKey {
    pub(crate) fn new(handle: u64, index: usize, name: Arc<str>) -> Self {
        Self(Arc::new(PartitionName { handle, index, name }))
    }

    /// Returns the name of the partition.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns what this handle has found, if the key is of this handle.
    #[inline]
    pub(crate) fn index_in(&self, handle: u64) -> Option<usize> {
        (self.0.handle == handle).then_some(self.0.index)
    }
}

impl fmt::Debug for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PartitionKey").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_normal_form_of_its_name() {
        let key = LabelKey::new(" a ", "\tb ").unwrap();
        assert_eq!((key.namespace(), key.name(), key.0.hash), ("a", "b", hash_of("a", "b")));
        assert_eq!(LabelKey::new("a", "  "), None);
        assert_eq!(LabelKey::new("", &"x".repeat(300)).unwrap().name().len(), 256);
    }
}
