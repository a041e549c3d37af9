//! Of which classes of rules requests came.

use crate::ids::RuleClassId;

/// Of which classes of rules requests came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassesSeen {
    /// A bit for each class of rules.
    classes: [u64; 4],
    /// Requests that had come when the settings were taken.
    pub(crate) before: u64,
}

impl ClassesSeen {
    /// Notes that a request has this class.
    pub(super) const fn note(&mut self, class: RuleClassId) {
        self.classes[class.index() >> 6] |= 1 << (class.index() & 63);
    }

    /// Whether any request had this class.
    pub(crate) const fn has(self, class: RuleClassId) -> bool {
        self.classes[class.index() >> 6] & 1 << (class.index() & 63) != 0
    }
}
