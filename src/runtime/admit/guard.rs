//! A slot, until it is given back: the inside of a permit.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    expired_slots::PermitExpiry,
    kept::{SlotKeeper, SlotShelf},
    lease_lost::LeaseLost,
};
use crate::runtime::{
    background::{self, Since},
    core::{Along, LentSlot, SlotNumber, SlotRef, discard, lock},
    shared::{LaneArena, Shared},
};
use crate::{
    Outcome, Timestamp,
    engine::{DryRunOutcome, PartitionId, TtlId},
    store,
    ticket::Ticket,
};

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
pub(crate) struct SlotGuard {
    pub(super) source: SlotSource,
}

/// The slot of a guard.
#[derive(Debug)]
pub(super) enum SlotSource {
    /// The engine lent it, and knows nothing of this request.
    Lent(&'static LaneArena, LentSlot),
    /// The engine gave it to this request.
    Own(OwnSlot),
    /// The same, with more to give back.
    Special(Box<SpecialSlot>),
    /// It was given back.
    Nothing,
}

/// A slot that the engine gave to a request.
#[derive(Debug)]
pub(super) struct OwnSlot {
    pub(super) shared: Arc<Shared>,
    pub(super) number: SlotNumber,
    is_observed: bool,
}

/// A slot that expires, or that goes with a lease of the rules that all instances share.
#[derive(Debug)]
pub(super) struct SpecialSlot {
    own: OwnSlot,
    ttl: Option<TtlId>,
    lease: Option<Box<store::LeaseGuard>>,
    /// Where the slot is left when its request ends before its work.
    shelf: Option<Arc<SlotShelf<SlotGuard>>>,
    /// Whether it was left there.
    is_kept: bool,
}

impl SpecialSlot {
    const fn of(own: OwnSlot) -> Self {
        Self { own, ttl: None, lease: None, shelf: None, is_kept: false }
    }
}

const _: () = assert!(size_of::<SlotGuard>() <= 24, "a guard moves with its request, several times");

impl SlotGuard {
    /// Returns the guard of a slot, before any foreign code is told of the slot: a panic there gives it back.
    #[expect(clippy::needless_pass_by_value, reason = "a slot has a single guard")]
    pub(in crate::runtime) fn admitted(shared: Arc<Shared>, slot: SlotRef, since: Option<Since>) -> Self {
        let SlotRef { number, partition, ttl, is_observed, dry_run } = slot;
        let own = OwnSlot { shared, number, is_observed };
        let source = match ttl {
            None => SlotSource::Own(own),
            Some(_) => SlotSource::Special(Box::new(SpecialSlot { ttl, ..SpecialSlot::of(own) })),
        };
        let guard = Self { source };
        if let Some(own) = guard.own() {
            background::admitted(&own.shared, partition, dry_run, since);
        }
        guard
    }

    /// Takes a lent slot of a partition, if all is quiet and the request asks for nothing else, as does a request without a
    /// ticket: a request that gets `None` asks the engine.
    #[expect(clippy::inline_always, reason = "measured: the guard is made where it stays")]
    #[inline(always)]
    pub(crate) fn enter(shared: &Shared, partition: PartitionId, ticket: Option<&Ticket<'_>>) -> Option<Self> {
        if ticket.is_some_and(|ticket| !ticket.is_plain()) {
            return None;
        }
        Some(Self::lent(shared, partition, ticket.and_then(Ticket::remaining), shared.enter(partition)?))
    }

    /// Returns the guard of a lent slot.
    #[inline]
    pub(super) fn lent(shared: &Shared, partition: PartitionId, timeout: Option<Duration>, slot: LentSlot) -> Self {
        let guard = Self { source: SlotSource::Lent(shared.arena(), slot.for_at_most(timeout)) };
        background::admitted(shared, partition, DryRunOutcome::NOTHING, None);
        guard
    }

    /// Like `self`, with the lease of shared rules.
    pub(in crate::runtime) fn leased(mut self, lease: Box<store::LeaseGuard>) -> Self {
        if let Some(special) = self.special() {
            special.lease = Some(lease);
        }
        self
    }

    /// Makes room for more to give back with a slot of the engine.
    fn special(&mut self) -> Option<&mut SpecialSlot> {
        self.source = match std::mem::replace(&mut self.source, SlotSource::Nothing) {
            SlotSource::Own(own) => SlotSource::Special(Box::new(SpecialSlot::of(own))),
            other => other,
        };
        if let SlotSource::Special(special) = &mut self.source { Some(special) } else { None }
    }

