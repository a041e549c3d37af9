//! Marks of a slot, and of a waiter that may get a slot.

use crate::ids::Level;

/// What is noted of a slot, in one byte: there may be a million waiters and slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Marks(u8);

/// Position of the level of importance in the marks, two bits.
const LEVEL_SHIFT: u8 = 2;

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    /// The slot is one of the limit: not so while decisions don't bind, and not after it was given back.
    pub(crate) const COUNTED: Self = Self(1);
    /// The sample of the request was taken.
    pub(crate) const OBSERVED: Self = Self(2);
    /// The request is beyond what observing rules allow: none of them counts it.
    pub(crate) const OVER_QUOTA: Self = Self(0x10);
    /// The request runs although its partition, which observes, would not have let it: the limit does not count it.
    pub(crate) const OVER_LIMIT: Self = Self(0x20);
    /// The request would run under the limit of the shadow law as well.
    pub(crate) const IN_SHADOW: Self = Self(0x40);
    /// The caller of the request left before the answer, and its work may go on.
    pub(crate) const ABANDONED: Self = Self(0x80);
    /// What a request exceeds: the marks that a waiter may have.
    const EXCEEDED: Self = Self::OVER_QUOTA.with(Self::OVER_LIMIT).with(Self::IN_SHADOW);

    pub(crate) const fn with(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }

    pub(crate) const fn without(self, marks: Self) -> Self {
        Self(self.0 & !marks.0)
    }

    /// Whether any of these marks is set.
    pub(crate) const fn has(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    /// Whether of `all` exactly these marks are set.
    pub(crate) const fn has_only(self, marks: Self, all: Self) -> bool {
        self.0 & all.0 == marks.0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns what the request exceeds.
    pub(crate) const fn exceeded(self) -> Self {
        Self(self.0 & Self::EXCEEDED.0)
    }

    pub(crate) const fn with_level(self, level: Level) -> Self {
        Self(self.0 | level.number() << LEVEL_SHIFT)
    }

    pub(crate) const fn level(self) -> Level {
        Level::from_bits(self.0 >> LEVEL_SHIFT)
    }

    /// Returns the level and what the request exceeds, which tell its slot from others; not whether it was abandoned, which comes
    /// later.
    pub(crate) const fn fingerprint(self) -> u8 {
        (self.0 & !Self::ABANDONED.0) >> LEVEL_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Criticality;

    #[test]
    fn the_level_and_the_marks_leave_each_other_alone() {
        let single =
            [Marks::COUNTED, Marks::OBSERVED, Marks::OVER_QUOTA, Marks::OVER_LIMIT, Marks::IN_SHADOW, Marks::ABANDONED];
        let all = single.into_iter().fold(Marks::NONE, Marks::with);
        for level in Criticality::ALL.map(Level::of) {
            for set in single.into_iter().chain([Marks::NONE, all]) {
                let marks = set.with_level(level);
                assert_eq!((marks.level(), marks.exceeded()), (level, set.exceeded()), "{set:?}");
                assert!(single.into_iter().all(|it| marks.has(it) == set.has(it)), "{set:?} {level:?}");
                assert!(marks.has_only(set, all), "{set:?} {level:?}");
            }
        }
        assert_eq!(all.without(Marks::COUNTED.with(Marks::OBSERVED).with(Marks::ABANDONED)), all.exceeded());
    }
}
