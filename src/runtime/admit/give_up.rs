//! What becomes of the slot of a request whose caller left.

use super::guard::{SlotGuard, SlotSource};
use crate::Outcome;

impl SlotGuard {
    /// Gives up the slot of a request whose caller left: work that goes on keeps it. Work of which nothing is told goes on where it
    /// is known how long callers wait, since the settings follow from that.
    pub(crate) fn give_up(&mut self, goes_on: Option<bool>, learned: impl FnOnce(Outcome) -> Outcome) {
        let knows_default_deadline = || match &self.source {
            SlotSource::Lent(arena, _) => arena.lanes().knows_default_deadline(),
            _ => self.own().is_some_and(|own| own.shared.arena().lanes().knows_default_deadline()),
        };
        if goes_on.unwrap_or_else(knows_default_deadline) { self.leave_work(learned) } else { self.abandon(learned) }
    }
}
