//! A request, as a record names it.

use crate::{
    Criticality, Reason, Timestamp,
    engine::{Arrival, PartitionId, Refusal, Slot},
};

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
