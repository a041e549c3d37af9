//! The right to run.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::{Context, Poll},
};

use super::{lease_lost::LeaseLost, overdue::PermitExpiry};
use crate::runtime::{
    background::{self, Since},
    core::discard,
    shared::Shared,
};
use crate::{engine::Slot, outcome::Outcome, store};

/// The right to run, until it is dropped.
///
/// Report how it went with [`observe`](Self::observe): the limit is learned from that. A permit that is dropped
/// without a word counts as [`Outcome::Cancelled`], and as [`Outcome::Ignore`] if its thread panics.
///
/// Not `Clone`: it is one slot.
#[must_use = "the slot is free again as soon as the permit is dropped"]
#[derive(Debug)]
pub struct Permit {
    held: SlotGuard<Arc<Shared>>,
}

impl Permit {
    pub(in crate::runtime) const fn new(held: SlotGuard<Arc<Shared>>) -> Self {
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
        poll_fn(|cx| self.held.poll_overdue(cx))
    }

    /// Returns a signal that tells whether the lease of the permit's shared rules is lost while the work goes on;
    /// `None` without a lease.
    pub fn lease(&self) -> Option<LeaseLost> {
        self.held.watch_lease()
    }

    /// Reports how the work went and gives the slot back, both in one turn.
    pub fn finish(self, outcome: Outcome) {
        self.held.finish(outcome);
    }
}

/// A reference to the state of a handle: that state itself, or a protocol that contains it. A layer counts references
/// to its protocol for each request anyway, and those to the state come with them.
pub(crate) trait AsShared {
    fn shared(&self) -> &Arc<Shared>;
}

impl AsShared for Arc<Shared> {
    fn shared(&self) -> &Self {
        self
    }
}

/// A slot that is given back when this is dropped: the inside of a [`Permit`].
#[derive(Debug)]
pub(crate) struct SlotGuard<H: AsShared> {
    handle: H,
    slot: Slot,
    /// Lease of the rules that all instances share.
    lease: Option<Box<store::Held>>,
}

impl<H: AsShared> SlotGuard<H> {
    /// Returns the guard of a slot, before any foreign code is told of the slot: a panic there gives it back.
    pub(in crate::runtime) fn admitted(handle: H, slot: Slot, since: Option<Since>) -> Self {
        let held = Self { handle, slot, lease: None };
        background::admitted(held.handle.shared(), &held.slot, since);
        held
    }

    /// Like `self`, with the lease of shared rules.
    pub(in crate::runtime) fn leased(self, lease: Box<store::Held>) -> Self {
        let mut held = self;
        held.lease = Some(lease);
        held
    }

    pub(crate) const fn handle(&self) -> &H {
        &self.handle
    }

    pub(crate) fn observe(&mut self, outcome: Outcome) {
        if !self.slot.is_observed() {
            let shared = self.handle.shared();
            let now = shared.time.now();
            shared.with_engine(|state, _| state.observe(now, &mut self.slot, outcome));
        }
    }

    pub(crate) fn is_expired(&self) -> bool {
        let tenure = self.slot.ttl();
        tenure.is_some_and(|tenure| self.handle.shared().with_engine(|state, _| state.engine.is_expired(tenure)))
    }

    /// Returns the signal that tells the holder that its slot expired, where slots expire.
    pub(crate) fn watch_time(&self) -> Option<PermitExpiry> {
        let tenure = self.slot.ttl()?;
        let (overdue, waker) = PermitExpiry::new();
        let shared = self.handle.shared();
        let _dropped_outside = shared.with_engine(|state, _| {
            if state.engine.is_expired(tenure) {
                return Some(waker);
            }
            state.wakers.register_holder(tenure, waker)
        });
        shared.drive_here();
        Some(overdue)
    }

    /// Returns the signal that tells the holder that its lease is lost, if it has one.
    pub(crate) fn watch_lease(&self) -> Option<LeaseLost> {
        Some(LeaseLost::new(self.lease.as_ref()?.signal()))
    }

    fn poll_overdue(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(tenure) = self.slot.ttl() else { return Poll::Pending };
        let shared = self.handle.shared();
        let waker = cx.waker().clone();
        let (answer, unused) = shared.with_engine(|state, _| {
            if state.engine.is_expired(tenure) {
                return (Poll::Ready(()), Some(waker));
            }
            (Poll::Pending, state.wakers.register_holder(tenure, waker))
        });
        discard(unused);
        shared.drive_here();
        answer
    }

    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// Gives the slot back without a report of how the work went; `learned` says what is learned from that.
    pub(crate) fn abandon(mut self, learned: impl FnOnce(Outcome) -> Outcome) {
        self.give_back(learned(unsaid()));
    }

    pub(crate) const fn is_observed(&self) -> bool {
        self.slot.is_observed()
    }

    /// Reports an overload that showed after [`observe`](Self::observe), which can only lower the limit.
    pub(crate) fn observe_late_overload(&self) {
        self.handle.shared().with_engine(|state, time| state.observe_late_overload(time.now(), &self.slot));
    }

    fn give_back(&mut self, outcome: Outcome) {
        // First, so that the waiter that gets the slot finds room. A store is foreign code.
        discard(self.lease.take());
        let shared = self.handle.shared();
        let told = (!self.slot.is_observed()).then(|| (shared.time.now(), outcome));
        let unwatched = shared.with_engine(|state, time| {
            let unwatched = self.slot.ttl().and_then(|tenure| state.wakers.unregister_holder(tenure));
            state.finish(time, &mut self.slot, told);
            unwatched
        });
        discard(unwatched);
    }
}

impl<H: AsShared> Drop for SlotGuard<H> {
    fn drop(&mut self) {
        if !self.slot.is_finished() {
            self.give_back(unsaid());
        }
    }
}

/// Returns the outcome of a permit that is dropped without a report.
fn unsaid() -> Outcome {
    if std::thread::panicking() { Outcome::Ignore } else { Outcome::Cancelled }
}
