//! Labels that have to wait whatever their turn: at a cap, or until a rule has room.

use crate::engine::{
    Engine,
    ids::LabelId,
    labels::Label,
    rules::{Full, Rules},
    slot::BEYOND,
    tokens::Holder,
};
use crate::time::Timestamp;

impl Engine {
    /// Changes what a label runs or may run, and parks its waiters or lets them stand in line again as that says.
    pub(crate) fn change(&mut self, label: LabelId, change: impl FnOnce(&mut Label)) {
        let (was_full, is_full) = self.quotas.labels.change(label, change);
        if was_full != is_full {
            self.queue.waiting.park(label, is_full);
        }
    }

    /// Charges the start of a request to all rules that count it.
    pub(crate) fn charge(&mut self, now: Timestamp, holder: Holder) {
        if !self.quotas.rules.is_empty() {
            self.quotas.rules.charge(now, self.quotas.labels.get_mut(holder.label), holder.shadow & BEYOND != 0);
        }
    }

    /// Lets a label wait until the rule that stops it has room.
    pub(crate) fn park(&mut self, now: Timestamp, label: LabelId, full: Full) {
        self.queue.waiting.park(label, true);
        match (full.meter, full.until) {
            (Some(meter), _) => self.quotas.rules.park(now, meter, label, self.quotas.labels.get_mut(label)),
            (None, Some(until)) => self.quotas.rates_due.set(label.index(), until),
            // Its own cap: it stands in line again when one of it ends.
            (None, None) => {}
        }
    }

    /// Notes that a waiter of a label was granted a slot, and charges it to all rules.
    pub(crate) fn charge_turn(&mut self, now: Timestamp, holder: Holder) {
        if !self.quotas.rules.is_empty() {
            self.quotas.rules.forget_place(self.quotas.labels.get_mut(holder.label));
            self.charge(now, holder);
        }
    }

    /// Notes that a waiter of a label left: where it was the last one, nothing has to be woken for the label.
    pub(crate) fn forget_parked(&mut self, label: LabelId) {
        if !self.quotas.rules.is_empty() && self.quotas.labels.get(label).waiting == 0 {
            let one = self.quotas.labels.get_mut(label);
            self.quotas.rules.forget_place(one);
            if let Some(consent) = one.account.as_mut().and_then(|account| account.consent.as_mut()) {
                // Whoever comes next asks for itself.
                consent.closed = None;
            }
            self.quotas.rates_due.remove(label.index());
        }
    }

    /// When a rate has room again for a label that waits.
    pub(crate) fn next_rate(&self) -> Timestamp {
        self.quotas.rates_due.first().map_or(Timestamp::NEVER, |(at, _)| at).min(self.quotas.rules.next_due())
    }

    /// Tries labels again whose rate has room by now.
    pub(crate) fn unpark_due(&mut self, now: Timestamp) {
        while let Some((at, number)) = self.quotas.rates_due.first()
            && at <= now
        {
            self.quotas.rates_due.remove(number);
            self.stand_in_line(LabelId::from_index(number));
        }
        self.quotas.rules.pass(now);
    }

    /// Tries the next label for which there is room where it was parked; answers whether there was one.
    pub(crate) fn unpark_freed(&mut self, now: Timestamp) -> bool {
        let Some(label) = self.quotas.rules.next_freed(now) else { return false };
        Rules::unparked(self.quotas.labels.get_mut(label));
        self.stand_in_line(label);
        true
    }

    /// Lets the waiters of a label that were parked stand in line again.
    pub(crate) fn stand_in_line(&mut self, label: LabelId) {
        if !self.quotas.labels.is_full(label) {
            self.queue.waiting.park(label, false);
        }
    }
}
