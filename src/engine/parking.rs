//! Labels that have to wait whatever their turn: at a cap, or until a rule has room.

use super::{
    Engine,
    labels::{Label, LabelId},
    rules::{Full, Rules},
    slot::BEYOND,
    tenure::Holder,
};
use crate::time::Timestamp;

impl Engine {
    /// Changes what a label runs or may run, and parks its waiters or lets them stand in line again as that says.
    pub(super) fn change(&mut self, label: LabelId, change: impl FnOnce(&mut Label)) {
        let (was_full, is_full) = self.labels.change(label, change);
        if was_full != is_full {
            self.waiting.park(label, is_full);
        }
    }

    /// Charges the start of a request to all rules that count it.
    pub(super) fn charge(&mut self, now: Timestamp, holder: Holder) {
        if !self.rules.is_empty() {
            self.rules.charge(now, self.labels.get_mut(holder.label), holder.shadow & BEYOND != 0);
        }
    }

    /// Lets a label wait until the rule that stops it has room.
    pub(super) fn park(&mut self, now: Timestamp, label: LabelId, full: Full) {
        self.waiting.park(label, true);
        match (full.meter, full.until) {
            (Some(meter), _) => self.rules.park(now, meter, label, self.labels.get_mut(label)),
            (None, Some(until)) => self.rates_due.set(label.index(), until),
            // Its own cap: it stands in line again when one of it ends.
            (None, None) => {}
        }
    }

    /// Notes that a waiter of a label was granted a slot, and charges it to all rules.
    pub(super) fn charge_turn(&mut self, now: Timestamp, holder: Holder) {
        if !self.rules.is_empty() {
            self.rules.forget_place(self.labels.get_mut(holder.label));
            self.charge(now, holder);
        }
    }

    /// Notes that a waiter of a label left: where it was the last one, nothing has to be woken for the label.
    pub(super) fn forget_parked(&mut self, label: LabelId) {
        if !self.rules.is_empty() && self.labels.get(label).waiting == 0 {
            let one = self.labels.get_mut(label);
            self.rules.forget_place(one);
            if let Some(consent) = one.account.as_mut().and_then(|account| account.consent.as_mut()) {
                // Whoever comes next asks for itself.
                consent.closed = None;
            }
            self.rates_due.remove(label.index());
        }
    }

    /// When a rate has room again for a label that waits.
    pub(super) fn next_rate(&self) -> Timestamp {
        self.rates_due.first().map_or(Timestamp::NEVER, |(at, _)| at).min(self.rules.next_due())
    }

    /// Tries labels again whose rate has room by now.
    pub(super) fn unpark_due(&mut self, now: Timestamp) {
        while let Some((at, number)) = self.rates_due.first()
            && at <= now
        {
            self.rates_due.remove(number);
            self.stand_in_line(LabelId::from_index(number));
        }
        self.rules.pass(now);
    }

    /// Tries the next label for which there is room where it was parked; answers whether there was one.
    pub(super) fn unpark_freed(&mut self, now: Timestamp) -> bool {
        let Some(label) = self.rules.next_freed(now) else { return false };
        Rules::unparked(self.labels.get_mut(label));
        self.stand_in_line(label);
        true
    }

    /// Lets the waiters of a label that were parked stand in line again.
    pub(super) fn stand_in_line(&mut self, label: LabelId) {
        if !self.labels.is_full(label) {
            self.waiting.park(label, false);
        }
    }
}
