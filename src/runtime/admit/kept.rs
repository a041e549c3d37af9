//! A slot that outlives its request, since the work does.

use std::{
    any::Any,
    sync::{Arc, Mutex, Weak},
};

/// Where a request leaves its slot when it ends before its work. The slot goes back with the last reference to this.
pub(super) type SlotShelf<S> = Mutex<Option<S>>;

/// Keeps the slot of a request for work that may outlive it: an extension of requests whose [`Policy`](crate::policy::Policy)
/// says [`Abandoned::Kept`](crate::policy::Abandoned::Kept).
#[derive(Clone, Debug)]
pub struct SlotKeeper {
    shelf: Weak<dyn Any + Send + Sync>,
    handle: usize,
}

impl SlotKeeper {
    pub(super) fn new<S: Send + 'static>(shelf: &Arc<SlotShelf<S>>, handle: usize) -> Self {
        Self { shelf: Arc::downgrade(shelf) as _, handle }
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
    _shelf: Arc<dyn Any + Send + Sync>,
    handle: usize,
}

impl KeptSlot {
    /// Returns what tells the handle from others.
    pub(crate) const fn handle_id(&self) -> usize {
        self.handle
    }
}
