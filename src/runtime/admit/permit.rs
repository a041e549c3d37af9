//! The right to run.

use std::future::{Future, poll_fn};

use super::{guard::SlotGuard, lease_lost::LeaseLost};
use crate::Outcome;

/// The right to run, until it is dropped.
///
/// Report how it went with [`observe`](Self::observe): the limit is learned from that. A permit that is dropped
/// without a word counts as [`Outcome::Cancelled`], and as [`Outcome::Ignore`] if its thread panics.
///
/// Not `Clone`: it is one slot.
#[must_use = "the slot is free again as soon as the permit is dropped"]
#[derive(Debug)]
pub struct Permit {
    held: SlotGuard,
}

impl Permit {
    pub(in crate::runtime) const fn new(held: SlotGuard) -> Self {
        Self { held }
    }

    /// Reports how the work went; its round-trip time ends now. Only the first call counts. The slot stays taken until
    /// the permit is dropped.
    pub fn observe(&mut self, outcome: Outcome) {
        self.held.observe(outcome);
    }

    /// Whether the permit expired and its slot was taken back. The work may go on, beyond the limit.
    pub fn is_expired(&self) -> bool {
        self.held.is_expired()
    }

    /// Waits until the permit expires and its slot is taken back; for ever, if permits have no time to live.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub fn expired(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| self.held.poll_expired(cx))
    }

    /// Returns a signal that tells whether the lease of the permit's shared rules is lost while the work goes on;
    /// `None` without a lease.
    pub fn lease(&self) -> Option<LeaseLost> {
        self.held.watch_lease()
    }

    /// Gives the work up, which may go on: the slot stays taken for as long as such work is likely to need, as
    /// [`Abandoned::GoesOn`](crate::policy::Abandoned::GoesOn) says. What is learned is [`Outcome::Cancelled`], unless the work
    /// was observed before.
    pub fn abandon(mut self) {
        self.held.leave_work(|outcome| outcome);
    }

    /// Reports how the work went and gives the slot back, both in one turn.
    pub fn finish(self, outcome: Outcome) {
        self.held.finish(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Admission, Ticket, limit::Fixed};

    impl Permit {
        pub(crate) fn into_slot(self) -> SlotGuard {
            self.held
        }

        /// Whether the engine lent the slot.
        pub(in crate::runtime) const fn is_lent(&self) -> bool {
            self.held.is_lent()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_asks_after_its_slot_expired_is_told_at_once() {
        let time_to_live = Duration::from_secs(1);
        let admission = Admission::builder().limit(Fixed::new(1)).permit_time_to_live(time_to_live).build().unwrap();
        let slot = admission.try_admit(Ticket::new()).unwrap().into_slot();
        assert!(!slot.watch_time().unwrap().is_expired(), "control");
        tokio::time::advance(time_to_live).await;
        admission.tick();
        assert!(slot.is_expired() && slot.watch_time().unwrap().is_expired());
    }
}
