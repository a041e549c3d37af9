//! The importance of a request.

use std::fmt;

use super::from_str::is_code;
use crate::codes;

/// The importance of a request. Where not all requests can be served, the least important ones are rejected first.
///
/// The classes and their meaning are those of Google's *Site Reliability Engineering*, chapter "Handling Overload".
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Criticality {
    /// A failure is a visible outage.
    CriticalPlus,
    /// A failure is visible, and less severe. The default.
    #[default]
    Critical,
    /// Some unavailability is expected; a batch job that retries within minutes.
    SheddablePlus,
    /// Partial or full unavailability is expected.
    Sheddable,
}

impl Criticality {
    codes! {
        /// All criticalities, the most important one first.
        4:
            CriticalPlus = "critical_plus", Critical = "critical", SheddablePlus = "sheddable_plus",
            Sheddable = "sheddable",
    }

    /// The criticality with this code; case, and `-` or `_`, make no difference.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| is_code(it.as_str(), word))
    }

    /// 0 for the most important ones, 3 for the least.
    pub(crate) const fn level(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Criticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_levels_are_one_to_one() {
        for (level, one) in Criticality::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(one.level()), level);
            assert_eq!(Criticality::from_word(one.as_str()), Some(one));
        }
        assert_eq!(Criticality::from_word("Sheddable-Plus"), Some(Criticality::SheddablePlus));
        assert_eq!(Criticality::from_word("urgent"), None);
    }
}
