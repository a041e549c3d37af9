//! What is known about a request before it is admitted.

use std::{borrow::Cow, time::Duration};

/// What is known about a request before it is admitted: whose it is, and how long its caller waits.
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
    class: Option<Cow<'r, str>>,
    timeout: Option<Duration>,
}

impl<'r> Ticket<'r> {
    /// A ticket of the default partition, without a deadline.
    pub const fn new() -> Self {
        Self { partition: None, class: None, timeout: None }
    }

    /// Puts the request into the partition of this name; into the default one, if none has this name.
    #[must_use]
    pub fn partition(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_partition(name);
        self
    }

    /// Says what kind of work the request is, such as its route or its kind of query.
    ///
    /// Round-trip times are compared within their class, so that a control law doesn't take a shift of the mix, more
    /// reports and fewer look-ups, for congestion. The first 63 classes are told apart, all further ones are one more.
    #[must_use]
    pub fn class(mut self, name: impl Into<Cow<'r, str>>) -> Self {
        self.set_class(name);
        self
    }

    /// Bounds how long the caller waits for the answer, from now on. The earliest bound holds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit_timeout(timeout);
        self
    }

    /// Puts the request into the partition of this name; into the default one, if none has this name.
    pub fn set_partition(&mut self, name: impl Into<Cow<'r, str>>) {
        self.partition = Some(name.into());
    }

    /// Says what kind of work the request is; see [`class`](Self::class).
    pub fn set_class(&mut self, name: impl Into<Cow<'r, str>>) {
        self.class = Some(name.into());
    }

    /// Bounds how long the caller waits for the answer, from now on. The earliest bound holds.
    pub fn limit_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |earlier| earlier.min(timeout)));
    }

    pub(crate) fn partition_name(&self) -> Option<&str> {
        self.partition.as_deref()
    }

    pub(crate) fn class_name(&self) -> Option<&str> {
        self.class.as_deref()
    }

    pub(crate) const fn remaining(&self) -> Option<Duration> {
        self.timeout
    }
}
