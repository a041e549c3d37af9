//! A request and a worker, as a record names them.

use std::time::Duration;

use crate::{
    Criticality, Reason, Timestamp,
    engine::{Arrival, PartitionId, Refusal, Slot, Subject},
};

/// A worker reports its slots.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(in crate::runtime) namespace: String,
    pub(in crate::runtime) label: String,
    pub(in crate::runtime) class: Option<String>,
    pub(in crate::runtime) worker: String,
    pub(in crate::runtime) slots: usize,
    pub(in crate::runtime) valid_for: Duration,
}

impl Worker {
    pub(crate) fn new(
        subject: &Subject<'_>,
        class: Option<&str>,
        worker: &str,
        slots: usize,
        valid_for: Duration,
    ) -> Box<Self> {
        Box::new(Self {
            namespace: subject.namespace.to_owned(),
            label: subject.label.to_owned(),
            class: class.map(str::to_owned),
            worker: worker.to_owned(),
            slots,
            valid_for,
        })
    }
}

/// A request that arrives.
#[derive(Debug)]
pub(crate) struct Arrive {
    /// Whether the request waits if it has to.
    pub(in crate::runtime) waits: bool,
    pub(in crate::runtime) partition: Option<String>,
    /// Partition number of the request.
    pub(in crate::runtime) number: PartitionId,
    pub(in crate::runtime) class: Option<String>,
    pub(in crate::runtime) namespace: String,
    pub(in crate::runtime) label: Option<String>,
    pub(in crate::runtime) run: Option<String>,
    pub(in crate::runtime) criticality: Criticality,
    pub(in crate::runtime) deadline: Timestamp,
    pub(in crate::runtime) gets: Gets,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gets {
    Slot([u64; 4]),
    Place(u32),
    Rejection(Reason),
}

impl From<&Arrival> for Gets {
    fn from(arrival: &Arrival) -> Self {
        match arrival {
            Arrival::Admit(slot) => Self::Slot(slot.fingerprint()),
            Arrival::Wait(place) | Arrival::Ask(place, _) => Self::Place(place.key().index),
            Arrival::Reject(refusal) => Self::Rejection(refusal.reason),
        }
    }
}

impl From<&Result<Slot, Refusal>> for Gets {
    fn from(answer: &Result<Slot, Refusal>) -> Self {
        match answer {
            Ok(slot) => Self::Slot(slot.fingerprint()),
            Err(refusal) => Self::Rejection(refusal.reason),
        }
    }
}
