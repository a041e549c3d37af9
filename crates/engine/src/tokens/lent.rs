//! What the engine is told of requests that end, and of those on slots that it lent.

use crate::{
    Outcome, Timestamp,
    ids::{ClassId, LabelId, PartitionId},
};

/// The requests that lent slots are for: those of a partition that have no label, or those that have this one.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Borrower {
    pub partition: PartitionId,
    pub label: LabelId,
}

impl Borrower {
    /// The requests of a partition that have no label.
    pub const fn of(partition: PartitionId) -> Self {
        Self { partition, label: LabelId::DEFAULT }
    }
}

/// What happened on the slots of a borrower since the last time.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    pub borrower: Borrower,
    /// Requests that took such a slot; less those that gave up when they were counted already.
    pub admitted: i64,
    /// Slots that are lent no more.
    pub back: u32,
    /// Requests that left.
    pub left: u64,
    /// When the first of the requests that run entered since a request left last.
    pub busy_since: Option<Timestamp>,
}

/// What a request said when it ended, or when its answer began.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct RequestSample {
    pub partition: PartitionId,
    pub label: LabelId,
    /// Kind of work.
    pub class: ClassId,
    pub start: Timestamp,
    pub end: Timestamp,
    /// Requests in flight when it entered, itself included.
    pub in_flight: u32,
    /// Requests in flight when the sample was taken, itself included; 0 where that is for the engine to say.
    pub running: u32,
    pub outcome: Outcome,
    /// Whether it is an answer that came after its deadline, or a request that was given up in the first half of the time
    /// that it had.
    pub is_untimely: bool,
    /// Whether it is of a body that went on after its answer had begun, which says how long a slot is held, and not how long a
    /// caller waits.
    pub is_of_body: bool,
    /// Whether it ran under the limit, so that its time says something about that.
    pub is_within_limit: bool,
    /// Requests alike that it stands for, itself included.
    pub weight: u32,
}

impl RequestSample {
    /// A request on a slot that was lent, of which nothing else is known.
    pub const fn lent(borrower: Borrower) -> Self {
        let Borrower { partition, label } = borrower;
        Self {
            partition,
            label,
            class: ClassId::OTHERS,
            start: Timestamp::ZERO,
            end: Timestamp::ZERO,
            in_flight: 0,
            running: 0,
            outcome: Outcome::Success,
            is_untimely: false,
            is_of_body: false,
            is_within_limit: true,
            weight: 1,
        }
    }
}
