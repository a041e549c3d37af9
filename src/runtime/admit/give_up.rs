//! What becomes of a slot whose caller left, and when the answer to it begins.

use super::guard::{SlotGuard, SlotSource};
use crate::{Outcome, Timestamp, runtime::core::Lanes};

impl SlotGuard {
    /// Gives up the slot of a request whose caller left: work that goes on keeps it. Work of which nothing is told goes on where it
    /// is known how long callers wait, since the settings follow from that.
    pub(crate) fn give_up(&mut self, goes_on: Option<bool>, learned: impl FnOnce(Outcome) -> Outcome) {
        let knows_default_deadline = || self.lanes().is_some_and(Lanes::knows_default_deadline);
        if goes_on.unwrap_or_else(knows_default_deadline) { self.leave_work(learned) } else { self.abandon(learned) }
    }

    /// Notes that the answer begins, if the law, or else the policy of the request, asks for how long the slot is held
    /// from here on. Returns the deadline of the caller, if that is known and has not passed: that of an upload does not pass.
    pub(crate) fn answer(&mut self, is_asked: bool, is_upload: bool) -> Option<Timestamp> {
        if !is_asked && !self.lanes()?.learns_hold_times() {
            return None;
        }
        let by = if is_upload { Timestamp::ZERO } else { self.now() };
        match &mut self.source {
            SlotSource::Lent(_, slot) => slot.answer(by),
            _ => self.own().and_then(|own| own.shared.with_engine(|state, time| state.answer(time, own.number, by))),
        }
    }

    fn lanes(&self) -> Option<&Lanes> {
        match &self.source {
            SlotSource::Lent(arena, _) => Some(arena.lanes()),
            _ => self.own().map(|own| own.shared.arena().lanes()),
        }
    }
}