    pub(super) fn own(&self) -> Option<&OwnSlot> {
        match &self.source {
            SlotSource::Own(own) => Some(own),
            SlotSource::Special(special) => Some(&special.own),
            SlotSource::Lent(..) | SlotSource::Nothing => None,
        }
    }

    /// Returns the number of the slot's end, and the handle that knows of it, if the slot expires.
    fn end(&self) -> Option<(&Arc<Shared>, TtlId)> {
        let SlotSource::Special(special) = &self.source else { return None };
        Some((&special.own.shared, special.ttl?))
    }

    pub(crate) fn observe(&mut self, outcome: Outcome) {
        if self.is_observed() {
            return;
        }
        if let SlotSource::Lent(arena, slot) = &mut self.source
            && outcome != Outcome::Overload
        {
            return arena.observe(slot, outcome);
        }
        self.take_over(Some(outcome));
        let own = match &mut self.source {
            SlotSource::Own(own) => own,
            SlotSource::Special(special) => &mut special.own,
            SlotSource::Lent(..) | SlotSource::Nothing => return,
        };
        if !std::mem::replace(&mut own.is_observed, true) {
            let now = own.shared.time.now();
            own.shared.with_engine(|state, _| state.observe(now, own.number, outcome));
        }
    }

    /// Has the engine count this request, if it was admitted without the engine. An overload of a request that was not
    /// timed is told at once.
    fn take_over(&mut self, outcome: Option<Outcome>) {
        let SlotSource::Lent(arena, slot) = &self.source else { return };
        let Some(shared) = arena.owner() else { return };
        let slot_ref = shared.take_over(slot, outcome);
        self.source = SlotSource::Own(OwnSlot { number: slot_ref.number, is_observed: slot_ref.is_observed, shared });
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.end().is_some_and(|(shared, ttl)| shared.with_engine(|state, _| state.engine.is_expired(ttl)))
    }

    /// Returns the signal that tells the holder that its slot expired, where slots expire.
    pub(crate) fn watch_time(&self) -> Option<PermitExpiry> {
        self.end()?;
        let (expiry, waker) = PermitExpiry::new();
        if self.poll_expired(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
        Some(expiry)
    }

    /// Returns the signal that tells the holder that its lease is lost, if it has one.
    pub(crate) fn watch_lease(&self) -> Option<LeaseLost> {
        let SlotSource::Special(special) = &self.source else { return None };
        Some(LeaseLost::new(special.lease.as_ref()?.signal()))
    }

    pub(super) fn poll_expired(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((shared, ttl)) = self.end() else { return Poll::Pending };
        let waker = cx.waker().clone();
        let (answer, unused) = shared.with_engine(|state, _| {
            if state.engine.is_expired(ttl) {
                return (Poll::Ready(()), Some(waker));
            }
            (Poll::Pending, state.wakers.holders.register(ttl.number(), waker))
        });
        discard(unused);
        shared.drive_here();
        answer
    }

    /// Reports how the work went, and gives the slot back.
    #[inline]
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome, None);
    }

    /// Gives the slot back without a report of how the work went; `learned` says what is learned from that.
    pub(crate) fn abandon(&mut self, learned: impl FnOnce(Outcome) -> Outcome) {
        if self.is_held() {
            self.give_back(learned(unsaid()), None);
        }
    }

    /// Lets the slot be kept for work that may outlive its request. Returns what the handler keeps it with.
    pub(crate) fn share(&mut self) -> Option<SlotKeeper> {
        self.take_over(None);
        let special = self.special()?;
        let shelf = special.shelf.insert(Arc::default());
        Some(SlotKeeper::new(shelf, special.own.shared.id()))
    }

    /// Leaves the slot for the work that keeps it, if any does. Returns whether it did.
    fn leave_on_shelf(&mut self, outcome: Outcome, end: Option<Timestamp>) -> bool {
        let SlotSource::Special(special) = &mut self.source else { return false };
        let Some(shelf) = special.shelf.take().filter(|shelf| Arc::strong_count(shelf) > 1) else { return false };
        special.is_kept = true;
        let own = &mut special.own;
        let was_observed = std::mem::replace(&mut own.is_observed, true);
        let end = end.filter(|&end| end != Timestamp::NEVER).unwrap_or_else(|| own.shared.time.now());
        own.shared.with_engine(|state, _| {
            if !was_observed {
                state.observe(end, own.number, outcome);
            }
            state.kept += 1;
        });
        *lock(&shelf) = Some(Self { source: std::mem::replace(&mut self.source, SlotSource::Nothing) });
        true
    }

