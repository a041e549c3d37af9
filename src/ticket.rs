//! The attributes of a request before admission.

use std::{borrow::Cow, time::Duration};

use crate::engine::normal;
use crate::{
    Criticality,
    keys::{LabelKey, PartitionKey},
};

/// The attributes of a request before admission: partition, label, class, and the time for which the caller waits.
///
/// A classifier fills it in. It borrows from the request where it can, so that reading a header costs no allocation.
///
/// ```
/// # use std::time::Duration;
/// use tower_admission::Ticket;
///
/// let ticket = Ticket::new().partition("checkout").timeout(Duration::from_secs(2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Ticket<'r> {
    partition: Option<Cow<'r, str>>,
    partition_key: Option<&'r PartitionKey>,
    class: Option<Cow<'r, str>>,
    namespace: Option<Cow<'r, str>>,
    label: Option<Cow<'r, str>>,
    label_key: Option<&'r LabelKey>,
    run: Option<Cow<'r, str>>,
    criticality: Criticality,
    timeout: Option<Duration>,
}

impl<'r> Ticket<'r> {
    /// A ticket of the default partition, without a deadline.
    pub const fn new() -> Self {
        Self {
            partition: None,
            partition_key: None,
            class: None,
            namespace: None,
            label: None,
            label_key: None,
            run: None,
            criticality: Criticality::Critical,
            timeout: None,
        }
    }

    /// A ticket of the partition of this name, if it is text.
    pub(crate) fn named(partition: Option<&'r [u8]>) -> Self {
        let partition = partition.and_then(|name| std::str::from_utf8(name).ok()).map(Cow::Borrowed);
        Self { partition, ..Self::new() }
    }

    /// Sets the partition; an unknown name is the default partition.
    #[must_use]
    pub fn partition(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_partition(name);
        self
    }

    /// Sets the class: the kind of work, such as the route or the kind of query.
    ///
    /// Round-trip times are compared within their class, so that a control law doesn't take a shift of the mix (more
    /// reports and fewer look-ups) for congestion. The first 63 classes are distinguished; all further ones count as
    /// one.
    #[must_use]
    pub fn class(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_class(name);
        self
    }

    /// Sets the label, which is the fairness key: a tenant, a task queue, a pool. Waiters take turns by label, and
    /// labels have bounds of their own; see [`Labels`](crate::Labels).
    ///
    /// Names are trimmed and cut to 256 bytes; an empty one is none.
    #[must_use]
    pub fn label(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_label(name);
        self
    }

    /// Sets the namespace of the label: the same label in two namespaces is two labels. `""` unless set. A label that is
    /// set by its [key](Self::set_label_key) has the namespace of the key.
    #[must_use]
    pub fn namespace(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_namespace(name);
        self
    }

    /// Sets the run: the key of one job whose requests spread over several labels. The waiters of a run are bounded
    /// over all labels. Requests without a label have no run.
    #[must_use]
    pub fn run(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_run(name);
        self
    }

    /// Sets the importance of the request: [`Criticality::Critical`] unless set.
    #[must_use]
    pub const fn criticality(mut self, criticality: Criticality) -> Self {
        self.set_criticality(criticality);
        self
    }

