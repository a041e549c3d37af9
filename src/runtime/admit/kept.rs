//! A slot that outlives its request, since the work does.

use std::sync::{Arc, Mutex, Weak};

use super::guard::{SlotGuard, SlotSource};
use crate::{Outcome, runtime::core::lock};

/// Where a request leaves its slot when it ends before its work. The slot goes back with the last reference to this.
#[derive(Debug, Default)]
pub(crate) struct SlotShelf(Mutex<Option<SlotGuard>>);

impl SlotShelf {
    /// Leaves the slot here.
    pub(super) fn put(&self, slot: SlotGuard) {
        *lock(&self.0) = Some(slot);
    }
}

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

/// Keeps the slot of a request for work that may outlive it: an extension of requests whose [`Policy`](crate::policy::Policy)
/// says [`Abandoned::Kept`](crate::policy::Abandoned::Kept).
#[derive(Clone, Debug)]
pub struct SlotKeeper {
    shelf: Weak<SlotShelf>,
    handle: usize,
}

impl SlotKeeper {
    pub(super) fn new(shelf: &Arc<SlotShelf>, handle: usize) -> Self {
        Self { shelf: Arc::downgrade(shelf), handle }
    }

    /// Keeps the slot: it is given back when the request has ended, the answer is sent or given up, and this value and all
    /// other such values of the request are dropped. Move it into the task that does the work.
    ///
    /// `None` once the slot was given back.
    #[must_use]
    pub fn keep(&self) -> Option<KeptSlot> {
        Some(KeptSlot { _shelf: self.shelf.upgrade()?, handle: self.handle })
    }
}

/// A slot that is kept for work that may outlive its request. Made by [`SlotKeeper::keep`].
#[must_use = "the slot may be given back as soon as this is dropped"]
#[derive(Debug)]
pub struct KeptSlot {
    _shelf: Arc<SlotShelf>,
    handle: usize,
}

impl KeptSlot {
    /// Returns what tells the handle from others.
    pub(crate) const fn handle_id(&self) -> usize {
        self.handle
    }
}