    /// Gives the work of the slot up, which may go on. A panic ends it.
    pub(crate) fn leave_work(&mut self, learned: impl FnOnce(Outcome) -> Outcome) {
        let outcome = learned(unsaid());
        self.take_over(Some(outcome));
        let Some(own) = self.own().filter(|_| !std::thread::panicking()) else {
            return self.abandon(|_| outcome);
        };
        let (shared, number) = (Arc::clone(&own.shared), own.number);
        let now = shared.time.now();
        let (ttl, along) = match std::mem::replace(&mut self.source, SlotSource::Nothing) {
            SlotSource::Special(special) => (special.ttl, special.lease.map(|lease| lease as Along)),
            _ => (None, None),
        };
        let unused = shared.with_engine(|state, time| {
            let unwatched = ttl.and_then(|ttl| state.wakers.holders.unregister(ttl.number()));
            (unwatched, state.abandon(time, number, (now, outcome), along))
        });
        discard(Some(unused));
        shared.drive_here();
    }

    /// Whether the slot was not given back yet.
    #[inline]
    pub(crate) const fn is_held(&self) -> bool {
        !matches!(self.source, SlotSource::Nothing)
    }

    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        match &self.source {
            SlotSource::Lent(_, slot) => slot.is_observed,
            _ => self.own().is_none_or(|own| own.is_observed),
        }
    }

    /// Whether the engine lent the slot.
    #[cfg(test)]
    pub(crate) const fn is_lent(&self) -> bool {
        matches!(self.source, SlotSource::Lent(..))
    }

    /// Returns the time for [`give_back`](Self::give_back), for a report of how the work went that may wait until the slot
    /// is given back. Never for a request that is not timed.
    #[inline]
    pub(crate) fn observe_later(&self) -> Timestamp {
        match &self.source {
            SlotSource::Lent(_, slot) if !slot.is_timed() => Timestamp::NEVER,
            _ => self.now(),
        }
    }

    /// Returns the time of the handle; never where the handle is gone.
    #[inline(never)]
    pub(crate) fn now(&self) -> Timestamp {
        match &self.source {
            SlotSource::Lent(arena, slot) => arena.now(slot),
            _ => self.own().map_or(Timestamp::NEVER, |own| own.shared.time.now()),
        }
    }

    /// Reports an overload that showed after [`observe`](Self::observe), which can only lower the limit.
    pub(crate) fn observe_late_overload(&mut self) {
        self.take_over(None);
        if let Some(own) = self.own() {
            own.shared.with_engine(|state, time| state.observe_late_overload(time.now(), own.number));
        }
    }

    /// The same as [`finish`](Self::finish) for work that ended at this time.
    #[inline]
    pub(crate) fn give_back(&mut self, outcome: Outcome, end: Option<Timestamp>) {
        match &self.source {
            SlotSource::Lent(arena, slot) if slot.is_observed || outcome != Outcome::Overload => {
                let arena: &'static LaneArena = arena;
                arena.leave(slot, end, outcome);
                // An assignment would look at the old value once more, for something to drop.
                std::mem::forget(std::mem::replace(&mut self.source, SlotSource::Nothing));
            }
            _ => self.give_own_back(outcome, end),
        }
    }

    fn give_own_back(&mut self, outcome: Outcome, end: Option<Timestamp>) {
        self.take_over(Some(outcome));
        if self.leave_on_shelf(outcome, end) {
            return;
        }
        let special = match std::mem::replace(&mut self.source, SlotSource::Nothing) {
            SlotSource::Own(own) => SpecialSlot::of(own),
            SlotSource::Special(special) => *special,
            // The handle is gone, and with it the engine.
            SlotSource::Lent(arena, slot) => return arena.leave(&slot, end, outcome),
            SlotSource::Nothing => return,
        };
        let SpecialSlot { own: OwnSlot { shared, number, is_observed }, ttl, lease, is_kept, .. } = special;
        // First, so that the waiter that gets the slot finds room. A store is foreign code.
        discard(lease);
        let end = end.filter(|&end| end != Timestamp::NEVER);
        let sample = (!is_observed).then(|| (end.unwrap_or_else(|| shared.time.now()), outcome));
        let unwatched = shared.with_engine(|state, time| {
            let unwatched = ttl.and_then(|ttl| state.wakers.holders.unregister(ttl.number()));
            state.finish(time, number, sample);
            state.kept -= usize::from(is_kept);
            unwatched
        });
        discard(unwatched);
    }
}

impl Drop for SlotGuard {
    #[inline]
    fn drop(&mut self) {
        if self.is_held() {
            self.give_back(unsaid(), None);
        }
    }
}

/// Returns the outcome of a permit that is dropped without a report.
#[cold]
fn unsaid() -> Outcome {
    if std::thread::panicking() { Outcome::Ignore } else { Outcome::Cancelled }
}
