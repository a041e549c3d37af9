//! What a request was admitted as, for the services behind the layer.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::ticket::Ticket;

/// How a request was admitted: in the extensions of each request behind a layer that [annotates](crate::AdmissionLayer::annotate).
#[derive(Clone, Debug)]
pub struct Grant {
    partition: Arc<str>,
    class: Option<Box<str>>,
    label: Option<Box<str>>,
    came: Instant,
    waited: Duration,
}

impl Grant {
    pub(super) fn of(ticket: &Ticket<'_>, partition: Arc<str>) -> Box<Self> {
        let (class, label) = (ticket.class_name().map(Into::into), ticket.label_name().map(Into::into));
        Box::new(Self { partition, class, label, came: Instant::now(), waited: Duration::ZERO })
    }

    /// Notes that the wait is over.
    pub(super) fn end_wait(&mut self) {
        self.waited = self.came.elapsed();
    }

    /// How long the request waited for its slot; 0 where a slot was free.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// The name of the partition that the request belongs to.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The class of the request, if it has one.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// The label of the request, if it has one.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }
}