    /// Bounds the time for which the caller waits for the answer, from now on. The earliest bound applies.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit_timeout(timeout);
        self
    }

    /// Sets the partition; an unknown name is the default partition.
    pub fn set_partition(&mut self, name: impl Into<Cow<'r, str>>) {
        self.partition = Some(name.into());
        self.partition_key = None;
    }

    /// Sets the partition, whose name was looked up before.
    pub const fn set_partition_key(&mut self, key: &'r PartitionKey) {
        self.partition_key = Some(key);
    }

    /// Sets the class; see [`class`](Self::class).
    pub fn set_class(&mut self, name: impl Into<Cow<'r, str>>) {
        self.class = Some(name.into());
    }

    /// Sets the label; see [`label`](Self::label).
    pub fn set_label(&mut self, name: impl Into<Cow<'r, str>>) {
        self.label = Some(name.into());
        self.label_key = None;
    }

    /// Sets the label and its namespace, whose names were hashed before.
    pub const fn set_label_key(&mut self, key: &'r LabelKey) {
        self.label_key = Some(key);
    }

    /// Sets the namespace of the label; see [`namespace`](Self::namespace).
    pub fn set_namespace(&mut self, name: impl Into<Cow<'r, str>>) {
        self.namespace = Some(name.into());
    }

    /// Sets the run; see [`run`](Self::run).
    pub fn set_run(&mut self, name: impl Into<Cow<'r, str>>) {
        self.run = Some(name.into());
    }

    /// Sets the importance of the request.
    pub const fn set_criticality(&mut self, criticality: Criticality) {
        self.criticality = criticality;
    }

    /// Bounds the time for which the caller waits for the answer, from now on. The earliest bound applies.
    pub fn limit_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |earlier| earlier.min(timeout)));
    }

    pub(crate) fn partition_name(&self) -> Option<&str> {
        match self.partition_key {
            Some(key) => Some(key.name()),
            None => self.partition.as_deref(),
        }
    }

    /// Returns the partition, if its name was looked up before.
    #[inline]
    pub(crate) const fn partition_key(&self) -> Option<&'r PartitionKey> {
        self.partition_key
    }

    pub(crate) fn class_name(&self) -> Option<&str> {
        self.class.as_deref()
    }

    pub(crate) fn label_name(&self) -> Option<&str> {
        match self.label_key {
            Some(key) => Some(key.name()),
            None => normal(self.label.as_deref()?),
        }
    }

    pub(crate) fn namespace_name(&self) -> &str {
        match self.label_key {
            Some(key) => key.namespace(),
            None => self.namespace.as_deref().and_then(normal).unwrap_or_default(),
        }
    }

    /// Returns the label, if its name was hashed before.
    #[inline]
    pub(crate) const fn label_key(&self) -> Option<&'r LabelKey> {
        self.label_key
    }

    pub(crate) fn run_name(&self) -> Option<&str> {
        normal(self.run.as_deref()?)
    }

    pub(crate) const fn how_critical(&self) -> Criticality {
        self.criticality
    }

    /// Whether the request asks for a slot of its partition and nothing else.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.label.is_none() && self.label_key.is_none() && self.is_plain_but_for_label()
    }

    /// The same for a request that may have a label.
    #[inline]
    pub(crate) fn is_plain_but_for_label(&self) -> bool {
        self.class.is_none()
            && matches!(self.criticality, Criticality::Critical)
            && self.timeout.is_none_or(|timeout| !timeout.is_zero())
    }

    /// Whether nothing was set.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_plain()
            && self.timeout.is_none()
            && self.partition.is_none()
            && self.partition_key.is_none()
            && self.namespace.is_none()
            && self.run.is_none()
    }

    /// The same ticket without borrowing from the request: keys become the names that they were made of.
    pub(crate) fn into_owned(self) -> Ticket<'static> {
        let own = |name: Option<Cow<'r, str>>| name.map(|name| Cow::Owned(name.into_owned()));
        let text = |name: &str| Some(Cow::Owned(name.to_owned()));
        let (label, namespace) = match self.label_key {
            Some(key) => (text(key.name()), text(key.namespace())),
            None => (own(self.label), own(self.namespace)),
        };
        Ticket {
            partition: self.partition_key.map_or_else(|| own(self.partition), |key| text(key.name())),
            partition_key: None,
            class: own(self.class),
            namespace,
            label,
            label_key: None,
            run: own(self.run),
            criticality: self.criticality,
            timeout: self.timeout,
        }
    }

    pub(crate) const fn remaining(&self) -> Option<Duration> {
        self.timeout
    }
}
