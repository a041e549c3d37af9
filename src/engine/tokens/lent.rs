//! What the engine is told of requests that end, and of those on slots that it lent.

use crate::{
    engine::ids::{ClassId, PartitionId},
    outcome::Outcome,
    time::Timestamp,
};

/// What happened on the lent slots of a partition since the last time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    pub(crate) partition: PartitionId,
    /// Requests that took such a slot; less those that gave up when they were counted already.
    pub(crate) admitted: i64,
    /// Slots that are lent no more.
    pub(crate) back: u32,
    /// Requests that left.
    pub(crate) left: u64,
    /// When the first of the requests that run entered since a request left last.
    pub(crate) busy_since: Option<Timestamp>,
}

/// What a request said when it ended, or when its answer began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSample {
    pub(crate) partition: PartitionId,
    /// Kind of work.
    pub(crate) class: ClassId,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    /// Requests in flight when it entered, itself included.
    pub(crate) in_flight: u32,
    /// Requests in flight when the sample was taken, itself included; 0 where that is for the engine to say.
    pub(crate) running: u32,
    pub(crate) outcome: Outcome,
    /// Whether it is an answer that came after its deadline, or a request that was given up in the first half of the time
    /// that it had.
    pub(crate) is_untimely: bool,
    /// Whether it ran under the limit, so that its time says something about that.
    pub(crate) is_within_limit: bool,
    /// Requests alike that it stands for, itself included.
    pub(crate) weight: u32,
}

impl RequestSample {
    /// A request on a lent slot of a partition, of which nothing else is known.
    pub(crate) const fn lent(partition: PartitionId) -> Self {
        Self {
            partition,
            class: ClassId::OTHERS,
            start: Timestamp::ZERO,
            end: Timestamp::ZERO,
            in_flight: 0,
            running: 0,
            outcome: Outcome::Success,
            is_untimely: false,
            is_within_limit: true,
            weight: 1,
        }
    }
}
