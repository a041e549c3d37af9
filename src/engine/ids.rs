//! Numbers by which rooms name each other's things, each of a type of its own.

/// The number of a label's entry, as long as it is in use.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct LabelId(u32);

impl LabelId {
    /// All requests without a label.
    pub(crate) const DEFAULT: Self = Self(0);
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

/// The number of a series.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SeriesId(u16);

impl SeriesId {
    /// The series of requests that are not counted by label: those without a label, and all while no label has a
    /// series.
    pub(crate) const NONE: Self = Self(0);
    /// The series of all labels that have none of their own.
    pub(crate) const OTHERS: Self = Self(1);

    pub(crate) const fn index(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_index(index: u16) -> Self {
        Self(index)
    }
}

/// The number of a waiter. The generation keeps a stale key from finding a later waiter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// The key of a flow: waiters with the same key stand in one flow. Ordered by label, so that the flows of a label are
/// neighbours.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlowKey {
    pub(crate) label: LabelId,
    pub(crate) partition: u16,
    pub(crate) level: u8,
}

impl FlowKey {
    /// Returns the first and the last key that a flow of this label can have.
    pub(crate) const fn all_of(label: LabelId) -> (Self, Self) {
        (Self { label, partition: 0, level: 0 }, Self { label, partition: u16::MAX, level: u8::MAX })
    }
}

/// The number of a slot that expires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TtlId(u32);

impl TtlId {
    /// A slot that does not expire.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    pub(crate) fn from_index(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
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

/// The number of a job whose requests wait.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct JobId(u32);

impl JobId {
    /// No job.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn from_index(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
