//! What became of the requests of a label.

use crate::ids::LabelId;

/// What became of the requests of a label.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) admitted: u64,
    /// Rejections by what they stand for, in the order of [`RejectionKind::ALL`].
    pub(super) rejected: [u64; 3],
    /// Requests among those admitted that an observing rule or partition would have rejected.
    pub(crate) would_reject: u64,
    /// Requests that had no answer in time.
    pub(super) left: u64,
    /// First entry of the journal that is about a label of this name: those before are about another label of that number.
    pub(crate) named_from: u64,
    /// Row in which its rejections are counted by reason and rule; 0 is that of all labels without a row of their own.
    pub(super) row: u8,
}

impl Totals {
    /// Returns how many requests were rejected.
    pub(crate) const fn rejected(&self) -> u64 {
        let [saturated, throttled, unavailable] = self.rejected;
        saturated + throttled + unavailable
    }
}

/// A label that has much of something, for as long as it has its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) label: LabelId,
    /// First entry of the journal that is about a label of this name: another label may have the number later.
    pub(super) named_from: u64,
    pub(super) score: f64,
}

impl Scored {
    /// Returns its totals; `None` where another label has the number by now.
    pub(super) fn totals<'a>(&self, all: &'a [Totals]) -> Option<&'a Totals> {
        all.get(self.label.index() as usize).filter(|totals| totals.named_from == self.named_from)
    }
}
