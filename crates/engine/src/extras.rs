//! What the settings and the mode ask of a request beyond a slot of its partition: one word, so that a request which is asked
//! for nothing else is told so by one test.

/// A bit for each thing that is asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Extras(u8);

impl Extras {
    /// Decisions don't bind, or the handle leaves or drains.
    pub(crate) const MODE: Self = Self(1);
    /// There are rules, on caps, rates or budgets.
    pub(crate) const RULES: Self = Self(1 << 1);
    /// A partition only says what it would do.
    pub(crate) const OBSERVING: Self = Self(1 << 2);
    /// There is a shadow law.
    pub(crate) const SHADOW_LAW: Self = Self(1 << 3);
    /// Labels have metrics of their own.
    pub(crate) const LABEL_METRICS: Self = Self(1 << 4);
    /// Slots expire.
    pub(crate) const SLOT_TTL: Self = Self(1 << 5);

    /// These of all things.
    pub(crate) fn of(all: impl IntoIterator<Item = (Self, bool)>) -> Self {
        Self(all.into_iter().filter(|&(_, is_asked)| is_asked).fold(0, |word, (it, _)| word | it.0))
    }

    /// Whether nothing is asked.
    #[inline]
    pub(crate) const fn are_none(self) -> bool {
        self.0 == 0
    }

    /// Whether nothing is asked but this.
    pub(crate) const fn are_none_but(self, it: Self) -> bool {
        self.0 & !it.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_has_a_bit_of_its_own() {
        let all = [
            Extras::MODE,
            Extras::RULES,
            Extras::OBSERVING,
            Extras::SHADOW_LAW,
            Extras::LABEL_METRICS,
            Extras::SLOT_TTL,
        ];
        assert!(Extras::of(all.map(|it| (it, false))).are_none());
        for asked in all {
            let word = Extras::of(all.map(|it| (it, it == asked)));
            assert_eq!((word, word.are_none()), (asked, false));
        }
        assert_eq!(Extras::of(all.map(|it| (it, true))).0.count_ones() as usize, all.len());
    }
}
