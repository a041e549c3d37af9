//! Numbers by which rooms name each other's things, each of a type of its own.

use crate::Criticality;

/// The number of a partition, for as long as the handle lives.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PartitionId(u16);

impl PartitionId {
    /// The partition of all requests that name none, or one that is unknown.
    pub const DEFAULT: Self = Self(0);

    /// Returns the partition with this index, if there may be that many.
    pub fn from_index(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    pub(crate) const fn number(self) -> u16 {
        self.0
    }

    #[doc(hidden)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns all numbers that there may be, in their order.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        (0..=u16::MAX).map(Self)
    }
}

/// The number of a kind of work: times are compared within their kind.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClassId(u8);

impl ClassId {
    /// All kinds of work that are not told apart.
    pub const OTHERS: Self = Self(0);

    /// Returns the class at this place; that of all others, if it is too far.
    pub fn from_index(index: usize) -> Self {
        u8::try_from(index).map_or(Self::OTHERS, Self)
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A kind of work that was given up: how long it takes is known by answers to requests of the same class and partition, or is not.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct AbandonedKind {
    pub class: ClassId,
    pub partition: PartitionId,
    pub is_known: bool,
}

/// The number of a class that has rules. Not that of its kind of work: most kinds have no rules of their own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RuleClassId(u8);

impl RuleClassId {
    /// The class of all requests whose class has no rules of its own.
    pub(crate) const OTHERS: Self = Self(0);

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns all numbers that there may be, in their order.
    pub(crate) fn all() -> impl Iterator<Item = Self> + Clone {
        (0..=u8::MAX).map(Self)
    }
}

/// The importance of a request, in the order in which requests are served: the most important ones first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Level(u8);

impl Level {
    /// How many levels there are.
    pub(crate) const COUNT: usize = Criticality::ALL.len();
    /// The most important requests.
    pub(crate) const FIRST: Self = Self(0);
    /// The least important requests.
    pub(crate) const LAST: Self = Self(Self::COUNT as u8 - 1);
    /// Beyond all levels, where a range of flows ends.
    const END: Self = Self(u8::MAX);

    pub(crate) const fn of(criticality: Criticality) -> Self {
        Self(criticality.level())
    }

    /// Returns the level that the two lowest bits stand for.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & 3)
    }

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the levels of requests that are less important, the most important ones of these first.
    pub(crate) fn below(self) -> impl Iterator<Item = Self> {
        (self.0 + 1..Self::COUNT as u8).map(Self)
    }
}

const _: () = assert!(Level::COUNT == 4, "a level is two bits of the marks of a slot");

/// The number of a label's entry, as long as it is in use.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LabelId(u32);

impl LabelId {
    /// All requests without a label.
    pub const DEFAULT: Self = Self(0);
    /// All labels that the table has no room for, of the first class; those of the others follow.
    pub(crate) const OVERFLOW: Self = Self(1);

    /// Returns the number as such.
    pub(crate) const fn index(self) -> u32 {
        self.0
    }

    /// Returns the label with this number.
    pub(crate) const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

/// The number of the metrics of a label.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct LabelMetricsId(u16);

impl LabelMetricsId {
    /// The metrics of requests that are not counted by label: those without a label, and all while no label has
    /// any.
    pub(crate) const NONE: Self = Self(0);
    /// The metrics of all labels that have none of their own.
    pub(crate) const OTHERS: Self = Self(1);

    pub(crate) const fn index(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_index(index: u16) -> Self {
        Self(index)
    }
}

/// The number of a waiter. The generation keeps a stale key from finding a later waiter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    pub index: u32,
    pub(crate) generation: u32,
}

/// The key of a flow: waiters with the same key stand in one flow. Ordered by label, so that the flows of a label are
/// neighbours.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlowKey {
    pub(crate) label: LabelId,
    pub(crate) partition: PartitionId,
    pub(crate) level: Level,
}

impl FlowKey {
    /// Returns the first and the last key that a flow of this label can have.
    pub(crate) const fn all_of(label: LabelId) -> (Self, Self) {
        let first = Self { label, partition: PartitionId::DEFAULT, level: Level::FIRST };
        (first, Self { label, partition: PartitionId(u16::MAX), level: Level::END })
    }
}

/// The number of a slot that expires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TtlId(u32);

impl TtlId {
    /// A slot that does not expire.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn from_index(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    #[doc(hidden)]
    pub const fn number(self) -> u32 {
        self.0
    }

    #[doc(hidden)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a meter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MeterId(u32);

impl MeterId {
    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// The number of a run whose requests wait.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct RunId(u32);

impl RunId {
    /// No run.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn from_index(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
